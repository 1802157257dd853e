import { Problem } from '../api'
import { isBackoff, said, setting, type Backoff } from '../settings'

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

function Pause({ id, of, set }: { id: string; of: Backoff; set: (v: Backoff) => void }) {
  const part = (field: keyof Backoff, label: string, own?: string) => (
    <label class="field">{label} <input {...(own ? { id: own } : {})} type="number" step="any" min="0" required value={of[field]} onInput={(e) => { if (e.currentTarget.value !== '') set({ ...of, [field]: Number(e.currentTarget.value) }) }} /></label>
  )
  return <span class="row">{part('base_ms', 'ms', id)}{part('factor', 'times')}{part('cap_ms', 'at most')}</span>
}
