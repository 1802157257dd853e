import type { ComponentChildren } from 'preact'
import type { Problem } from '../api'
import { isBackoff, pause, type Backoff } from '../backoff'
import { grouped } from '../format'
import { said, setting } from '../settings'

/** The errors of a refusal about one field; also those about its inner fields, unless `alone`. */
export const wrongAt = (problem: Problem | undefined, pointer: string, alone = false): string[] => (problem?.errors ?? []).filter((e) => e.pointer === pointer || (!alone && e.pointer.startsWith(pointer + '/'))).map((e) => grouped(e.detail))

/** One setting in a form, with the server's description and range. */
export function Entry({ name, value, set, problem, pointer }: { name: string; value: unknown; set: (v: unknown) => void; problem: Problem | undefined; pointer: string }) {
  const known = setting(name)
  const wrong = wrongAt(problem, pointer, isBackoff(value)) // a back-off has its own fields, which show their own errors
  return (
    <>
      <dt><label for={`set-${name}`}><code>{name}</code></label></dt>
      <dd>
        <Field name={name} value={value} set={set} problem={problem} pointer={pointer} />
        <small>{grouped([known?.sentence, known?.range].filter(Boolean).join(': '))}</small>
        {wrong.map((detail) => <p class="problem" role="alert" key={detail}>{detail}</p>)}
      </dd>
    </>
  )
}

/** The field of one setting. Numbers go to the server as they are typed, and the server checks their range. */
function Field({ name, value, set, problem, pointer }: { name: string; value: unknown; set: (v: unknown) => void; problem: Problem | undefined; pointer: string }) {
  const id = `set-${name}`
  const choices = setting(name)?.choices
  if (choices) return <select id={id} value={String(value)} onChange={(e) => set(e.currentTarget.value)}>{choices.map((c) => <option key={c} value={c}>{c || 'empty'}</option>)}</select>
  if (typeof value === 'boolean') return <input id={id} type="checkbox" checked={value} onChange={(e) => set(e.currentTarget.checked)} />
  if (isBackoff(value)) return <Pause id={id} of={value} set={set} problem={problem} pointer={pointer} />
  if (typeof value === 'number') {
    return <span class="row"><input id={id} type="number" step="any" required value={value} onInput={(e) => { if (e.currentTarget.value !== '') set(Number(e.currentTarget.value)) }} />{/_ms$|_seconds$/.test(name) && <span class="note">{said(name, value)}</span>}</span>
  }
  return <input id={id} class="mono" value={String(value ?? '')} onInput={(e) => set(e.currentTarget.value)} spellcheck={false} />
}

/** A back-off: its kind, the fields that the kind has, and its jitter. Each field shows its own errors. Without a back-off there is only
 * the choice of the kind, where `none` is the label of none. */
export function Pause({ id, of, set, problem, pointer, none }: { id: string; of: Backoff | undefined; set: (v: Backoff | undefined) => void; problem: Problem | undefined; pointer: string; none?: string }) {
  const field = (part: string, label: string, control: ComponentChildren) => (
    <label class="field">{label} {control}{wrongAt(problem, `${pointer}/${part}`).map((detail) => <span class="wrong" role="alert" key={detail}>{detail}</span>)}</label>
  )
  const number = (now: Backoff, part: 'base_ms' | 'factor' | 'cap_ms', label: string, own?: string) =>
    field(part, label, <input {...(own ? { id: own } : {})} type="number" step="any" min="0" required value={now[part]} onInput={(e) => { if (e.currentTarget.value !== '') set({ ...now, [part]: Number(e.currentTarget.value) }) }} />)
  const choice = (part: string, now: string, choices: string[], take: (v: string) => void, own?: string) =>
    field(part, part, <select {...(own ? { id: own } : {})} value={now} onChange={(e) => take(e.currentTarget.value)}>{choices.map((c) => <option key={c}>{c}</option>)}</select>)
  const become = (to: string) => {
    if (to === none) return set(undefined)
    const base = of?.base_ms || of?.delays_ms?.[0] || 1000
    const jitter = of?.jitter
    set({ ...(to === 'exponential' ? {} : { kind: to }), base_ms: to === 'list' ? 0 : base, factor: to === 'exponential' ? 2 : 0, cap_ms: to === 'exponential' || to === 'linear' ? of?.cap_ms || 600_000 : 0, ...(to === 'list' ? { delays_ms: [base] } : {}), ...(jitter ? { jitter } : {}) })
  }
  const kinds = [...(none ? [none] : []), 'exponential', 'linear', 'fixed', 'list']
  if (!of) return <span class="row">{choice('kind', none ?? '', kinds, become, id)}</span>
  const kind = of.kind ?? 'exponential'
  const { jitter: _, ...bare } = of
  return (
    <span class="row">
      {kind === 'list'
        ? field('delays_ms', 'pauses, ms', <input id={id} required value={(of.delays_ms ?? []).join(', ')} onChange={(e) => set({ ...of, delays_ms: e.currentTarget.value.split(',').map(Number) })} />)
        : number(of, 'base_ms', 'first pause, ms', id)}
      {kind === 'exponential' && number(of, 'factor', 'times')}
      {(kind === 'exponential' || kind === 'linear') && number(of, 'cap_ms', 'at most, ms')}
      {choice('kind', kind, kinds, become)}
      {choice('jitter', of.jitter ?? 'full', ['full', 'equal', 'none'], (j) => set(j === 'full' ? bare : { ...bare, jitter: j }))}
      <span class="note">{pause(of)}</span>
    </span>
  )
}
