import { useEffect, useState } from 'preact/hooks'
import { Problem, call, curl } from '../api'
import { amount, duration, moment } from '../format'
import { CopyAs } from '../copy'
import { write } from '../json'
import { Failed } from '../parts'
import type { Schedule, ScheduleDefinition, SchedulePreview } from '../types'
import { base, cli, one } from './schedule-paths'

const most = [5, 10, 25, 100]

/** The meaning of the text, read from the server a moment after the last key. */
export function Preview({ d, s }: { d: ScheduleDefinition; s: Schedule | undefined }) {
  const [answer, setAnswer] = useState<SchedulePreview>()
  const [problem, setProblem] = useState<Problem>()
  const [n, setN] = useState(5)
  const path = `${base()}/preview`
  // An unchanged rhythm goes on where it is: @every counts from the creation of the schedule, and not from now.
  const kept = s && (['spec', 'seconds', 'tz', 'start', 'end'] as const).every((f) => (d[f] || undefined) === (s.definition[f] || undefined)) ? `${one(s.name)}/ticks?n=${n}` : undefined
  const asked = { spec: d.spec, tz: d.tz, ...(d.seconds ? { seconds: true } : {}), ...(d.start ? { start: d.start } : {}), ...(d.end ? { end: d.end } : {}), n }
  const key = write(asked)
  useEffect(() => {
    const ended = new AbortController()
    const timer = setTimeout(() => {
      const answered = kept ? call<SchedulePreview>('GET', kept, undefined, {}, ended.signal) : call<SchedulePreview>('POST', path, asked, {}, ended.signal)
      answered.then((a) => { setAnswer(a); setProblem(undefined) }, (p) => { if (!ended.signal.aborted) { setProblem(p); setAnswer(undefined) } })
    }, 250)
    return () => { clearTimeout(timer); ended.abort() }
  }, [key, path, kept, s?.next_at])
  const flags = [...(d.seconds ? ['--seconds'] : []), ...(d.tz ? ['--tz', d.tz] : []), ...(d.start ? ['--start', d.start] : []), ...(d.end ? ['--end', d.end] : [])]
  return (
    <>
      <header>
        <label class="field"><h2>The next</h2> <select aria-label="How many ticks" value={n} onChange={(e) => setN(Number(e.currentTarget.value))}>{most.map((m) => <option key={m}>{m}</option>)}</select></label>
        <CopyAs cli={kept ? cli('next', s!.name, '--number', n) : cli('next', '--spec', d.spec, ...flags, '--number', n)} curl={kept ? curl('GET', kept) : curl('POST', path, asked)} />
      </header>
      {problem && <Failed problem={problem} />}
      {answer && (
        <div class="stack" role="status">
          <p class="plain">{answer.description}</p>
          <p>{words(d)}</p>
          {answer.ticks.length === 0 ? <p>It is never due again.</p> : <ol class="ticks">{answer.ticks.map((t) => <li key={t.at}><b class="mono">{t.local}</b><span class="note">{answer.tz} · {moment(t.at)} here</span></li>)}</ol>}
          {answer.ticks.length > 0 && answer.ticks.length < n && <p class="note">Then it is never due again.</p>}
        </div>
      )}
    </>
  )
}

/** The rules for a tick, in plain words. */
function words(d: ScheduleDefinition): string {
  const out: string[] = []
  if (d.jitter_ms) out.push(`Each tick comes up to ${duration(d.jitter_ms / 1000)} late. A given tick always has the same delay.`)
  if (d.missed === 'all') out.push(`If the server was down or late, it inserts the newest ${amount(d.catchup_limit ?? 100, 'missed tick')} later, up to ${duration((d.catchup_window_ms ?? 3_600_000) / 1000)} old.`)
  else out.push(d.missed === 'skip' ? 'It skips missed ticks.' : 'If it missed ticks, it inserts the last one later.')
  out.push({ skip: 'It skips a tick while its last submission is open.', buffer_one: 'While its last submission is open, one tick waits, and it skips the others.' }[d.overlap ?? ''] ?? 'It inserts even while its last submission is open.')
  if (d.pause_on_failure) out.push('It pauses itself when a submission fails or expires.')
  return out.join(' ')
}
