import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { curl, keyPath, quern, queuePath, valueOf, valueText } from '../api'
import { CopyAs } from '../copy'
import { amount, clamped, duration, exact, moment, percent, short, shown, visible } from '../format'
import { Heat } from '../heat'
import { write } from '../json'
import { List } from '../list'
import { useLive, type Live } from '../live'
import { Count, Empty, Failed, Mark, MetaChips, Progress, SubmissionLink, Tile, atLimit, ends } from '../parts'
import { ActiveRules, names, rules } from '../rules'
import { boundTo, may } from '../session'
import { link, queue } from '../state'
import { keys, stats } from '../stream'
import { Sentence } from '../text'
import type { AuditEntry, Cause, DeadGroups, Diagnosis, Ledger, LedgerTenants, MetaValue, Page, Submission, ValueCount } from '../types'
import { actorOf } from '../told'
import { Change, UndoOf, What } from './activity'
import { HowLong } from './durations'
import { AtLimit, Edit, Oldest, inWords, newer, settingsOf } from './keys'
import { share, signed } from './fairness'
import { Held } from './reservations'

/** One value of a meta key: why its work moves or does not, and all that there is of it. */
export function Value({ name, text }: { name: string; text: string }) {
  const value = valueOf(text)
  const path = `${keyPath(queue.value, name)}/values/${encodeURIComponent(text)}`
  const read = useLive<ValueCount>(path, 2)
  const frame = keys.value?.keys.find((k) => k.key === name)
  const streamed = frame?.top.find((v) => valueText(v.value) === valueText(value))
  const v = read.data ? newer(streamed, read.data) : undefined
  const target = `${name}=${typeof value === 'string' ? visible(write(value)) : value}`
  const gone = read.problem?.code === 'unknown_value'
  const [changed, setChanged] = useState(0)
  const diagnosis = useLive<Diagnosis>(path + '/diagnosis', 3)
  const again = () => { setChanged(changed + 1); read.again(); diagnosis.again() }
  const own = (rules.value?.data?.items ?? []).filter((r) => names(r, name, value))
  return (
    <>
      <div class="head">
        <h1 title={shown(value)}>{name} = <bdi>{clamped(visible(shown(value)), 60)}</bdi></h1><span>{v && `${amount(v.submissions, 'open submission')} · `}<a href={link('keys', { key: name })}>all values of {name}</a></span>
        <div class="act">
          <Gate scope={['consume', 'operate']}><a class="btn" href={link('rules', { meta: `${name}=${valueText(value)}` })}>Pause…</a></Gate>
          <CopyAs cli={quern('diagnose', name, valueText(value), '--queue', queue.value)} curl={curl('GET', path + '/diagnosis')} />
        </div>
      </div>
      <Says read={diagnosis} letters={{ ['meta.' + name]: valueText(value) }} />
      {read.problem && !gone && <div class="w12"><Failed problem={read.problem} again={read.again} /></div>}
      {v && <Numbers name={name} v={v} />}
      {frame && keys.value && v && !boundTo() && (
        <section class="card w12"><header><h2>In flight, last 10 minutes</h2><small>a cell is 5 s</small></header><Heat frame={frame} at={keys.value.at} rows={1} only={v} target={target} /></section>
      )}
      {(v ?? gone) && <Gate scope="operate"><Settings of={name} value={value} v={v} again={again} /></Gate>}
      {own.length > 0 && <section class="card w12"><header><h2>Rules</h2></header><ActiveRules name="Rules about it" items={own} done={() => { rules.value?.again(); again() }} /></section>}
      {!boundTo() && <Standing of={name} value={value} />}
      <Held key={changed} filters={{ ['meta.' + name]: valueText(value), limit: '10' }} name="Holders" none="No consumer holds a chunk of it." changed={again} few />
      <HowLong value={{ key: name, text: valueText(value) }} />
      <Submissions of={name} text={valueText(value)} />
      <Failures of={name} text={valueText(value)} />
      {may('admin') && <ChangesOf key={changed} target={target} none="The audit log has no change of its limit, weight, rate or quota." />}
    </>
  )
}

const marks: Record<string, string> = { limit: 'dead', rule: 'skipped', not_due: 'waiting', after: 'waiting', dead: 'dead', unasked: 'zero', none: 'ready', empty: 'zero' }

/** The sentence of the server, and its causes. Numbers in it tick, so that it is not announced. `letters` is the filter that finds its dead
 * letters. */
export function Says({ read, letters, of }: { read: Live<Diagnosis>; letters: Record<string, string>; /** The sentence's object, if it is not the page's. */ of?: string }) {
  const d = read.data
  if (read.problem) return <div class="w12"><Failed problem={read.problem} again={read.again} /></div>
  if (!d) return <section class="card w12"><p class="note">Reading…</p></section>
  const cut = d.sentence.indexOf(':') + 1
  return (
    <section class="card w12 says" aria-label="Diagnosis">
      <p>{of && <small>{of} </small>}<b>{d.sentence.slice(0, cut)}</b><Sentence text={d.sentence.slice(cut)} /></p>
      <ul>{d.causes.filter((c) => c.chunks > 0).map((c, i) => <li key={c.kind + i} class="row"><Mark of={marks[c.kind] ?? 'zero'} /><span><Sentence text={c.detail} /><Way c={c} letters={letters} /></span><b class="mono">{short(c.chunks)}</b></li>)}</ul>
      {d.forecast && stats.value && <p class="foot">Done {ends(d.forecast, Date.parse(stats.value.at))}.</p>}
      {d.oldest && <p class="foot note">Held for longest: <a class="mono" href={link(`submissions/${d.oldest.submission}/${d.oldest.index}`)}>{d.oldest.submission}/{d.oldest.index}</a>{d.oldest.consumer && <> by <a href={link('consumers/' + encodeURIComponent(d.oldest.consumer))}><bdi>{clamped(visible(d.oldest.consumer), 40)}</bdi></a></>}, until {moment(d.oldest.deadline)}</p>}
    </section>
  )
}

/** Where a cause can be looked at, or changed. */
function Way({ c, letters }: { c: Cause; letters: Record<string, string> }) {
  if (c.rule) return <> · <a href={link('rules')}>rule {c.rule.id}</a></>
  if (c.kind === 'unasked') return <> · <a href={link('strategies')}>strategies</a></>
  if (c.strategy) return <> · <code title={c.strategy}>{clamped(visible(c.strategy), 60)}</code></>
  if (c.kind === 'dead') return <> · <a href={link('dead-letters', letters)}>dead letters</a></>
  return null
}

function Numbers({ name, v }: { name: string; v: ValueCount }) {
  const all = stats.value?.stats.reserved ?? 0
  return (
    <>
      <Tile of="ready" name="Ready" value={short(v.ready)} title={exact(v.ready)}>{v.ready > 0 && v.oldest_ready_at ? <>the oldest for <Oldest v={v} /></> : 'that no rule covers'}</Tile>
      <Tile of="waiting" name="Waiting" value={short(v.waiting ?? 0)} title={exact(v.waiting ?? 0)}>for a retry or run_at</Tile>
      <Tile of="reserved" name="In flight" value={v.limit === null ? short(v.in_flight) : `${short(v.in_flight)} / ${short(v.limit)}`} title={exact(v.in_flight)}>{atLimit(v) ? <>at its limit <AtLimit v={v} /></> : v.in_flight > 0 && all > 0 ? `${percent(v.in_flight, all).toFixed(1)} % of all in flight` : v.limit === null ? 'no limit' : 'of its limit'}</Tile>
      <Tile of="paused" name="Paused" value={short(v.paused ?? 0)} title={exact(v.paused ?? 0)}>{v.blocked ? `and ${short(v.blocked)} blocked, by rules` : 'by a rule'}</Tile>
      <Tile of="dead" name="Dead" value={short(v.dead ?? 0)} title={exact(v.dead ?? 0)} href={link('dead-letters', { ['meta.' + name]: valueText(v.value) })}>of open submissions</Tile>
      <Tile of="done" name="Done" value={short(v.done ?? 0)} title={exact(v.done ?? 0)}>of open submissions</Tile>
    </>
  )
}

/** Limit, weight, rate and quota, changed in place. */
function Settings({ of, value, v, again }: { of: string; value: MetaValue; v: ValueCount | undefined; again: () => void }) {
  const [open, setOpen] = useState(false)
  return (
    <section class="card w12">
      <header><div class="row"><h2>Limit, weight, rate and quota</h2><small>{v ? inWords(settingsOf(v)) : 'not set'}</small></div>{!open && <button onClick={() => setOpen(true)}>Change…</button>}</header>
      {open && <Edit of={of} value={value} v={v} close={(changed) => { setOpen(false); if (changed) again() }} />}
    </section>
  )
}

/** How it stands in the ledgers of its key. */
function Standing({ of, value }: { of: string; value: MetaValue }) {
  const ledgers = useLive<Page<Ledger>>(`${queuePath(queue.value)}/ledgers`, 10)
  const list = (ledgers.data?.items ?? []).filter((l) => l.key === of && l.depth === 0).slice(0, 5)
  return <>{list.map((l) => <InLedger key={l.id} l={l} value={value} />)}</>
}

function InLedger({ l, value }: { l: Ledger; value: MetaValue }) {
  const read = useLive<LedgerTenants>(`${queuePath(queue.value)}/ledgers/${encodeURIComponent(l.id)}?limit=10&value=${encodeURIComponent(valueText(value))}`, 4)
  const t = read.data?.items.find((x) => x.value !== undefined && valueText(x.value) === valueText(value))
  const unit = l.cost === 'time' ? 's' : 'chunks'
  if (!t) return null
  return (
    <section class="card w12">
      <header><div class="row"><h2>Fairness</h2><code title={l.branch}>{clamped(visible(l.branch), 96)}</code></div><a href={link('fairness', { ledger: l.id })}>all tenants</a></header>
      <p>Weight {exact(t.weight)}, entitled to {unit === 's' ? duration(t.entitled) : amount(Math.round(t.entitled), 'chunk')}, received {unit === 's' ? duration(t.received) : exact(Math.round(t.received))}, lag {signed(t.lag)} · {t.state === 'blocked' ? 'held back' : t.state}{t.state === 'active' && `, ${share(100 * t.share)} of what is handed out now`}</p>
    </section>
  )
}

function Submissions({ of, text }: { of: string; text: string }) {
  const filters = new URLSearchParams({ ['meta.' + of]: text, limit: '10' })
  const list = useLive<Page<Submission>>(`${queuePath(queue.value)}/submissions?${filters}`, 3)
  const items = list.data?.items
  return (
    <section class="card w12 half">
      <header><h2>Submissions</h2><div class="row"><small>the newest</small><a href={link('submissions', { ['meta.' + of]: text })}>all of them</a></div></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {items?.length === 0 && <Empty>{list.data?.next ? 'None of the newest submissions has it. There are older ones.' : 'No submission has it.'}</Empty>}
      {items && items.length > 0 && (
        <List name="Submissions" items={items} id={(s) => s.id} scope={text} open={(s) => link('submissions/' + s.id)}
          columns={[{ name: 'Submission' }, { name: 'Meta' }, { name: 'Progress' }, { name: 'Chunks', right: true }, { name: 'Dead', right: true }, { name: 'Age', right: true, age: true }]}
          cells={(s) => [
            <td><SubmissionLink id={s.id} /></td>, <td><MetaChips meta={s.meta} /></td>, <td><Progress s={s} /></td>, <td class="r"><Count n={s.chunks} /></td>,
            <td class="r">{s.dead > 0 ? <a href={link('dead-letters', { submission: s.id })}>{short(s.dead)}</a> : 0}</td>, <td class="r note">{stats.value ? duration(Math.max(0, Date.parse(stats.value.at) - Date.parse(s.created_at)) / 1000) : ''}</td>,
          ]} />
      )}
    </section>
  )
}

/** Its dead letters by their error. */
function Failures({ of, text }: { of: string; text: string }) {
  const filter = { ['meta.' + of]: text }
  const read = useLive<DeadGroups>(`${queuePath(queue.value)}/dead-letters/groups?${new URLSearchParams(filter)}`, 10)
  const groups = read.data
  return (
    <section class="card w12 half">
      <header><div class="row"><h2>Failures</h2>{groups && groups.others > 0 && <small>and {exact(groups.others)} of more kinds</small>}</div><a href={link('dead-letters', filter)}>dead letters of it</a></header>
      {read.problem && <Failed problem={read.problem} again={read.again} />}
      {groups?.items.length === 0 && groups.others === 0 && <p class="note">It has no dead chunks.</p>}
      {groups && groups.items.length > 0 && (
        <List name="Failures" items={groups.items} id={(g) => g.fingerprint} scope={text} keys={false} open={(g) => link('dead-letters', { ...filter, fingerprint: g.fingerprint })}
          columns={[{ name: 'Error, without what varies' }, { name: 'Chunks', right: true }, { name: 'Submissions', right: true }, { name: 'Last' }]}
          cells={(g) => [<td class="wrap"><a title={g.example} href={link('dead-letters', { ...filter, fingerprint: g.fingerprint })}>{g.pattern || 'no error reported'}</a></td>, <td class="r"><Count n={g.count} /></td>, <td class="r"><Count n={g.submissions} /></td>, <td class="note">{g.last_died_at ? moment(g.last_died_at) : ''}</td>]} />
      )}
    </section>
  )
}

/** The audit log's entries about a target. */
export function ChangesOf({ target, none }: { target: string; none: string }) {
  const list = useLive<Page<AuditEntry>>(`/v1/audit?${new URLSearchParams({ queue: queue.value, target, limit: '10' })}`, 10)
  const items = list.data?.items.map((e, i) => ({ ...e, id: `${e.at} ${i}` }))
  return (
    <section class="card w12 half">
      <header><h2>What changed</h2><a href={link('activity', { target, for: 'all' })}>all activity</a></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {items?.length === 0 && <p class="note">{none}</p>}
      {items && items.length > 0 && (
        <List name="What changed" items={items} id={(e) => e.id} scope={target} keys={false} besides={[]} columns={[{ name: 'When' }, { name: 'Who' }, { name: 'What' }, { name: 'Details' }, { name: 'Actions', hidden: true }]}
          cells={(e) => [<td class="note">{moment(e.at)}</td>, <td><bdi>{actorOf(e)}</bdi></td>, <td class="wrap"><What e={e} /></td>, <td class="wrap error"><Change e={e} /></td>, <td class="r"><UndoOf e={e} done={list.again} /></td>]} />
      )}
    </section>
  )
}
