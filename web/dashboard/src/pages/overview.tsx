import { useEffect } from 'preact/hooks'
import { Changes, useChanges } from '../changes'
import { Chart, isCut, type Line } from '../chart'
import { amount, bytes, duration, exact, moment, queueName, short } from '../format'
import { Heat } from '../heat'
import { List } from '../list'
import { useLive } from '../live'
import { Answer, Count, Empty, Failed, Mark, MetaChips, Progress, State, SubmissionLink, Tile, atLimit, ends } from '../parts'
import { quern, queuePath } from '../api'
import { PastPicker, usePast, zoom } from '../past'
import { link, queue, refine, route } from '../state'
import { divided, keys, stats, sure } from '../stream'
import { HowLong } from './durations'
import { ShardLists } from './shards'
import type { Diagnosis, KeysFrame, Page, Series, StatsFrame, Submission } from '../types'

export function Overview() {
  const frame = stats.value
  const nothing = frame && frame.stats.submissions_open === 0 && !sure.value
  const shards = divided.value > 0 && <ShardLists of={queue.value} />
  if (!frame || nothing) return <><div class="card w12"><p class="note">Waiting for the first numbers of queue “{queueName(queue.value)}”.</p></div>{shards}</>
  return (
    <>
      <div class="head"><h1>Overview</h1><span>queue {queueName(queue.value)}</span></div>
      {frame.stats.disk_full > 0 && <div class="banner"><Mark of="dead" /><span><b>The disk is full.</b> The server refuses inserts until there is space. Completions continue.</span></div>}
      {frame.stats.memory_full > 0 && <div class="banner"><Mark of="dead" /><span><b>The memory is full.</b> The server uses all that its option memory-limit allows, and refuses inserts until work has ended. All other calls continue.</span></div>}
      <Said frame={frame} />
      <Tiles frame={frame} />
      <Throughput />
      <HeldBack frame={frame} keyed={keys.value} />
      {shards}
      <Strips keyed={keys.value} />
      <Largest open={frame.stats.submissions_open} />
      <HowLong />
    </>
  )
}

/** Why work waits, and when it is done, in one sentence of the server. */
function Said({ frame }: { frame: StatsFrame }) {
  const read = useLive<Diagnosis>(`${queuePath(queue.value)}/diagnosis`, 2)
  const s = frame.stats
  const old = read.data?.causes[0]?.kind === 'empty' && s.ready + s.waiting + s.paused + s.blocked > 0 // it is read every second frame
  useEffect(() => { if (old) read.refresh() }, [old])
  const d = old ? undefined : read.data
  const f = d?.forecast
  if (read.problem) return <div class="w12"><Failed problem={read.problem} again={read.again} /></div>
  return (
    <section class="card w12 says" aria-label="Answer">
      <p>{d ? <Answer d={d} /> : 'Reading…'}</p>
      {f && <p class="foot">Done {ends(f, Date.parse(frame.at))}.</p>}
      {d && !f && s.ready > 0 && s.reserved === 0 && s.consumers_waiting === 0 && <p class="foot"><code>{quern('work', '--', './your-command')}</code></p>}
    </section>
  )
}

function Tiles({ frame: { at, stats: s, rates } }: { frame: StatsFrame }) {
  const [f, now] = [s.forecast, Date.parse(at)]
  const free = s.ready + s.waiting + s.reserved
  const open = free + s.paused + s.blocked
  return (
    <>
      <Tile of="ready" name="Ready" href={link('submissions', { state: 'open' })} value={short(s.ready)} title={exact(s.ready)}>in {amount(s.submissions_open, 'submission')}</Tile>
      <Tile of="reserved" name="In flight" href={link('reservations')} value={short(s.reserved)} title={exact(s.reserved)}>{amount(s.consumers_waiting, 'call waits', 'calls wait')} for work</Tile>
      <Tile of="waiting" name="Waiting" href={link('failing')} value={short(s.waiting)} title={exact(s.waiting)}>for run_at or a retry</Tile>
      <Tile of="done" name="Done" href={link('submissions', { state: 'completed' })} value={`${short(rates.done)}/s`} title={`${amount(rates.done, 'chunk')} per second`}>{short(s.done_total)} since the start</Tile>
      <Tile name="Oldest ready" value={s.ready > 0 ? duration(s.oldest_ready_seconds) : '—'}>{s.ready > 0 ? 'since it was inserted' : 'nothing is ready'}</Tile>
      <Tile name="Empty in" value={open === 0 ? 'now' : f?.moving ? duration(Math.max(1, (Date.parse(f.p50) - now) / 1000)) : '—'} title={f ? ends(f, now) : ''}>{open === 0 ? 'nothing is open' : f?.moving ? `nine times in ten within ${duration(Math.max(1, (Date.parse(f.p90) - now) / 1000))}${f.not_before ? `, not before ${moment(f.not_before)}` : ''}` : f ? 'a part does not move' : free === 0 ? 'rules hold all of it' : rates.done > 0 ? 'the pace is being measured' : 'no chunk is finishing'}</Tile>
    </>
  )
}

function Throughput() {
  const backlog = route.value.query.get('chart') === 'backlog'
  const past = usePast()
  const { of, raw } = past
  const line = (name: string, mark: string, column: keyof Series, more: Partial<Line> = {}) => ({ name, of: mark, values: of?.[column] ?? [], now: raw?.[column].at(-1) ?? 0, ...more })
  const lines = backlog
    ? [line('Ready', 'ready', 'ready', { fill: true }), line('Waiting', 'waiting', 'waiting'), line('In flight', 'reserved', 'reserved'), line('Dead', 'dead', 'dead')]
    : [line('Done', 'done', 'done_rate', { fill: true }), line('Reserved', 'reserved', 'reserved_rate'), line('Inserted', 'ready', 'inserted_rate', { cut: true }), line('Failed', 'dead', 'failed_rate')]
  const changes = useChanges(past.within)
  return (
    <section class="card w8 tall">
      <header>
        <h2>{backlog ? 'Backlog, chunks' : 'Throughput, chunks per second'}</h2>
        <div class="row">
          <span class="seg" role="group" aria-label="What the chart shows">
            <button aria-pressed={!backlog} onClick={() => refine({ chart: undefined })}>Throughput</button>
            <button aria-pressed={backlog} onClick={() => refine({ chart: 'backlog' })}>Backlog</button>
          </span>
          <PastPicker />
        </div>
      </header>
      {past.read.problem ? <Failed problem={past.read.problem} again={past.read.again} />
        : of && of.at.length > 1 ? <Chart at={of.at} lines={lines} marks={changes.map((e) => Date.parse(e.at) / 1000)} name={backlog ? 'Backlog' : 'Throughput'} from={past.from} to={past.to} zoom={zoom} />
        : !of ? <p class="note">Reading…</p>
        : <Empty>The chart begins after two {past.step}s. The server keeps its history in memory.</Empty>}
      <div class="legend">{lines.map((l) => <span key={l.name}><Mark of={l.of} />{l.name} <b>{short(l.now)}{backlog ? '' : '/s'}</b>{isCut(l, lines) && <span class="note">(its peaks are cut: {short(Math.max(...l.values))}/s)</span>}</span>)}<span class="note">{past.begins && `${past.begins}; `}{past.point}; drag over the chart, or press + on it, to see less of it</span></div>
      <Changes items={changes} within={past.within} />
    </section>
  )
}

/** The reasons why chunks are not handed out, as far as counters show them. Only Explain knows which chunks a strategy refuses. */
function HeldBack({ frame: { stats: s }, keyed }: { frame: StatsFrame; keyed: KeysFrame | null }) {
  const full = (keyed?.keys ?? []).map((k) => {
    const at = k.top.filter(atLimit)
    return { key: k.key, values: at.length, ready: at.reduce((n, v) => n + v.ready, 0) }
  }).filter((k) => k.values > 0)
  return (
    <section class="card w4">
      <header><h2>Why work waits</h2><small><Count n={s.ready + s.waiting + s.paused + s.blocked + s.dead_letters} /> not in flight</small></header>
      <table>
        <caption class="sr">Chunks by what they wait for</caption>
        <tbody>
          <tr><td class="wrap"><Mark of="waiting" /> A time: run_at or a retry</td><td class="r"><Count n={s.waiting} /></td></tr>
          <tr><td class="wrap"><Mark of="paused" /> {s.paused > 0 ? <a href={link('rules')}>Paused by a rule</a> : 'Paused by a rule'}</td><td class="r"><Count n={s.paused} /></td></tr>
          {s.blocked > 0 && <tr><td class="wrap"><Mark of="blocked" /> <a href={link('rules')}>Blocked by a rule</a></td><td class="r"><Count n={s.blocked} /></td></tr>}
          <tr><td class="wrap"><Mark of="dead" /> {s.dead_letters > 0 ? <><a href={link('dead-letters')}>Dead: out of attempts</a>, <a href={link('dead-letters', { died: '1h' })}>those of the last hour</a></> : 'Dead: out of attempts'}</td><td class="r"><Count n={s.dead_letters} /></td></tr>
          <tr><td class="wrap"><Mark of="ready" /> Ready: waits for a consumer</td><td class="r"><Count n={s.ready} /></td></tr>
          {full.map((k) => <tr key={k.key} class="part"><td class="wrap">of these behind a reached limit of <a class="chip" href={link('keys', { key: k.key })}>{k.key}</a> ({amount(k.values, 'value')})</td><td class="r"><Count n={k.ready} /></td></tr>)}
        </tbody>
      </table>
      <p class="foot">This counts only limits set on values. To see the effect of a strategy’s filters and limits: <a href={link('strategies')}>Explain a strategy</a>.</p>
      <p class="foot note">{amount(s.failed_total, 'attempt')} failed, {exact(s.expired_total)} expired since the start. On disk: {bytes(s.journal_bytes + s.store_bytes)}.</p>
    </section>
  )
}

function Strips({ keyed }: { keyed: KeysFrame | null }) {
  const chosen = route.value.query.get('key')
  const frame = keyed?.keys.find((k) => k.key === chosen) ?? keyed?.keys[0]
  return (
    <section class="card w12 half">
      <header>
        <div class="row"><h2>In flight by</h2>
          {keyed && keyed.keys.length > 0 && <span class="seg" role="group" aria-label="Meta key">{keyed.keys.map((k) => <button key={k.key} aria-pressed={k.key === frame?.key} onClick={() => refine({ key: k.key })}>{k.key}</button>)}</span>}
        </div>
        <div class="legend"><span>last 10 min, a cell is 5 s</span><span><Mark of="zero" />none</span><span><Mark of="reserved" />a fuller cell: more</span><span><Mark of="dead" />top edge: at its limit</span><span>· not known</span></div>
      </header>
      {!keyed ? <p class="note">Reading…</p> : !frame ? <Empty command={quern('submit', '--queue', queue.value, '--count', 1000, '--template', 'row {index}', '--meta', 'company=acme')}>No open submission has meta. Submissions with meta appear here, by value.</Empty> : (
        <>
          <Heat key={frame.key} frame={frame} at={keyed.at} rows={12} />
          <p class="foot">
            {frame.whole ? '' : 'More than '}{amount(frame.values, 'value')} · {exact(frame.top.filter(atLimit).length)} at their limit
            {frame.rest.values > 0 && <> · {short(frame.rest.in_flight)} in flight and {short(frame.rest.ready)} ready in {frame.rest.values === 1 ? 'the other one' : `the ${exact(frame.rest.values)} others`}</>}
            {keyed.left > 0 && <> · {amount(keyed.left, 'more key is', 'more keys are')} not followed</>} · <a href={link('keys', { key: frame.key })}>all values</a>
          </p>
        </>
      )}
    </section>
  )
}

function Largest({ open }: { open: number }) {
  const list = useLive<Page<Submission>>(`${queuePath(queue.value)}/submissions?sort=largest&limit=6`, 3)
  const old = open > 0 && list.data?.items.length === 0 // it was read before the first came
  useEffect(() => { if (old) list.refresh() }, [old])
  return (
    <section class="card w12 half">
      <header><h2>Largest open submissions</h2><span class="row"><small>most chunks left first</small><a href={link('submissions', { sort: 'largest' })}>all of them</a></span></header>
      {list.problem ? <Failed problem={list.problem} again={list.again} />
        : !list.data || old ? <p class="note">Reading…</p>
        : list.data.items.length === 0 ? <Empty command={quern('submit', '--queue', queue.value, '--count', 1000, '--template', 'row {index}', '--meta', 'company=acme')}>No submission is open.</Empty>
        : <SubmissionTable list={list.data.items} />}
    </section>
  )
}

function SubmissionTable({ list }: { list: Submission[] }) {
  return (
    <List name="Largest open submissions" items={list} id={(s) => s.id} scope={queue.value} open={(s) => link('submissions/' + s.id)}
      columns={[{ name: 'Submission' }, { name: 'Meta' }, { name: 'Progress' }, { name: 'Chunks', right: true }, { name: 'Done', right: true }, { name: 'State' }]}
      cells={(s) => [
        <td><SubmissionLink id={s.id} /></td>, <td><MetaChips meta={s.meta} /></td>, <td><Progress s={s} /></td>,
        <td class="r"><Count n={s.chunks} /></td>, <td class="r"><Count n={s.done} /></td>, <td><State of={s.state} /></td>,
      ]} />
  )
}
