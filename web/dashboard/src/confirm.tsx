import type { ComponentChildren } from 'preact'
import { useId, useRef, useState } from 'preact/hooks'
import { exact } from './format'
import { useAction } from './live'
import { Who } from './me'
import { Failed } from './parts'

/** Above this number, an action on many wants it typed. */
const typedFrom = 100

interface Asked {
  /** The verb, on the button that does it. */
  name: string
  /** How many items it is done to, if known. The button shows the number, and a large one has to be typed. */
  n?: number | undefined
  danger?: boolean
  /** The consequences, in numbers. */
  children: ComponentChildren
}

/** Says what an action does, before it is done. It asks for the reader's name and for the number of items, where these matter. */
export function Question({ name, n, danger, children, busy, run, leave }: Asked & { busy: boolean; run: () => void; leave: () => void }) {
  const [text, setText] = useState('')
  const many = n !== undefined && n > typedFrom
  const sure = !many || text.replaceAll(/\D/g, '') === String(n)
  return (
    <form class="stack ask" aria-label={name} onSubmit={(e) => { e.preventDefault(); if (sure) run() }} onKeyDown={(e) => { if (e.key === 'Escape') leave() }}>
      <p>{children}</p>
      <Who required />
      {many && <label class="field">Type <code>{n}</code> to go on <input value={text} inputMode="numeric" autocomplete="off" onInput={(e) => setText(e.currentTarget.value)} ref={(i) => { if (i && !i.dataset.seen) { i.dataset.seen = '1'; i.focus() } }} /></label>}
      <div class="row"><button class={danger ? 'danger' : 'main'} disabled={busy || !sure}>{name}{n === undefined ? '' : ` ${exact(n)}`}</button><button type="button" onClick={leave}>Keep as it is</button></div>
    </form>
  )
}

/** A button that asks before it acts. The question is laid over the page, so that lists below do not move. */
export function Confirm({ question, button, label, look = 'quiet', disabled, lacks, refused, run, force, ...asked }: Asked & {
  /** The question, in one line. */
  question: string
  /** The text of the button that asks; the name when it is left out. */
  button?: string
  label?: string
  look?: 'quiet' | 'main' | 'danger' | 'plain'
  disabled?: boolean | undefined
  /** Why it may not be done with this login. */
  lacks?: string | undefined
  /** Why it cannot be done now; the dialog then says nothing else. */
  refused?: string | undefined
  run: () => Promise<unknown>
  /** Repeats it with force; offered when the server's refusal says that force would do it. */
  force?: () => Promise<unknown>
}) {
  const [open, setOpen] = useState(false)
  const shown = useRef<HTMLDialogElement | null>(null)
  const title = useId()
  const action = useAction()
  const leave = () => { setOpen(false); action.clear() }
  const act = (fn: () => Promise<unknown>) => void action.run(async () => { await fn(); setOpen(false) })
  const forced = force && action.problem?.status === 409 && /\bforce\b/.test(action.problem.detail)
  const show = (dialog: HTMLDialogElement | null) => {
    shown.current = dialog
    if (dialog && !dialog.open) dialog.showModal()
  }
  return (
    <>
      <button type="button" class={look} disabled={disabled || lacks !== undefined} title={lacks} aria-label={label} aria-haspopup="dialog" onClick={() => setOpen(true)}>{button ?? `${asked.name}…`}</button>
      {open && (
        <dialog ref={show} class="confirm" aria-labelledby={title} onClose={leave} onClick={(e) => { if (e.target === shown.current) leave() }}>
          <h2 id={title}>{question}</h2>
          {refused === undefined
            ? <Question {...asked} busy={action.busy} leave={leave} run={() => act(run)} />
            : <div class="stack"><p>{refused}</p><div class="row"><button onClick={leave}>Understood</button></div></div>}
          {action.problem && <Failed problem={action.problem} />}
          {forced && <p class="row foot"><button class="danger" disabled={action.busy} onClick={() => act(force)}>{asked.name} all the same</button></p>}
        </dialog>
      )}
    </>
  )
}
