import type { ComponentChildren } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { Problem, call, curl, queuePath, quern, shell } from '../api'
import { backoffFlag, type Backoff } from '../backoff'
import { metaOf, pairFlags } from '../context'
import { amount, grouped } from '../format'
import { useAction } from '../live'
import { CopyAs } from '../copy'
import { Failed } from '../parts'
import { link, queue, say } from '../state'
import type { Submission } from '../types'
import { Pause, wrongAt } from './setting-entry'
import { ManySubmissions, randomKey } from './submit-many'

interface Form {
  form: 'prefix' | 'template' | 'inline'
  count: string; prefix: string; template: string; inline: string; meta: string; priority: string; group: string; attachment: string
  runAt: string; deadDeadline: string; backoff?: Backoff | undefined; maxAttempts: string; onExhausted: string; maxFailed: string; timeout: string; operations: string
}

const first: Form = {
  form: 'prefix', count: '1000', prefix: '', template: 'row {index}', inline: '', meta: '', priority: '', group: '', attachment: '',
  runAt: '', deadDeadline: '', maxAttempts: '', onExhausted: '', maxFailed: '', timeout: '', operations: '',
}

const lines = (text: string) => text.replace(/\n$/, '').split('\n')
const iso = (local: string) => new Date(local).toISOString()

/** The insert that the form means. Numbers go to the server as they are typed, so that the server checks them. */
function bodyOf(f: Form) {
  const whole = (text: string) => (/^-?\d+$/.test(text) ? BigInt(text) : text)
  const { meta } = metaOf(f.meta)
  return {
    ...(Object.keys(meta).length > 0 ? { meta } : {}),
    chunks: f.form === 'inline' ? { inline: f.inline === '' ? [] : lines(f.inline).map((text) => ({ text })) } : { count: whole(f.count), ...(f.form === 'prefix' ? { prefix: f.prefix } : { template: f.template }) },
    ...(f.priority ? { priority: whole(f.priority) } : {}), ...(f.group ? { group: f.group } : {}), ...(f.attachment ? { attachment: { text: f.attachment } } : {}),
    ...(f.runAt ? { run_at: iso(f.runAt) } : {}), ...(f.deadDeadline ? { dead_deadline: iso(f.deadDeadline) } : {}),
    ...(f.maxAttempts ? { max_attempts: whole(f.maxAttempts) } : {}), ...(f.onExhausted ? { on_exhausted: f.onExhausted } : {}),
    ...(f.backoff ? { retry_backoff: f.backoff } : {}), ...(f.maxFailed ? { max_failed_chunks: whole(f.maxFailed) } : {}), ...(f.timeout ? { timeout_ms: whole(f.timeout) } : {}), ...(f.operations ? { operations_per_chunk: whole(f.operations) } : {}),
  }
}

/** The same on the command line; inline chunks come by standard input. */
function cliOf(f: Form): string {
  const words = ['submit', '--queue', queue.value]
  if (f.form !== 'inline') words.push('--count', f.count, ...(f.form === 'prefix' ? ['--prefix', f.prefix] : ['--template', f.template]))
  words.push(...pairFlags('--meta', metaOf(f.meta).meta))
  for (const [flag, value] of [['priority', f.priority], ['group', f.group], ['attachment', f.attachment], ['run-at', f.runAt && iso(f.runAt)], ['dead-deadline', f.deadDeadline && iso(f.deadDeadline)], ['max-attempts', f.maxAttempts], ['on-exhausted', f.onExhausted], ['retry-backoff', f.backoff && backoffFlag(f.backoff)], ['max-failed-chunks', f.maxFailed], ['timeout', f.timeout && `${f.timeout}ms`]] as const) if (value) words.push('--' + flag, value)
  return f.form === 'inline' ? `${shell('printf', '%s\\n', ...lines(f.inline))} | ${quern(...words)}` : quern(...words)
}

/** Inserts one submission, or many. */
export function NewSubmission({ close }: { close: () => void }) {
  const [many, setMany] = useState(false)
  const which = <span class="seg" role="group" aria-label="How many submissions"><button type="button" aria-pressed={!many} onClick={() => setMany(false)}>One</button><button type="button" aria-pressed={many} onClick={() => setMany(true)}>Many, as JSON lines</button></span>
  if (!many) return <One which={which} close={close} />
  return (
    <section class="card w12">
      <header><h2>New submissions</h2><div class="row">{which}<button onClick={close}>Close</button></div></header>
      <ManySubmissions />
    </section>
  )
}

/** Inserts a submission. The server's errors stand at their fields. */
function One({ which, close }: { which: ComponentChildren; close: () => void }) {
  const [f, set] = useState(first)
  const [more, setMore] = useState(false)
  const [wrong, setWrong] = useState('')
  const action = useAction()
  const tried = useRef({ body: '', key: '' })
  const path = `${queuePath(queue.value)}/submissions`
  const body = bodyOf(f)
  const errors = action.problem?.errors ?? []
  const at = (pointer: string) => errors.filter((e) => e.pointer === pointer || e.pointer.startsWith(pointer + '/')).map((e) => grouped(e.detail))
  const change = (part: Partial<Form>) => set((old) => ({ ...old, ...part }))
  const insert = (e: SubmitEvent) => {
    e.preventDefault()
    const named = metaOf(f.meta).wrong
    setWrong(named ?? '')
    if (named) return
    const text = curl('POST', path, body)
    if (tried.current.body !== text) tried.current = { body: text, key: randomKey() }
    void action.run(async () => {
      const s = await call<Submission>('POST', path, body, { 'Idempotency-Key': tried.current.key })
      say(`Submission ${s.id} with ${amount(s.chunks, 'chunk')}`)
      location.hash = link('submissions/' + s.id)
    })
  }
  const text = (name: string, part: keyof Omit<Form, 'backoff'>, pointer: string, more: Record<string, unknown> = {}) => (
    <Field name={name} problems={at(pointer)}><input value={f[part]} onInput={(e) => change({ [part]: e.currentTarget.value })} {...more} aria-invalid={at(pointer).length > 0} /></Field>
  )
  const placed = ['/chunks', '/meta', '/priority', '/group', '/attachment', '/run_at', '/dead_deadline', '/max_attempts', '/on_exhausted', '/retry_backoff', '/max_failed_chunks', '/timeout_ms', '/operations_per_chunk']
  const rest = errors.filter((e) => !placed.some((p) => e.pointer === p || e.pointer.startsWith(p + '/')))
  const hidden = !more && errors.some((e) => placed.slice(3).some((p) => e.pointer === p || e.pointer.startsWith(p + '/')))
  return (
    <section class="card w12">
      <header><h2>New submission</h2><div class="row">{which}<CopyAs cli={cliOf(f)} curl={curl('POST', path, body)} /><button onClick={close}>Close</button></div></header>
      <form class="stack" aria-label="New submission" onSubmit={insert} noValidate>
        <div class="row"><span>Its chunks are</span><span class="seg" role="group" aria-label="Kind of chunks">{([['prefix', 'in object storage'], ['template', 'made from a template'], ['inline', 'given here']] as const).map(([form, name]) => <button type="button" key={form} aria-pressed={f.form === form} onClick={() => change({ form })}>{name}</button>)}</span></div>
        {f.form === 'inline'
          ? <Field name="Chunks, one a line" problems={at('/chunks')}><textarea rows={4} spellcheck={false} value={f.inline} placeholder={'first chunk\nsecond chunk'} onInput={(e) => change({ inline: e.currentTarget.value })} /></Field>
          : (
            <div class="fields">
              {text('How many', 'count', '/chunks/count', { inputMode: 'numeric' })}
              {f.form === 'prefix'
                ? text('Prefix, before the index', 'prefix', '/chunks/prefix', { class: 'mono', placeholder: 's3://bucket/run-7/' })
                : text('Text; {index} is replaced', 'template', '/chunks/template', { class: 'mono' })}
              {errors.filter((e) => e.pointer === '/chunks').map((e) => <p key={e.detail} class="wrong" role="alert">Chunks {grouped(e.detail)}</p>)}
            </div>
          )}
        <div class="fields two">
          <Field name="Meta, KEY=VALUE a line" problems={[...at('/meta'), ...(wrong ? [wrong] : [])]}><textarea rows={3} spellcheck={false} value={f.meta} placeholder={'company=acme\nmode=preview'} onInput={(e) => change({ meta: e.currentTarget.value })} /></Field>
          <div class="stack">{text('Priority', 'priority', '/priority', { inputMode: 'numeric', placeholder: '0' })}</div>
        </div>
        {more || hidden ? (
          <>
            <div class="fields">
              {text('Not before, in your time', 'runAt', '/run_at', { type: 'datetime-local' })}
              {text('Ends at, in your time', 'deadDeadline', '/dead_deadline', { type: 'datetime-local' })}
              {text('Attempts per chunk', 'maxAttempts', '/max_attempts', { inputMode: 'numeric', placeholder: 'as the queue has it' })}
              <Field name="After the last attempt, a chunk" problems={at('/on_exhausted')}><select value={f.onExhausted} onChange={(e) => change({ onExhausted: e.currentTarget.value })}><option value="">as the queue says</option><option value="fail_submission">fails the submission</option><option value="dead_letter">becomes a dead letter</option><option value="skip">is given up</option></select></Field>
              {text('Chunks that may fail', 'maxFailed', '/max_failed_chunks', { inputMode: 'numeric', placeholder: 'any number' })}
              {text('Longest attempt, in ms', 'timeout', '/timeout_ms', { inputMode: 'numeric', placeholder: 'as the queue has it' })}
              {text('Operations per chunk', 'operations', '/operations_per_chunk', { inputMode: 'numeric', placeholder: '1' })}
              {text('Group', 'group', '/group', { placeholder: 'none' })}
            </div>
            <div class="stack tight" role="group" aria-label="Pause after a failed attempt">Pause after a failed attempt<Pause id="backoff" of={f.backoff} set={(backoff) => change({ backoff })} problem={action.problem} pointer="/retry_backoff" none="as the queue has it" />{wrongAt(action.problem, '/retry_backoff', true).map((detail) => <span class="wrong" role="alert" key={detail}>{detail}</span>)}</div>
            <Field name="Attachment, sent with every chunk" problems={at('/attachment')}><textarea rows={2} spellcheck={false} value={f.attachment} onInput={(e) => change({ attachment: e.currentTarget.value })} /></Field>
          </>
        ) : <div><button type="button" class="quiet" onClick={() => setMore(true)}>Times, attempts, group, attachment…</button></div>}
        <div class="row"><button class="main" disabled={action.busy}>Insert</button><button type="button" onClick={close}>Leave it</button>{errors.length > rest.length && <span role="alert" class="wrong">{amount(errors.length - rest.length, 'field is', 'fields are')} refused; request <code>{action.problem!.requestId}</code></span>}</div>
        {action.problem && (errors.length === 0 || rest.length > 0) && <Failed problem={new Problem(action.problem.title, action.problem.detail, action.problem.status, action.problem.code, action.problem.requestId, rest)} />}
      </form>
    </section>
  )
}

/** A field of the form, with the server's errors about it. */
function Field({ name, problems, children }: { name: string; problems: string[]; children: ComponentChildren }) {
  return <label class="stack tight">{name}{children}{problems.map((p) => <span key={p} class="wrong" role="alert">{p}</span>)}</label>
}
