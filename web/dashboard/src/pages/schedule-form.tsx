import { useState } from 'preact/hooks'
import { call, curl } from '../api'
import { read, write } from '../json'
import { CopyAs } from '../copy'
import { Outcome, useEdit, type Version } from '../edit'
import { queue, refine, say } from '../state'
import type { Schedule, ScheduleDefinition } from '../types'
import { Preview } from './schedule-preview'
import { fromLocal, localTime, one, setCommand } from './schedule-paths'

const first: ScheduleDefinition = { spec: '30 2 * * *', tz: 'UTC', template: { meta: { kind: 'nightly' }, chunks: { count: 100, template: 'part {index}' } } }

const usual = { missed: 'once', overlap: 'allow', catchup_limit: 100, catchup_window_ms: 3_600_000 }

const version = (s: Schedule): Version => ({ fields: { ...s.definition }, etag: s.etag })

const units = { s: 1000, min: 60_000, h: 3_600_000 } as const
type Unit = keyof typeof units

/** The largest unit that a time is a whole number of. */
const unitOf = (ms: number): Unit => (ms > 0 && ms % units.h === 0 ? 'h' : ms > 0 && ms % units.min === 0 ? 'min' : 's')

/** A length of time, as a number with a unit. */
function Time({ name, ms, set, hint }: { name: string; ms: number; set: (ms: number) => void; hint?: string }) {
  const [unit, setUnit] = useState<Unit>(ms > 0 ? unitOf(ms) : 'min')
  return (
    <div class="stack tight" title={hint}>
      <span>{name}</span>
      <span class="length">
        <input type="number" min="0" step="any" aria-label={name} value={ms === 0 ? '' : ms / units[unit]} placeholder="0" onInput={(e) => set(Math.round(Number(e.currentTarget.value) * units[unit]))} />
        <select aria-label={`Unit of ${name.toLowerCase()}`} value={unit} onChange={(e) => { const next = e.currentTarget.value as Unit; set(Math.round((ms / units[unit]) * units[next])); setUnit(next) }}>{Object.keys(units).map((u) => <option key={u}>{u}</option>)}</select>
      </span>
    </div>
  )
}

/** The form of a schedule: its time is shown in plain words as it is typed, and its submission is JSON as for an insert. */
export function Editor({ s, done }: { s: Schedule | undefined; done: () => void }) {
  const [name, setName] = useState(s?.name ?? '')
  const [changes, setChanges] = useState<Partial<ScheduleDefinition>>({})
  const [text, setText] = useState<string>() // of the submission, once it is edited
  const [wrong, setWrong] = useState('')
  const put = (change: Partial<ScheduleDefinition>) => setChanges({ ...changes, ...change })
  const edit = useEdit({
    now: s && version(s), changes: { ...(s ? {} : tidy({ ...usual, ...first })), ...changes }, log: { queue: queue.value, target: 'schedule ' + name },
    read: async () => version(await call<Schedule>('GET', one(name))),
    put: async (fields, guard) => {
      const now = await call<Schedule>('PUT', one(name), tidy({ ...usual, ...fields } as ScheduleDefinition), guard)
      say(`${now.name}: ${now.description}`)
      return version(now)
    },
    done: (now) => {
      setChanges({})
      setText(undefined)
      refine({ name: now && name })
      done()
    },
  })
  const d = { ...usual, ...edit.fields } as ScheduleDefinition
  const choose = (field: 'spec' | 'tz' | 'missed' | 'overlap') => (e: { currentTarget: { value: string } }) => put({ [field]: e.currentTarget.value })
  const template = text ?? write(d.template, 2)
  const parsed = text === undefined ? d.template : templateOf(text)
  const body = parsed && tidy(d)
  const save = (e: SubmitEvent) => {
    e.preventDefault()
    if (!body) return setWrong('The submission is not valid JSON.')
    setWrong('')
    void edit.save()
  }
  const rewrite = (now: string) => {
    const template = templateOf(now)
    setText(now)
    if (template) put({ template })
  }
  const moment = (field: 'start' | 'end', says: string) => (
    <label class="stack tight">{says}<input type="datetime-local" step="1" value={d[field] ? localTime(new Date(d[field])) : ''} onInput={(e) => put({ [field]: fromLocal(e.currentTarget.value) })} /></label>
  )
  return (
    <>
      <section class="card w7">
        <header><h2>{s ? `Change ${s.name}` : 'New schedule'}</h2>{body && <CopyAs cli={setCommand(name || 'nightly', body)} curl={curl('PUT', one(name || 'nightly'), body)} />}</header>
        <form class="stack" onSubmit={save}>
          <div class="fields">
            {!s && <label class="stack tight">Name<input required pattern="[A-Za-z0-9_.\-]+" maxLength={64} value={name} placeholder="nightly" onInput={(e) => setName(e.currentTarget.value)} /></label>}
            <label class="stack tight">When<input class="mono" required value={d.spec} onInput={choose('spec')} aria-describedby="spec-help" /></label>
            <label class="stack tight">Time zone<input required value={d.tz} list="zones" onInput={choose('tz')} /></label>
          </div>
          <datalist id="zones">{zones.map((z) => <option key={z} value={z} />)}</datalist>
          <small id="spec-help">Five fields (minute, hour, day, month, weekday), @hourly to @yearly, @every 90s, or @at 2026-03-29T02:30:00Z.</small>
          <div class="fields">
            {moment('start', 'Not before (your time)')}
            {moment('end', 'Not after (your time)')}
            <Time name="Jitter" ms={d.jitter_ms ?? 0} set={(ms) => put({ jitter_ms: ms })} hint="longest delay of a tick; a given tick always has the same delay" />
          </div>
          <div class="fields">
            <label class="stack tight">Ticks missed while down<select value={d.missed} onChange={choose('missed')}><option value="once">insert one for them</option><option value="skip">are skipped</option><option value="all">are all inserted later</option></select></label>
            {d.missed === 'all' && <Time name="Not older than" ms={d.catchup_window_ms ?? 0} set={(ms) => put({ catchup_window_ms: ms })} />}
            {d.missed === 'all' && <label class="stack tight">At most<input type="number" min="1" max="1000" value={d.catchup_limit} onInput={(e) => put({ catchup_limit: Number(e.currentTarget.value) })} /></label>}
            <label class="stack tight">If the last one still runs<select value={d.overlap} onChange={choose('overlap')}><option value="allow">insert anyway</option><option value="skip">skip</option><option value="buffer_one">one waits</option></select></label>
          </div>
          <div class="row">
            <label class="check"><input type="checkbox" checked={d.seconds ?? false} onChange={(e) => put({ seconds: e.currentTarget.checked })} />First field: seconds</label>
            <label class="check"><input type="checkbox" checked={d.pause_on_failure ?? false} onChange={(e) => put({ pause_on_failure: e.currentTarget.checked })} />Pause after a failure</label>
            {!s && <label class="check"><input type="checkbox" checked={d.run_on_create ?? false} onChange={(e) => put({ run_on_create: e.currentTarget.checked })} />Insert once now</label>}
          </div>
          <label class="stack tight">Submission, as JSON<textarea rows={7} spellcheck={false} value={template} onInput={(e) => rewrite(e.currentTarget.value)} /></label>
          <div class="row"><button class="main" disabled={edit.busy}>{s ? 'Save' : 'Create'}</button><span role="status">{wrong}</span></div>
          <Outcome edit={edit} />
        </form>
      </section>
      <section class="card w5"><Preview d={d} s={s} /></section>
    </>
  )
}

/** The submission in the text; undefined while it is not JSON. */
function templateOf(text: string): ScheduleDefinition['template'] | undefined {
  try { return read<ScheduleDefinition['template']>(text) } catch { return undefined }
}

/** Leaves out fields without effect, so that copied commands are short. */
function tidy(d: ScheduleDefinition): ScheduleDefinition {
  const out = { ...d }
  if (out.missed !== 'all') { delete out.catchup_limit; delete out.catchup_window_ms }
  for (const field of ['jitter_ms', 'start', 'end', 'seconds', 'pause_on_failure', 'run_on_create'] as const) if (!out[field]) delete out[field]
  return out
}

const zones = ['UTC', 'Europe/London', 'Europe/Amsterdam', 'Europe/Berlin', 'America/New_York', 'America/Chicago', 'America/Los_Angeles', 'America/Sao_Paulo', 'Asia/Kolkata', 'Asia/Shanghai', 'Asia/Tokyo', 'Australia/Sydney']
