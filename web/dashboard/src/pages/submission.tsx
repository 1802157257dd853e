import { useState } from 'preact/hooks'
import { call, etagOf, curl, quern } from '../api'
import { amount, duration, exact, moment, percent, queueName, short } from '../format'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Outcome, useEdit } from '../edit'
import { pause } from '../backoff'
import { SubmissionLink, Count, Failed, Mark, MetaChips, Progress, State, countedStates, ends } from '../parts'
import { leftOf, usePace } from '../pace'
import { may } from '../session'
import { link, say } from '../state'
import { momentNow } from '../stream'
import { undoOf } from '../undo'
import type { Diagnosis, Submission as Sub } from '../types'
import { ChunkMap } from './chunk-map'
import { Failures, Outputs } from './submission-lists'
import { Cancel, Delete } from './submissions'
import { ChangesOf, Says } from './value'

export function Submission({ id }: { id: string }) {
  const sub = useLive<Sub>(`/v1/submissions/${encodeURIComponent(id)}`, 1)
  const s = sub.data
  const diagnosis = useLive<Diagnosis>(s?.state === 'open' ? `/v1/submissions/${encodeURIComponent(id)}/diagnosis` : '', 3)
  return (
    <>
      <div class="head">
        <h1>Submission</h1><span class="mono">{id}</span>{s && <State of={s.state} />}
        <div class="act">{s && (s.state === 'open' ? <Cancel s={s} done={sub.again} /> : <Delete s={s} />)}<CopyAs cli={quern('get', id)} curl={curl('GET', '/v1/submissions/' + id)} /></div>
      </div>
      {sub.problem && <div class="w12"><Failed problem={sub.problem} again={sub.again} /></div>}
      {s?.state === 'open' && <Says read={diagnosis} letters={{ submission: id }} />}
      {s && (
        <>
          <section class="card w5"><header><h2>Facts</h2></header><Facts s={s} again={sub.again} /></section>
          <section class="card w7">
            <header><h2>Progress</h2><small>{(Math.floor(10 * percent(s.done, s.chunks)) / 10).toFixed(1)} % of {amount(s.chunks, 'chunk')} done</small></header>
            <Progress s={s} />
            {(s.failure || s.failed_chunk !== undefined) && <p class="foot"><span class="badge">failed</span> {s.failure} {s.failed_chunk !== undefined && <>(<a href={link(`submissions/${s.id}/${s.failed_chunk}`)}>chunk {exact(s.failed_chunk)}</a>)</>}</p>}
            <div class="legend foot">{countedStates.filter((of) => (of !== 'paused' && of !== 'blocked') || s[of]).map((of) => <span key={of}><Mark of={of} />{of} <b><Count n={s[of] ?? 0} /></b></span>)}</div>
            <Timeline s={s} d={diagnosis.data} />
          </section>
          <ChunkMap s={s} />
          <Failures s={s} />
          <Outputs s={s} />
          {may('admin') && <ChangesOf target={'submission ' + s.id} none="No one changed it since it was inserted." />}
        </>
      )}
    </>
  )
}

function Facts({ s, again }: { s: Sub; again: () => void }) {
  return (
    <dl class="facts">
      <dt>Queue</dt><dd>{queueName(s.shard && !s.queue.includes('~') ? `${s.queue}~${s.shard}` : s.queue)}</dd>
      <dt>Meta</dt><dd>{s.meta ? <MetaChips meta={s.meta} /> : 'none'}</dd>
      <dt>Content</dt><dd>{s.prefix !== undefined ? <code>{s.prefix}{'{index}'}</code> : s.template !== undefined ? <code>{s.template}</code> : 'inline'}</dd>
      <dt>Created</dt><dd>{moment(s.created_at)}</dd>
      {s.finished_at && <><dt>Ended</dt><dd>{moment(s.finished_at)}</dd></>}
      {s.run_at && <><dt>Runs at</dt><dd>{moment(s.run_at)}</dd></>}
      {s.dead_deadline && <><dt>Expires at</dt><dd>{moment(s.dead_deadline)}</dd></>}
      {s.schedule && <><dt>Inserted by</dt><dd><a href={link('submissions', { schedule: s.schedule })}>schedule {s.schedule}</a>{s.scheduled_at && <span class="note"> for {moment(s.scheduled_at)}</span>}</dd></>}
      {s.retry_backoff && <><dt>Pause after a failed attempt</dt><dd>{pause(s.retry_backoff)}</dd></>}
      {s.unique && <><dt>Unique key</dt><dd>{s.unique.key}, held {s.unique.while === 'open' ? 'while open' : `for ${s.unique.while}`}</dd></>}
      {s.after && <><dt>{s.waits_for ? 'Waits for' : 'Waited for'}</dt><dd>
        {(s.waits_for ?? s.after.ids).map((id) => <><SubmissionLink id={id} /> </>)}
        <span class="note">{s.after.until === 'ended' ? 'to end in any way' : s.after.on_unmet === 'run' ? 'to end; one that is not completed counts, too' : s.after.on_unmet === 'dead_letter' ? 'to be completed; else the chunks of this submission become dead letters' : 'to be completed; else this submission is cancelled'}</span>
      </dd></>}
      {s.group && <><dt>Group</dt><dd>{s.group}</dd></>}
      <dt>Priority</dt><dd>{s.state === 'open' && may('operate') ? <Priority s={s} again={again} /> : exact(s.priority ?? 0)}</dd>
    </dl>
  )
}

function Priority({ s, again }: { s: Sub; again: () => void }) {
  const [text, setText] = useState('')
  const path = '/v1/submissions/' + s.id
  const version = (of: Sub) => ({ fields: { priority: of.priority ?? 0 }, etag: etagOf(of) })
  const edit = useEdit({
    now: version(s), changes: text === '' ? {} : { priority: Number(text) }, looks: true, log: { target: 'submission ' + s.id },
    read: async () => version(await call<Sub>('GET', path)),
    put: async (fields, guard) => version(await call<Sub>('PATCH', path, fields, guard)),
    done: (_, saved, was) => {
      if (saved) say(`Priority ${text}, from the next reservation on`, undoOf({ action: 'submission.change', target: 'submission ' + s.id, before: { ...was?.fields } }))
      setText('')
      again()
    },
  })
  return (
    <form class="row" onSubmit={(e) => { e.preventDefault(); void edit.save() }}>
      <b>{exact(s.priority ?? 0)}</b>
      <input type="number" step="1" aria-label="New priority" value={text} onInput={(e) => setText(e.currentTarget.value)} required />
      <button disabled={edit.busy}>Change</button>
      <Outcome edit={edit} />
    </form>
  )
}

/** The submission's past and coming events, with their times. All times are the server's. */
function Timeline({ s, d }: { s: Sub; d: Diagnosis | undefined }) {
  const now = momentNow()
  const pace = usePace(s)
  const from = (iso: string) => Date.parse(iso)
  const steps: { name: string; at?: string | undefined; text: string; state: string }[] = [{ name: 'Created', at: s.created_at, text: amount(s.chunks, 'chunk'), state: 'done' }]
  const begun = !s.run_at || now === 0 || from(s.run_at) <= now
  if (s.run_at) steps.push({ name: 'Offered from', at: s.run_at, text: begun ? '' : `in ${duration((from(s.run_at) - now) / 1000)}`, state: begun ? 'done' : 'waiting' })
  if (s.state === 'open') {
    steps.push({ name: 'Worked on', at: d?.first_reserved_at, text: worked(s, d, pace, now), state: s.done + s.reserved + s.dead > 0 ? 'reserved' : 'zero' })
    steps.push({ name: 'Done', text: whenDone(s, d, now), state: 'zero' })
    if (s.dead_deadline) steps.push({ name: 'Ends at the latest', at: s.dead_deadline, text: now > 0 ? `in ${duration((from(s.dead_deadline) - now) / 1000)}` : '', state: 'zero' })
  } else {
    steps.push({ name: s.state.replaceAll('_', ' ').replace(/^./, (c) => c.toUpperCase()), at: s.finished_at, text: s.finished_at ? `after ${duration((from(s.finished_at) - from(s.created_at)) / 1000)}` : '', state: s.state === 'completed' ? 'done' : s.state === 'cancelled' ? 'skipped' : 'dead' })
  }
  return <ol class="timeline" aria-label="Timeline">{steps.map((step) => <li key={step.name}><Mark of={step.state} /><b>{step.name}</b><span>{step.at && moment(step.at)}</span><span class="note">{step.text}</span></li>)}</ol>
}

/** For how long it has been worked on, and at which pace. The beginning is not known if the submission is older than the server's start. */
function worked(s: Sub, d: Diagnosis | undefined, pace: number, now: number): string {
  const begun = d?.first_reserved_at
  if (!begun && s.reserved + s.done + s.dead === 0) return 'not begun'
  const long = begun ? `for ${duration(Math.max(0, now - Date.parse(begun)) / 1000)}, ` : d ? 'for – (not known since the server was restarted), ' : ''
  return long + (pace > 0 ? `${short(pace)} done a second in the last minute` : s.reserved > 0 ? `${exact(s.reserved)} in flight` : 'nothing in flight')
}

/** When it is done, as the server foresees it. Submissions that wait for the same limit, rule or consumers end together. */
function whenDone(s: Sub, d: Diagnosis | undefined, now: number): string {
  if (d?.forecast && now > 0) return ends(d.forecast, now)
  const held = [[s.paused, 'paused'], [s.blocked, 'blocked']].map(([n, how]) => (n ? `${amount(n as number, 'chunk is', 'chunks are', short)} ${how}` : '')).filter(Boolean).join(' and ')
  return held ? `not while ${held}` : leftOf(s) > 0 ? 'when it moves' : ''
}
