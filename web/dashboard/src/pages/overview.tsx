import { Chart, isCut, type Line } from '../chart'
import { bytes, duration, exact, short } from '../format'
import { Heat } from '../heat'
import { List } from '../list'
import { useLive } from '../live'
import { Count, Empty, Failed, Mark, MetaChips, Progress, State, SubmissionLink, Tile } from '../parts'
import { quern, queuePath } from '../api'
import { boundTo, may, who } from '../session'
import { link, queue, refine, route } from '../state'
import { keys, series, stats } from '../stream'
import { Clamp } from '../text'
import type { AuditEntry, KeysFrame, Page, Series, StatsFrame, Submission } from '../types'

const minutes = 10

export function Overview() {
  const frame = stats.value
  const bound = boundTo()
  if (bound) return <div class="card w12"><Empty>The token {who.value?.name} is bound to <MetaChips meta={bound} />: it sees those <a href={link('submissions')}>submissions</a>, and no numbers of the whole queue.</Empty></div>
  if (!frame) return <div class="card w12"><Empty>Waiting for the first numbers of the queue “{queue.value}”.</Empty></div>
  return (
    <>
      <div class="head"><h1>Overview</h1><span>queue {queue.value}</span></div>
      <Standstill frame={frame} />
      <Tiles frame={frame} />
      <Throughput />
      <HeldBack frame={frame} keyed={keys.value} />
      <Strips keyed={keys.value} />
      <Newest />
    </>
  )
}

/** Says what an operator would otherwise find out late. */
function Standstill({ frame: { stats: s, rates } }: { frame: StatsFrame }) {
  if (s.disk_full) return <div class="banner"><Mark of="dead" /><span><b>The disk is full.</b> Inserts are refused until there is room; completions go on.</span></div>
  if (s.ready > 0 && s.reserved === 0 && rates.reserved === 0 && s.consumers_waiting === 0) {
    return <div class="banner"><Mark of="skipped" /><span><b>No one is asking for work:</b> {exact(s.ready)} chunks are ready, and no consumer holds or waits for any.</span><code>{quern('work', '--', './your-command')}</code></div>
  }
  if (s.ready > 0 && s.consumers_waiting > 0 && rates.reserved === 0) {
    return <div class="banner"><Mark of="skipped" /><span><b>{exact(s.consumers_waiting)} consumers wait although {exact(s.ready)} chunks are ready:</b> their strategies do not admit them, or limits hold them back.</span><a href={link('strategies')}>Explain a strategy…</a></div>
  }
  return null
}

function Tiles({ frame: { stats: s, rates, empties_ms } }: { frame: StatsFrame }) {
  const free = s.ready + s.waiting + s.reserved
  const open = free + s.paused + s.blocked
  return (
    <>
      <Tile of="ready" name="Ready" value={short(s.ready)} title={exact(s.ready)}>in {exact(s.submissions_open)} submissions</Tile>
      <Tile of="reserved" name="In flight" value={short(s.reserved)} title={exact(s.reserved)}>{exact(s.consumers_waiting)} calls wait for work</Tile>
      <Tile of="waiting" name="Waiting" value={short(s.waiting)} title={exact(s.waiting)}>for run_at or a retry</Tile>
      <Tile of="done" name="Done" value={`${short(rates.done)}/s`} title={`${rates.done} chunks per second`}>{short(s.done_total)} since the start</Tile>
      <Tile name="Oldest ready" value={s.ready > 0 ? duration(s.oldest_ready_seconds) : '—'}>{s.ready > 0 ? 'since it was inserted' : 'nothing is ready'}</Tile>
      <Tile name="Empty in" value={open === 0 ? 'now' : empties_ms ? duration(empties_ms / 1000) : '—'}>{open === 0 ? 'nothing is open' : free === 0 ? 'all of it is held by rules' : empties_ms ? `at the last minute’s pace${s.paused + s.blocked > 0 ? ', but for what rules hold' : ''}` : rates.done > 0 ? 'the pace is being measured' : 'nothing is done now'}</Tile>
    </>
  )
}

function Throughput() {
  const day = route.value.query.get('range') === 'day'
  const backlog = route.value.query.get('chart') === 'backlog'
  const stored = useLive<Series>(day ? `${queuePath(queue.value)}/timeseries?step=minute` : '', 30)
  const of: Series | undefined = day ? stored.data : series.value
  const lines: Line[] = !of ? [] : backlog
    ? [{ name: 'Ready', of: 'ready', values: of.ready, fill: true }, { name: 'Waiting', of: 'waiting', values: of.waiting }, { name: 'In flight', of: 'reserved', values: of.reserved }, { name: 'Dead', of: 'dead', values: of.dead }]
    : [{ name: 'Done', of: 'done', values: of.done_rate, fill: true }, { name: 'Reserved', of: 'reserved', values: of.reserved_rate }, { name: 'Inserted', of: 'ready', values: of.inserted_rate, cut: true }, { name: 'Failed', of: 'dead', values: of.failed_rate }]
  const to = (of?.at.at(-1) ?? 0) / 1000
  const changes = useChanges(day ? 1440 : minutes)
  return (
    <section class="card w8 tall">
      <header>
        <h2>{backlog ? 'Backlog, chunks' : 'Throughput, chunks per second'}</h2>
        <div class="row">
          <span class="seg" role="group" aria-label="What the chart shows">
            <button aria-pressed={!backlog} onClick={() => refine({ chart: undefined })}>Throughput</button>
            <button aria-pressed={backlog} onClick={() => refine({ chart: 'backlog' })}>Backlog</button>
          </span>
          <span class="seg" role="group" aria-label="How far back">
            <button aria-pressed={!day} onClick={() => refine({ range: undefined })}>{minutes} min</button>
            <button aria-pressed={day} onClick={() => refine({ range: 'day' })}>24 h</button>
          </span>
        </div>
      </header>
      {stored.problem ? <Failed problem={stored.problem} again={stored.again} />
        : of && of.at.length > 1 ? <Chart at={of.at} lines={lines} marks={changes.map((e) => Date.parse(e.at) / 1000)} name={backlog ? 'Backlog' : 'Throughput'} from={Math.max(to - (day ? 86400 : minutes * 60), Math.min(of.at[0]! / 1000, to - 60))} to={to} />
        : <Empty>The chart begins when the server has run for {day ? 'two minutes' : 'two seconds'}; its history is kept in memory.</Empty>}
      <div class="legend">{lines.map((l) => <span key={l.name}><Mark of={l.of} />{l.name} <b>{short(l.values.at(-1) ?? 0)}{backlog ? '' : '/s'}</b>{isCut(l, lines) && <span class="note">(its peaks are cut: {short(Math.max(...l.values))}/s)</span>}</span>)}</div>
      {changes.length > 0 && <Changes items={changes} day={day} />}
    </section>
  )
}

/** What was changed in this queue lately, the latest first, for those who may see it. */
function useChanges(within: number): AuditEntry[] {
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const since = new Date(Math.floor(now / 60_000 - within) * 60_000).toISOString() // whole minutes, so that the address changes seldom
  const asked = new URLSearchParams({ queue: queue.value, outcome: 'ok', since, limit: '50' })
  return useLive<Page<AuditEntry>>(now > 0 && may('admin') ? `/v1/audit?${asked}` : '', 5).data?.items ?? []
}

const mostChanges = 3

/** The marks of the chart in words: who did what to what. */
function Changes({ items, day }: { items: AuditEntry[]; day: boolean }) {
  return (
    <p class="foot" aria-label="What changed lately">
      <span class="note">┊ changes: </span>
      {items.slice(0, mostChanges).map((e, i) => <span key={e.at + i}>{i > 0 && ' · '}<span class="note">{clock(e.at)}</span> {e.actor ? <Clamp text={e.actor} /> : 'someone'} <span class="mono">{e.action}</span> {e.target && <Clamp text={e.target} />}</span>)}
      {items.length > mostChanges && ` · ${exact(items.length - mostChanges)}${items.length === 50 ? ' and more' : ''} before`} · <a href={link('activity', { for: day ? undefined : '10m', queue: queue.value })}>all</a>
    </p>
  )
}

const clock = (at: string) => new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

/** What keeps chunks from being handed out, as far as counters tell; what one strategy refuses, only Explain can say. */
function HeldBack({ frame: { stats: s }, keyed }: { frame: StatsFrame; keyed: KeysFrame | null }) {
  const full = (keyed?.keys ?? []).map((k) => {
    const at = k.top.filter((v) => v.saturated)
    return { key: k.key, values: at.length, ready: at.reduce((n, v) => n + v.ready, 0) }
  }).filter((k) => k.values > 0)
  return (
    <section class="card w4">
      <header><h2>What holds work back</h2><small>of <Count n={s.ready + s.waiting + s.paused + s.blocked} /> not in flight</small></header>
      <table>
        <caption class="sr">Chunks by what they wait for</caption>
        <tbody>
          <tr><td class="wrap"><Mark of="waiting" /> A time: run_at or a retry</td><td class="r"><Count n={s.waiting} /></td></tr>
          {full.map((k) => <tr key={k.key}><td class="wrap"><Mark of="dead" /> Limit reached <a class="chip" href={link('keys', { key: k.key })}>{k.key}</a> {k.values} values</td><td class="r"><Count n={k.ready} /></td></tr>)}
          {s.paused + s.blocked > 0 && <tr><td class="wrap"><Mark of="skipped" /> <a href={link('rules')}>Paused or blocked by a rule</a></td><td class="r"><Count n={s.paused + s.blocked} /></td></tr>}
          <tr><td class="wrap"><Mark of="dead" /> Dead: out of attempts</td><td class="r"><Count n={s.dead} /></td></tr>
          <tr><td class="wrap"><Mark of="ready" /> Ready for any consumer{full.length > 0 ? ', limits included' : ''}</td><td class="r"><Count n={s.ready} /></td></tr>
        </tbody>
      </table>
      <p class="foot">Limits are those set on values. What MaxSimultaneous and filters of one strategy hold back: <a href={link('strategies')}>Explain a strategy</a>.</p>
      <p class="foot note">{exact(s.failed_total)} tries failed, {exact(s.expired_total)} expired since the start. On disk: {bytes(s.journal_bytes + s.store_bytes)}.</p>
    </section>
  )
}

function Strips({ keyed }: { keyed: KeysFrame | null }) {
  const chosen = route.value.query.get('key')
  const frame = keyed?.keys.find((k) => k.key === chosen) ?? keyed?.keys[0]
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>In flight by</h2>
          {keyed && keyed.keys.length > 0 && <span class="seg" role="group" aria-label="Meta key">{keyed.keys.map((k) => <button key={k.key} aria-pressed={k.key === frame?.key} onClick={() => refine({ key: k.key })}>{k.key}</button>)}</span>}
        </div>
        <div class="legend"><span>last 10 min, a cell is 5 s</span><span><Mark of="zero" />none</span><span><Mark of="reserved" />the more, the fuller</span><span><Mark of="dead" />top edge: at its limit</span><span>· not known</span></div>
      </header>
      {!frame || !keyed ? <Empty command={quern('submit', '--count', 1000, '--template', 'row {index}', '--meta', 'company=acme')}>No open submission has meta, so there is nothing to tell apart. Submissions with meta show here, value by value.</Empty> : (
        <>
          <Heat key={frame.key} frame={frame} at={keyed.at} rows={12} />
          <p class="foot">
            {frame.whole ? '' : 'More than '}{exact(frame.values)} values · {exact(frame.top.filter((v) => v.saturated).length)} at their limit
            {frame.rest.values > 0 && <> · {short(frame.rest.in_flight)} in flight and {short(frame.rest.ready)} ready in the {exact(frame.rest.values)} others</>}
            {keyed.left > 0 && <> · {exact(keyed.left)} more keys are not followed</>} · <a href={link('keys', { key: frame.key })}>all values</a>
          </p>
        </>
      )}
    </section>
  )
}

function Newest() {
  const list = useLive<Page<Submission>>(`${queuePath(queue.value)}/submissions?state=open&limit=6`, 2)
  return (
    <section class="card w12">
      <header><h2>Newest open submissions</h2><a href={link('submissions')}>all submissions</a></header>
      {list.problem ? <Failed problem={list.problem} again={list.again} />
        : !list.data ? <p class="note">Reading…</p>
        : list.data.items.length === 0 ? <Empty command={quern('submit', '--count', 1000, '--template', 'row {index}', '--meta', 'company=acme')}>No submission is open: everything is done, or nothing was inserted yet.</Empty>
        : <SubmissionTable list={list.data.items} />}
    </section>
  )
}

function SubmissionTable({ list }: { list: Submission[] }) {
  return (
    <List name="Newest open submissions" items={list} id={(s) => s.id} scope={queue.value} open={(s) => link('submissions/' + s.id)}
      columns={[{ name: 'Submission' }, { name: 'Meta' }, { name: 'Progress' }, { name: 'Chunks', right: true }, { name: 'Done', right: true }, { name: 'State' }]}
      cells={(s) => [
        <td><SubmissionLink id={s.id} /></td>, <td><MetaChips meta={s.meta} /></td>, <td><Progress s={s} /></td>,
        <td class="r"><Count n={s.chunks} /></td>, <td class="r"><Count n={s.done} /></td>, <td><State of={s.state} /></td>,
      ]} />
  )
}
