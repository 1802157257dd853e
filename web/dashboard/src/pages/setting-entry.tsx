import { Problem } from '../api'
import { isBackoff, type Backoff } from '../backoff'
import { said, setting } from '../settings'

/** What a refusal says of one field. */
export const wrongAt = (problem: Problem | undefined, pointer: string): string[] => (problem?.errors ?? []).filter((e) => e.pointer === pointer || e.pointer.startsWith(pointer + '/')).map((e) => e.detail)

/** One setting in a form, with what it is and may be as the server declares it. */
export function Entry({ name, value, set, wrong }: { name: string; value: unknown; set: (v: unknown) => void; wrong: string[] }) {
  const known = setting(name)
  return (
    <>
      <dt><label for={`set-${name}`}><code>{name}</code></label></dt>
      <dd>
        <Field name={name} value={value} set={set} />
        <small>{[known?.sentence, known?.range].filter(Boolean).join(': ')}</small>
        {wrong.map((detail) => <p class="problem" role="alert" key={detail}>{detail}</p>)}
      </dd>
    </>
  )
}

/** The field of one setting. Numbers go to the server as they are: it says what they may be. */
function Field({ name, value, set }: { name: string; value: unknown; set: (v: unknown) => void }) {
  const id = `set-${name}`
  const choices = setting(name)?.choices
  if (choices) return <select id={id} value={String(value)} onChange={(e) => set(e.currentTarget.value)}>{choices.map((c) => <option key={c} value={c}>{c || 'empty'}</option>)}</select>
  if (typeof value === 'boolean') return <input id={id} type="checkbox" checked={value} onChange={(e) => set(e.currentTarget.checked)} />
  if (isBackoff(value)) return <Pause id={id} of={value} set={set} />
  if (typeof value === 'number') {
    return <span class="row"><input id={id} type="number" step="any" required value={value} onInput={(e) => { if (e.currentTarget.value !== '') set(Number(e.currentTarget.value)) }} />{/_ms$|_seconds$/.test(name) && <span class="note">{said(name, value)}</span>}</span>
  }
  return <input id={id} class="mono" value={String(value ?? '')} onInput={(e) => set(e.currentTarget.value)} spellcheck={false} />
}

/** A back-off: its kind, the fields that the kind has, and its jitter. */
function Pause({ id, of, set }: { id: string; of: Backoff; set: (v: Backoff) => void }) {
  const part = (field: 'base_ms' | 'factor' | 'cap_ms', label: string, own?: string) => (
    <label class="field">{label} <input {...(own ? { id: own } : {})} type="number" step="any" min="0" required value={of[field]} onInput={(e) => { if (e.currentTarget.value !== '') set({ ...of, [field]: Number(e.currentTarget.value) }) }} /></label>
  )
  const choice = (label: string, now: string, choices: string[], take: (v: string) => void) => (
    <label class="field">{label} <select value={now} onChange={(e) => take(e.currentTarget.value)}>{choices.map((c) => <option key={c}>{c}</option>)}</select></label>
  )
  const kind = of.kind ?? 'exponential'
  const become = (to: string) => {
    const base = of.base_ms || of.delays_ms?.[0] || 1000
    const { jitter } = of
    set({ ...(to === 'exponential' ? {} : { kind: to }), base_ms: to === 'list' ? 0 : base, factor: to === 'exponential' ? 2 : 0, cap_ms: to === 'exponential' || to === 'linear' ? of.cap_ms || 600_000 : 0, ...(to === 'list' ? { delays_ms: [base] } : {}), ...(jitter ? { jitter } : {}) })
  }
  const { jitter: _, ...bare } = of
  return (
    <span class="row">
      {kind === 'list'
        ? <label class="field">ms <input id={id} required value={(of.delays_ms ?? []).join(', ')} onChange={(e) => set({ ...of, delays_ms: e.currentTarget.value.split(',').map(Number) })} /></label>
        : part('base_ms', 'ms', id)}
      {kind === 'exponential' && part('factor', 'times')}
      {(kind === 'exponential' || kind === 'linear') && part('cap_ms', 'at most')}
      {choice('kind', kind, ['exponential', 'linear', 'fixed', 'list'], become)}
      {choice('jitter', of.jitter ?? 'full', ['full', 'equal', 'none'], (j) => set(j === 'full' ? bare : { ...bare, jitter: j }))}
    </span>
  )
}
