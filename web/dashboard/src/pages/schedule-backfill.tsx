import { useState } from 'preact/hooks'
import { call, curl, quern } from '../api'
import { exact, moment } from '../format'
import { useAction } from '../live'
import { Question } from '../confirm'
import { CopyAs } from '../copy'
import { Failed, SubmissionLink } from '../parts'
import { queue, say } from '../state'
import type { Backfilled, Schedule } from '../types'
import { fromLocal, localTime, one } from './schedule-paths'

const most = 1000

/** Inserts the submissions of past ticks. It counts them first, and inserts nothing before. */
export function Backfill({ s, done }: { s: Schedule; done: () => void }) {
  const action = useAction()
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [counted, setCounted] = useState<Backfilled>()
  const [made, setMade] = useState<Backfilled>()
  const path = `${one(s.name)}/backfill`
  const range = { from: fromLocal(from) ?? '', to: fromLocal(to) ?? '' }
  const whole = range.from !== '' && range.to !== ''
  const body = { ...range, limit: Math.max(1, Math.min(most, counted?.ticks ?? 100)) }
  // The key names the counted range, so each tick is inserted once, even after a double click or a repeat of a lost answer.
  const key = `backfill ${s.name} ${range.from} ${range.to}`
  const change = (set: (text: string) => void) => (e: { currentTarget: HTMLInputElement }) => { set(e.currentTarget.value); setCounted(undefined); setMade(undefined) }
  const count = (e: SubmitEvent) => {
    e.preventDefault()
    void action.run(async () => { setMade(undefined); setCounted(await call<Backfilled>('POST', path, { ...range, dry_run: true })) })
  }
  const insert = () => void action.run(async () => {
    const got = await call<Backfilled>('POST', path, body, { 'Idempotency-Key': key })
    setMade(got)
    setCounted(undefined)
    say(`${s.name}: ${exact(got.submissions.length)} past ticks inserted`)
    done()
  })
  return (
    <section class="card w12">
      <header><div class="row"><h2>Backfill</h2><small>insert the work of past ticks again, or of ticks that were missed</small></div>
        {whole && <CopyAs cli={quern('schedules', 'backfill', s.name, '--queue', queue.value, '--from', range.from, '--to', range.to, '--limit', body.limit, '--idempotency-key', key)} curl={curl('POST', path, body)} />}
      </header>
      <form class="row" onSubmit={count}>
        <label class="field">Ticks from <input type="datetime-local" step="1" required value={from} max={localTime(new Date())} onInput={change(setFrom)} /></label>
        <label class="field">up to <input type="datetime-local" step="1" required value={to} max={localTime(new Date())} onInput={change(setTo)} /></label>
        <button class={counted ? undefined : 'main'} disabled={action.busy || !whole}>Count first</button>
        <span class="note">in your time zone</span>
      </form>
      {action.problem && <div class="foot"><Failed problem={action.problem} /></div>}
      {counted && (
        <div class="foot" role="status">
          {counted.ticks === 0 ? <p>{s.name} has no tick in this time.</p>
            : counted.ticks > most ? <p><b>{exact(counted.ticks)}</b> ticks are in this time, from {moment(counted.first_at!)} on. At most {exact(most)} fit into one call: choose a shorter period.</p>
              : <Question name="Insert" n={counted.ticks} busy={action.busy} run={insert} leave={() => setCounted(undefined)}><b>{exact(counted.ticks)}</b> {counted.ticks === 1 ? 'tick is' : 'ticks are'} in this time, the first at {moment(counted.first_at!)}. Each inserts a submission, even if its tick did so before.</Question>}
        </div>
      )}
      {made && <p class="foot" role="status">Inserted {exact(made.submissions.length)}: {made.submissions.slice(0, 10).map((id) => <span key={id}><SubmissionLink id={id} /> </span>)}{made.submissions.length > 10 && `and ${exact(made.submissions.length - 10)} more`}</p>}
    </section>
  )
}
