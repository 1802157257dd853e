import { call, curl, quern, queuePath } from '../api'
import { amount, duration, exact, moment, queueName, short } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { CopyAs } from '../copy'
import { Count, Failed, Mark, Tile } from '../parts'
import { lacks, may } from '../session'
import { link, queue, say } from '../state'
import { stats } from '../stream'
import type { Lifecycle, LifecycleKind, ParkedAction, Readiness, Recount } from '../types'

/** The kinds of actions, each with advice for an operator when it cannot be done. */
const kinds: Record<string, { what: string; advice: string }> = {
  expiry: { what: 'deadlines of reservations', advice: 'Its chunk stays reserved. Check the submission and the disk.' },
  lost: { what: 'chunks of lost consumers', advice: 'Its chunks stay reserved. Check the consumer’s page and the disk.' },
  grace: { what: 'the end of the restart grace', advice: 'Limits hold work back for longer. Check the server’s log.' },
  rule: { what: 'rules that end', advice: 'The rule still holds. Lift it on the page Rules.' },
  retry: { what: 'retries that are due', advice: 'The chunk keeps waiting. Cancel the submission, or insert it again.' },
  suspect: { what: 'suspects to offer again', advice: 'The chunk keeps waiting. Check its attempts.' },
  run_at: { what: 'submissions that reach run_at', advice: 'Consumers do not get the submission. Cancel it and insert it again.' },
  dead_deadline: { what: 'submissions past their dead_deadline', advice: 'The submission stays open. Cancel it.' },
  sweep: { what: 'remains of ended submissions', advice: 'Nothing is lost, but the remaining data takes space.' },
  retention: { what: 'submissions past their retention', advice: 'Nothing is lost: it stays in the history for longer.' },
  after: { what: 'submissions that wait for others', advice: 'The submission waits on. Cancel it, or retry when the cause is gone.' },
  forward: { what: 'dead letters that are being forwarded', advice: 'The dead letter stays here; the others were forwarded. Repair its content on the disk. Only deleting the queue removes it.' },
  schedule: { what: 'ticks of schedules', advice: 'The tick is not emitted. Check the page Schedules.' },
}

/** Less than a second is the worker's own step, not a delay. */
const ago = (seconds: number) => (seconds >= 1 ? duration(seconds) : 'none')

/** The state of the queue's life-cycle worker. */
export function Worker() {
  const path = `${queuePath(queue.value)}/lifecycle`
  const worker = useLive<Lifecycle>(path, 2)
  const ready = useLive<Readiness>('/readyz?verbose', 5)
  const w = worker.data
  return (
    <>
      <div class="head sub"><h2>Life-cycle worker</h2><span>deadlines, retries, run_at, dead_deadline, schedules, the ends of rules, retention</span>
        <div class="act"><CopyAs cli={quern('lifecycle', '--queue', queue.value)} curl={curl('GET', path)} /></div>
      </div>
      {worker.problem && <div class="w12"><Failed problem={worker.problem} again={worker.again} /></div>}
      {ready.problem && <div class="w12"><Failed problem={ready.problem} again={ready.again} /></div>}
      {w && <Tiles w={w} ready={ready.data} />}
      {w && <Parked w={w} done={worker.again} />}
      <section class="card w12">
        <header><h2>By kind of action</h2><small>totals since the server’s start</small></header>
        {!w && !worker.problem && <p class="note">Reading…</p>}
        {w && <Kinds list={w.kinds} />}
      </section>
      {w?.recount && <Recounted r={w.recount} />}
    </>
  )
}

function Tiles({ w, ready }: { w: Lifecycle; ready: Readiness | undefined }) {
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const grace = w.restart_grace_until && now > 0 ? Math.max(0, Date.parse(w.restart_grace_until) - now) / 1000 : 0
  const s = w.suspects
  const failing = w.kinds.filter((k) => k.failures_in_a_row > 0)
  return (
    <>
      <Tile of={w.degraded ? 'dead' : 'done'} name="Worker" value={w.degraded ? 'degraded' : 'serving'}>{w.degraded ? 'its commits fail: inserts are refused' : failing.length > 0 ? `${failing[0]!.kind} failed ${exact(failing[0]!.failures_in_a_row)} in a row` : 'its commits succeed'}</Tile>
      <Tile of={w.lag_seconds >= 1 ? 'waiting' : 'done'} name="Lag" value={ago(w.lag_seconds)} title={`${w.lag_seconds.toFixed(3)} s`}>{w.lag_seconds >= 1 ? 'since the oldest action is due' : 'nothing is overdue'}</Tile>
      <Tile of={w.parked.length > 0 ? 'dead' : 'zero'} name="Parked" value={short(w.parked.length)} title={exact(w.parked.length)}>{w.parked.length > 0 ? 'failed again and again' : 'no action is parked'}</Tile>
      <Tile of={s.shelved > 0 ? 'waiting' : 'reserved'} name="Suspects in flight" value={`${short(s.lent)} of ${short(s.quota)}`} title={`${exact(s.lent)} of ${exact(s.quota)}; ${s.slots.toFixed(1)} consumer slots`}>{s.shelved > 0 ? `${amount(s.shelved, 'waits', 'wait')} for a place` : 'none waits for a place'}</Tile>
      <Tile of={grace > 0 ? 'paused' : 'zero'} name="Restart grace" value={grace > 0 ? duration(grace) : 'over'} title={w.restart_grace_until ? moment(w.restart_grace_until) : 'it is over, or the queue has none'}>{grace > 0 ? `until ${moment(w.restart_grace_until!)}` : 'limits apply as usual'}</Tile>
      <Tile of={ready ? 'done' : 'zero'} name="Server" value={ready ? 'ready' : 'not ready'} title={ready?.checks?.map((c) => `${queueName(c.name)}: ${c.ok ? 'ok' : c.detail ?? 'failed'}`).join('\n') ?? ''}>{ready ? `${amount(ready.checks?.length ?? 0, 'part works', 'parts work')}` : 'its checks are read'}</Tile>
    </>
  )
}

function Kinds({ list }: { list: LifecycleKind[] }) {
  return (
    <List name="Kinds of actions" items={list} id={(k) => k.kind} scope={queue.value} keys={false}
      columns={[{ name: 'Kind' }, { name: 'Waiting', right: true, title: 'entries that wait for their time' }, { name: 'Lag', right: true }, { name: 'Done', right: true }, { name: 'Stale', right: true, title: 'not needed any more when their turn came' }, { name: 'Parked', right: true }, { name: 'Failed slices', right: true }, { name: 'Last success' }]}
      cells={(k) => [
        <td class="what"><b>{k.kind}</b><div class="note">{kinds[k.kind]?.what ?? ''}</div></td>, <td class="r"><Count n={k.pending} /></td>,
        <td class="r">{k.lag_seconds >= 1 ? duration(k.lag_seconds) : '—'}</td>, <td class="r"><Count n={k.done_total} /></td>, <td class="r"><Count n={k.stale_total} /></td>,
        <td class="r">{k.parked > 0 ? <span class="state"><Mark of="dead" />{exact(k.parked)}</span> : '0'}</td>, <td class="r"><Count n={k.failures_total} /></td>,
        <td class="note wrap">{k.last_success_at ? moment(k.last_success_at) : 'not yet'}{k.error && <p class="error"><span class="badge">failing</span> {k.error}</p>}</td>,
      ]} />
  )
}

function Parked({ w, done }: { w: Lifecycle; done: () => void }) {
  const action = useAction()
  const path = `${queuePath(queue.value)}/lifecycle/retry`
  if (w.parked.length === 0) return null
  const id = (p: ParkedAction) => `${p.kind} ${p.submission ?? p.rule ?? p.schedule ?? ''}${p.index === undefined ? '' : '/' + p.index}`
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Parked actions</h2><small>they failed three times; the server retries them at its next start, or when you press the button</small></div>
        <div class="row"><button class="main" title={lacks('operate')} disabled={action.busy || !may('operate')} onClick={() => void action.run(async () => { const n = await call<{ retried: number }>('POST', path); say(`${exact(n.retried)} retried`); done() })}>Retry all</button><CopyAs cli={quern('lifecycle', 'retry', '--queue', queue.value)} curl={curl('POST', path)} /></div>
      </header>
      {action.problem && <Failed problem={action.problem} />}
      <List name="Parked actions" items={w.parked} id={id} scope={queue.value} keys={false}
        columns={[{ name: 'Kind' }, { name: 'About' }, { name: 'Since' }, { name: 'Error' }, { name: 'What to do' }]}
        cells={(p) => [
          <td><b>{p.kind}</b></td>, <td><About p={p} /></td>,
          <td class="note">{moment(p.since)}</td>, <td class="wrap error">{p.error}</td>, <td class="wrap error note">{kinds[p.kind]?.advice ?? ''} Fix the cause, then try it again.</td>,
        ]} />
    </section>
  )
}

/** The object of a parked action, with a link. */
function About({ p }: { p: ParkedAction }) {
  if (p.schedule) return <a class="mono" href={link('schedules', { name: p.schedule })}>{p.schedule}</a>
  if (p.rule) return <a href={link('rules')}>rule {p.rule}</a>
  if (!p.submission || p.submission === '0') return <></>
  const chunk = p.index === undefined ? '' : '/' + p.index
  return <a class="mono" href={link(`submissions/${p.submission}${chunk}`)}>{p.submission}{chunk}</a>
}

/** Counters are kept up to date, not computed. The server recounts them all the time, a little at a time, to check them. */
function Recounted({ r }: { r: Recount }) {
  const d = r.newest_drift
  const pace = r.every_ms === 0 ? 'switched off' : `all of it every ${duration(r.every_ms / 1000)}`
  return (
    <section class="card w12">
      <header><div class="row"><h2>Counters, recounted</h2><small>{pace}</small></div><span class="state"><Mark of={r.drifts_total > 0 || r.stopped ? 'dead' : 'done'} />{r.stopped ? 'stopped: see the server’s log' : r.drifts_total > 0 ? `${exact(r.drifts_total)} corrected` : 'all were right'}</span></header>
      <dl class="facts">
        <dt>checked</dt><dd>{amount(r.submissions_checked_total, 'submission')}, {amount(r.values_checked_total, 'value')} and {amount(r.queue_counters_checked_total, 'total')} since the start{r.skipped_total > 0 && `; ${exact(r.skipped_total)} skipped`}</dd>
        <dt>last round</dt><dd>{r.last_round_at ? moment(r.last_round_at) : 'not yet'}{r.progress > 0 && `; the next is ${(100 * r.progress).toFixed(0)} % through`}</dd>
        {d && <><dt>newest mistake</dt><dd><code>{d.counter}</code> of {d.submission ? <a class="mono" href={link('submissions/' + d.submission)}>{d.submission}</a> : d.meta_key ? <span class="chip">{d.meta_key}={String(d.value)}</span> : 'the queue'}: {amount(d.kept, 'was', 'were')} counted, {amount(d.recounted, 'is', 'are')} there; {d.corrected ? 'corrected' : 'not corrected'}, {moment(d.at)}</dd></>}
      </dl>
    </section>
  )
}
