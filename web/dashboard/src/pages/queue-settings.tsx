import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, etagOf, curl, quern, queuePath } from '../api'
import { amount, moment, queueName } from '../format'
import { write } from '../json'
import { CopyAs } from '../copy'
import { Outcome, useEdit } from '../edit'
import { say } from '../state'
import { backoffFlag, isBackoff } from '../backoff'
import { said, setting, settingsOf } from '../settings'
import type { Queue } from '../types'
import { Entry } from './setting-entry'

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

const version = (q: Queue) => ({ fields: q.settings, etag: etagOf(q) })

/** The form holds only the reader's changes. It shows another client's changes, and keeps them. */
function Change({ q, form, setForm, again }: { q: Queue; form: Record<string, unknown>; setForm: (f: Record<string, unknown> | undefined) => void; again: () => void }) {
  const changed = Object.fromEntries(Object.entries(form).filter(([name, value]) => write(value) !== write(q.settings[name] ?? (typeof value === 'string' ? '' : undefined))))
  const n = Object.keys(changed).length
  const path = queuePath(q.name)
  const edit = useEdit({
    now: { fields: q.settings }, changes: form, looks: true, log: { queue: q.name, action: 'queue.change' }, said,
    read: async () => version(await call<Queue>('GET', path)),
    put: async (_, guard) => version(await call<Queue>('PATCH', path, { settings: changed }, guard)),
    done: (_, saved) => {
      if (saved) say(`${amount(n, 'setting')} changed`)
      setForm(undefined)
      again()
    },
  })
  return (
    <form class="stack" aria-label={`Settings of ${queueName(q.name)}`} onSubmit={(e) => { e.preventDefault(); void edit.save() }} onKeyDown={(e) => { if (e.key === 'Escape') setForm(undefined) }}>
      <dl class="facts form settings">
        {settingsOf(q.settings).map(([name]) => (
          <Entry key={name} name={name} value={form[name] ?? q.settings[name]} set={(value) => setForm({ ...form, [name]: value })} problem={edit.problem} pointer={`/settings/${name}`} />
        ))}
      </dl>
      {!edit.problem?.errors.some((e) => e.pointer.startsWith('/settings/')) && <Outcome edit={edit} />}
      <div class="row">
        <button class="main" disabled={edit.busy || n === 0}>{n === 0 ? 'Nothing changed' : `Change ${n}`}</button>
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
    if (isBackoff(value)) return [flag, backoffFlag(value)]
    return [flag, `${value}${name.endsWith('_ms') ? 'ms' : name.endsWith('_seconds') ? 's' : ''}`]
  })
}
