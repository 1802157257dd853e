import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, pluginPath, quern, shell } from '../api'
import { bytes, amount, exact, moment, percent, short } from '../format'
import { List } from '../list'
import { useAction, useLive, type Live } from '../live'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { Empty, Failed, Mark, Tile } from '../parts'
import { may } from '../session'
import { link, refine, route, say } from '../state'
import { Clamp } from '../text'
import type { Page, Plugin as Of, PluginRecording, PluginStats, PluginVersion } from '../types'
import { Delete, keptBy } from './plugin-delete'
import { Logs } from './plugin-logs'
import { Scores } from './plugin-scores'
import { PluginSettingsForm } from './plugin-settings'
import { Stages } from './plugin-stages'
import { Try } from './plugin-try'
import { PluginState } from './plugins'

export function Plugin({ name }: { name: string }) {
  const path = pluginPath(name)
  const of = useLive<Of>(path, 1)
  const versions = useLive<Page<PluginVersion>>(`${path}/versions`, 3)
  const stats = useLive<PluginStats>(`${path}/stats`, 1)
  const wanted = route.value.query.get('version')
  const version = versions.data?.items.find((v) => (wanted ? v.sha256.startsWith(wanted) || v.version === wanted : v.sha256 === (of.data?.active?.sha256 ?? of.data?.latest))) ?? versions.data?.items[0]
  const again = () => { of.again(); versions.again(); stats.again() }
  const p = of.data
  return (
    <>
      <div class="head">
        <h1>Plugin</h1><span class="mono">{name}</span>{p && <PluginState of={p.state} />}
        <div class="act">{p && <Gate scope="plugins"><Whole p={p} again={again} /></Gate>}<CopyAs cli={quern('plugin', 'get', name)} curl={curl('GET', path)} /></div>
      </div>
      {of.problem && <div class="w12"><Failed problem={of.problem} again={of.again} /></div>}
      {p && <Broken p={p} again={again} />}
      {stats.data && <Numbers s={stats.data} />}
      {p && versions.data && <Scores name={name} path={path} version={wanted ? version?.sha256 : p.active?.sha256 ?? version?.sha256} />}
      {versions.problem && <div class="w12"><Failed problem={versions.problem} again={versions.again} /></div>}
      {p && versions.data && <Versions p={p} list={versions.data.items} chosen={version} again={again} />}
      {version && p && (
        <>
          <section class="card w5"><header><h2>Checks of {version.version}</h2><Download v={version} path={path} /></header><Stages version={version} /></section>
          <Gate scope="plugins"><section class="card w7"><Try key={version.sha256} v={version} active={p.active?.sha256 === version.sha256} /></section></Gate>
        </>
      )}
      {p && <Logs name={name} dropped={stats.data?.logs_dropped ?? 0} />}
      {p && <Gate scope="plugins"><section class="card w6"><header><h2>Limits and breaker</h2></header><PluginSettingsForm p={p} again={again} /></section></Gate>}
      {p && <Recordings path={path} />}
    </>
  )
}

/** The actions on the plugin as a whole. */
function Whole({ p, again }: { p: Of; again: () => void }) {
  const action = useAction()
  const order = async (verb: string, done: string) => {
    await call('POST', `${pluginPath(p.name)}/${verb}`, undefined, { 'If-Match': p.etag })
    say(done)
    again()
  }
  const run = (verb: string, done: string) => action.run(() => order(verb, done))
  return (
    <>
      {p.previous && <button disabled={action.busy} title={`to ${p.previous.version} ${p.previous.sha256.slice(0, 8)}`} onClick={() => void run('rollback', `${p.name} is back at ${p.previous!.version}`)}>Roll back to {p.previous.version}</button>}
      {p.active && <Confirm name="Deactivate" look="plain" question={`Take ${p.name} out of use?`} run={() => order('deactivate', `${p.name} is out of use`)}>From the next reservation on, strategies that name it use their next branch. Its versions stay.</Confirm>}
      <Delete what={p.name} path={pluginPath(p.name)} etag={p.etag} cli={['plugin', 'delete', p.name]} wide refused={p.active && `${p.name} is in use (${p.active.version} is active): deactivate it first.`} done={() => { location.hash = link('plugins') }} />
      {action.problem && <Failed problem={action.problem} />}
    </>
  )
}

/** Why the plugin is kept out of use, until when, and the way back. */
function Broken({ p, again }: { p: Of; again: () => void }) {
  const action = useAction()
  const b = p.breaker
  if (b.state === 'closed') return null
  const what: Record<string, string> = {
    open: 'The breaker is open: reservations go on without the plugin.', half_open: 'The breaker lets one batch through as a test.', throttled: 'It is throttled: it used more processor time than allowed.',
    quarantined: 'The active version is in quarantine because it failed too often. Only activating it with force ends the quarantine.', held: 'An operator took it out of use.',
  }
  return (
    <div class="banner" role="status">
      <Mark of="skipped" /><span><b>{what[b.state] ?? b.state}</b> {b.reason}{b.until ? ` One batch is tried at ${moment(b.until)}.` : ''}</span>
      {b.state !== 'quarantined' && b.state !== 'held' && may('plugins') && <button disabled={action.busy} onClick={() => void action.run(async () => { await call('POST', `${pluginPath(p.name)}/reset`, undefined, { 'If-Match': p.etag }); say('The breaker is closed, and the faults are forgotten'); again() })}>Close the breaker</button>}
      {action.problem && <Failed problem={action.problem} />}
    </div>
  )
}

function Numbers({ s }: { s: PluginStats }) {
  const faults = Object.values(s.faults).reduce((a, n) => a + n, 0)
  return (
    <>
      <Tile name="Scored" value={short(s.candidates)} title={exact(s.candidates)}>candidates in {amount(s.batches, 'batch', 'batches', short)}</Tile>
      <Tile name="A candidate" value={s.candidates > 0 ? `${short(Math.round(s.ns_per_candidate))} ns` : '—'}>{exact(Math.round(s.fuel_per_candidate))} fuel</Tile>
      <Tile name="Without it" of="skipped" value={short(s.fallbacks)} title={exact(s.fallbacks)}>reservations that used the next branch</Tile>
      <Tile name="Faults" of={faults > 0 ? 'dead' : 'zero'} value={exact(faults)} title={s.last_fault ?? ''}>{faults === 0 ? 'none since the start' : Object.entries(s.faults).map(([kind, n]) => `${exact(n)} ${kind}`).join(', ')}</Tile>
      <Tile name="Processor" value={`${(100 * s.cpu_share).toFixed(1)} %`}>of one core, last 10 s</Tile>
      <Tile name="Sandboxes" value={exact(s.instances)}>{bytes(s.memory_pages * 65536)} the largest</Tile>
      {s.last_fault && <p class="w12 problem"><b>Last fault</b>{s.last_fault}</p>}
      {Object.keys(s.counters).length > 0 && <section class="card w12"><header><h2>Its own counters</h2></header><dl class="facts">{Object.entries(s.counters).map(([name, n]) => <><dt class="mono">{name}</dt><dd>{exact(n)}</dd></>)}</dl></section>}
      {s.shadow && (
        <section class="card w12">
          <header><h2>Shadow against active</h2><small class="mono">{s.shadow.sha256.slice(0, 12)}</small></header>
          <div class="row legend">
            <span>{amount(s.shadow.batches, 'batch', 'batches')} both scored, {exact(s.shadow.dropped)} it did not</span>
            <span>takes the same in <b>{(100 * s.shadow.overlap).toFixed(1)} %</b></span><span>order agrees (tau) <b>{s.shadow.tau.toFixed(3)}</b></span>
            <span>{Object.entries(s.shadow.faults).map(([kind, n]) => `${exact(n)} ${kind}`).join(', ') || 'no fault'}</span>
          </div>
          <div class="gauge"><div class="bar" aria-hidden="true"><i class="done" style={{ width: `${percent(s.shadow.overlap, 1)}%` }} /></div><span>overlap</span></div>
        </section>
      )}
    </>
  )
}

function Versions({ p, list, chosen, again }: { p: Of; list: PluginVersion[]; chosen: PluginVersion | undefined; again: () => void }) {
  return (
    <section class="card w12">
      <header><h2>Versions</h2><small>{exact(list.length)}, the newest first; a change holds from the next reservation on</small></header>
      {list.length === 0 ? <Empty command={quern('plugin', 'push', p.name + '.wasm')}>It has no versions.</Empty> : (
        <List name="Versions" items={list} id={(v) => v.sha256} scope={p.name} marked={chosen?.sha256} open={(v) => link('plugins/' + p.name, { version: v.sha256.slice(0, 12) })}
          columns={[{ name: 'Version' }, { name: 'In use as' }, { name: 'State' }, { name: 'A candidate', right: true }, { name: 'Fuel', right: true }, { name: 'Size', right: true }, { name: 'Uploaded' }, { name: 'Actions', hidden: true }]}
          cells={(v) => [
            <td><button class="quiet mono" onClick={() => refine({ version: v.sha256.slice(0, 12) })}>{v.version}</button> <span class="note mono">{v.sha256.slice(0, 8)}</span></td>,
            <td>{v.uses.length === 0 ? <span class="note">nothing</span> : v.uses.map((u) => <span class="chip" key={u}>{u}{u === 'canary' ? ` ${p.canary_percent} %` : ''}</span>)}</td>,
            <td title={v.reason ?? ''}><span class="state"><Mark of={v.state === 'ready' ? 'done' : 'dead'} />{v.state}</span></td>,
            <td class="r">{v.report.ns_per_candidate.toFixed(1)} ns</td>, <td class="r">{exact(Math.round(v.report.fuel_per_candidate))}</td>, <td class="r">{bytes(v.size)}</td>,
            <td class="note">{moment(v.created_at)}</td>, <td class="r"><Gate scope="plugins"><Act p={p} v={v} again={again} /></Gate></td>,
          ]} />
      )}
    </section>
  )
}

/** The actions on one version. The etag names the state of the plugin that the page showed, so that no other change is overwritten. */
function Act({ p, v, again }: { p: Of; v: PluginVersion; again: () => void }) {
  const action = useAction()
  const [share, setShare] = useState<string>()
  const path = pluginPath(p.name)
  const order = async (verb: string, body: unknown, done: string) => {
    await call('POST', `${path}/${verb}`, body, { 'If-Match': p.etag })
    say(done)
    setShare(undefined)
    again()
  }
  const post = (verb: string, body: unknown, done: string) => action.run(() => order(verb, body, done))
  const version = v.sha256
  const is = (u: string) => v.uses.includes(u)
  const name = `${p.name} ${v.version}`
  if (share !== undefined) {
    return (
      <form class="row end" onSubmit={(e) => { e.preventDefault(); void post('canary', { version, percent: Number(share) }, `${name} scores ${share} % of the reservations`) }} onKeyDown={(e) => { if (e.key === 'Escape') setShare(undefined) }}>
        <label class="field">Percent <input type="number" min="1" max="100" required value={share} onInput={(e) => setShare(e.currentTarget.value)} ref={(i) => i?.focus()} /></label>
        <button class="main" disabled={action.busy}>Start canary</button><button type="button" onClick={() => setShare(undefined)}>Leave</button>
        {action.problem && <Failed problem={action.problem} />}
      </form>
    )
  }
  return (
    <div class="row end folds">
      {!is('active') && v.state === 'ready' && <button class="main" disabled={action.busy} aria-label={`Activate ${v.version} ${v.sha256.slice(0, 8)}`} onClick={() => void post('activate', { version }, `${name} scores from the next reservation on`)}>Activate</button>}
      {v.state === 'quarantined' && <Confirm name="Activate all the same" question={`End the quarantine of ${name}?`} run={() => order('activate', { version, force: true }, `${name} scores, and its quarantine is over`)}>It was quarantined because it failed too often. It scores again from the next reservation on.</Confirm>}
      {p.active && !is('active') && (is('shadow') ? <button disabled={action.busy} onClick={() => void post('shadow', { version: '' }, 'The shadow is gone')}>End shadow</button>
        : <button disabled={action.busy} aria-label={`Shadow ${v.version} ${v.sha256.slice(0, 8)}`} onClick={() => void post('shadow', { version }, `${name} scores beside the active version, without deciding`)}>Shadow</button>)}
      {p.active && !is('active') && (is('canary') ? <button disabled={action.busy} onClick={() => void post('canary', { version, percent: 0 }, 'The canary is over')}>End canary</button>
        : <button disabled={action.busy} aria-label={`Canary ${v.version} ${v.sha256.slice(0, 8)}`} onClick={() => setShare('5')}>Canary…</button>)}
      <Delete what={name} path={`${path}/versions/${v.sha256}`} etag={p.etag} cli={['plugin', 'delete', p.name, v.sha256.slice(0, 12)]} refused={keptBy(v.version, v.uses)} done={again} />
      {action.problem && <Failed problem={action.problem} />}
      {action.problem?.status === 409 && /\bforce\b/.test(action.problem.detail) && <button class="danger" disabled={action.busy} onClick={() => void post('activate', { version, force: true }, `${name} scores from the next reservation on`)}>Activate all the same</button>}
    </div>
  )
}

/** The module as it was uploaded, with its manifest in it. */
function Download({ v, path }: { v: PluginVersion; path: string }) {
  const file = `${v.name}-${v.sha256.slice(0, 8)}.wasm` // as the server names it
  const from = `${path}/versions/${v.sha256}/wasm`
  return (
    <div class="row">
      <a class="btn" href={from} download={file} aria-label={`Download the module of ${v.version}`}>Download</a>
      <CopyAs cli={quern('plugin', 'download', v.name, v.sha256.slice(0, 12), '--out', file)} curl={`${curl('GET', from)} -o ${shell(file)}`} />
    </div>
  )
}

/** Batches that were kept, to be scored again elsewhere. */
function Recordings({ path }: { path: string }) {
  const list: Live<Page<PluginRecording>> = useLive<Page<PluginRecording>>(`${path}/recordings`, 5)
  return (
    <section class="card w6">
      <header><h2>Recorded batches</h2><small>a sample, and failed batches; in memory</small></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {list.data?.items.length === 0 && <Empty command={shell('quern', 'plugin', 'run', 'plugin.wasm', '--rows', '1.qbatch')}>No recordings. A recording replays exactly the batch that the plugin saw.</Empty>}
      {list.data && list.data.items.length > 0 && (
        <List name="Recorded batches" items={list.data.items} id={(r) => String(r.id)} scope={path} keys={false}
          columns={[{ name: 'File' }, { name: 'When' }, { name: 'Version' }, { name: 'Rows', right: true }, { name: 'Kept because' }]}
          cells={(r) => [<td><a class="mono" href={`${path}/recordings/${r.id}`} download>{r.id}.qbatch</a></td>, <td class="note">{moment(r.time)}</td>, <td class="mono"><Clamp text={r.version} most={16} /></td>, <td class="r">{exact(r.rows)}</td>, <td class="wrap">{r.fault ?? 'sample'}</td>]} />
      )}
    </section>
  )
}

