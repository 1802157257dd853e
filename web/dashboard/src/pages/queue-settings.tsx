import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { Problem, call, curl, quern, queuePath } from '../api'
import { moment } from '../format'
import { useAction } from '../live'
import { CopyAs } from '../copy'
import { Failed } from '../parts'
import { say } from '../state'
import { isBackoff, said, setting, settingsOf, type Backoff } from '../settings'
import type { Queue } from '../types'

/** A queue's settings, and a form that changes them. Each decision reads the setting of its moment, so that a change holds at once. */
export function QueueSettings({ q, again }: { q: Queue; again: () => void }) {
  const [form, setForm] = useState<Record<string, unknown>>()
  if (form) return <Change q={q} form={form} setForm={setForm} again={again} />
  return (
    <>
      <dl class="facts settings">
        <dt>created</dt><dd>{moment(q.created_at)}</dd>
        {settingsOf(q.settings).map(([name, value]) => <><dt><code>{name}</code></dt><dd>{said(name, value)}<small>{setting(name)?.sentence}</small></dd></>)}
      </dl>
      <Gate scope="admin"><p class="foot"><button onClick={() => setForm({})}>Change…</button></p></Gate>
    </>
  )
}

/** The form holds what its reader changed: what another client changes meanwhile is shown, and stays. */
function Change({ q, form, setForm, again }: { q: Queue; form: Record<string, unknown>; setForm: (f: Record<string, unknown> | undefined) => void; again: () => void }) {
  const action = useAction()
  const changed = Object.fromEntries(Object.entries(form).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(q.settings[name] ?? (typeof value === 'string' ? '' : undefined))))
  const n = Object.keys(changed).length
  const path = queuePath(q.name)
  const save = () => action.run(async () => {
    await call('PATCH', path, { settings: changed })
    say(`${n} ${n === 1 ? 'setting is' : 'settings are'} changed, from the next decision on`)
    setForm(undefined)
    again()
  })
  const wrong = (name: string) => action.problem instanceof Problem ? action.problem.errors.filter((e) => e.pointer === `/settings/${name}` || e.pointer.startsWith(`/settings/${name}/`)) : []
  return (
    <form class="stack" aria-label={`Settings of ${q.name}`} onSubmit={(e) => { e.preventDefault(); void save() }} onKeyDown={(e) => { if (e.key === 'Escape') setForm(undefined) }}>
      <dl class="facts form settings">
        {settingsOf(q.settings).map(([name]) => (
          <>
            <dt><label for={`set-${name}`}><code>{name}</code></label></dt>
            <dd>
              <Field name={name} value={form[name] ?? q.settings[name]} set={(value) => setForm({ ...form, [name]: value })} />
              <small>{[setting(name)?.sentence, setting(name)?.range].filter(Boolean).join(': ')}</small>
              {wrong(name).map((e) => <p class="problem" role="alert">{e.detail}</p>)}
            </dd>
          </>
        ))}
      </dl>
      {action.problem && !action.problem.errors.some((e) => e.pointer.startsWith('/settings/')) && <Failed problem={action.problem} />}
      <div class="row">
        <button class="main" disabled={action.busy || n === 0}>{n === 0 ? 'Nothing changed' : `Change ${n}`}</button>
        <button type="button" onClick={() => setForm(undefined)}>Leave as it is</button>
        {n > 0 && <CopyAs cli={quern('queue', 'set', q.name, ...flags(changed))} curl={curl('PATCH', path, { settings: changed })} />}
      </div>
    </form>
  )
}

/** The flags that `quern queue set` has for settings. */
function flags(changed: Record<string, unknown>): string[] {
  return Object.entries(changed).flatMap(([name, value]) => {
    const flag = '--' + name.replace(/_(ms|seconds)$/, '').replaceAll('_', '-')
    if (typeof value === 'boolean') return [`${flag}=${value}`]
    if (isBackoff(value)) return [flag, value.base_ms === 0 ? '0' : `${value.base_ms}ms,${value.factor},${value.cap_ms}ms`]
    return [flag, `${value}${name.endsWith('_ms') ? 'ms' : name.endsWith('_seconds') ? 's' : ''}`]
  })
}

/** One setting. Numbers go to the server as they are: it says what they may be. */
function Field({ name, value, set }: { name: string; value: unknown; set: (v: unknown) => void }) {
  const id = `set-${name}`
  const choices = setting(name)?.choices
  if (choices) return <select id={id} value={String(value)} onChange={(e) => set(e.currentTarget.value)}>{choices.map((c) => <option key={c}>{c}</option>)}</select>
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
