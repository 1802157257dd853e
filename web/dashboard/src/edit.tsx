import { useRef, useState } from 'preact/hooks'
import { Problem, call } from './api'
import { dates } from './format'
import { write } from './json'
import { useAction } from './live'
import { Failed } from './parts'
import { may } from './session'
import { Sentence } from './text'
import { sentenceOf } from './told'
import type { AuditEntry, Page } from './types'

type Fields = Record<string, unknown>

/** The edited object as it was read, by the form's names of its fields. */
export interface Version { fields: Fields; etag?: string | undefined; /** Its name in the audit log, where only the server knows it. */ target?: string }

interface Edited {
  /** The object as the page has it now; undefined while there is none. An edit begins with it, and follows it until something is edited. */
  now: Version | undefined
  /** The fields that the reader changed. */
  changes: Fields
  read: () => Promise<Version | undefined>
  /** Writes all fields, and says which version that made. */
  put: (fields: Fields, guard: Record<string, string>) => Promise<Version | undefined>
  /** The edit is over: it was saved in place of `was`, or the reader took the other version. */
  done: (now: Version | undefined, saved: boolean, was: Version | undefined) => void
  /** The filters that find its changes in the audit log. */
  log: Record<string, string>
  /** Fields outside the form may change meanwhile. The save then checks that the form's own fields are unchanged, and overwrites the
   * version that it saw. */
  looks?: boolean
  /** The same form edits several objects, so `now` is always the version with which the edit began. */
  pinned?: boolean
  said?: (name: string, value: unknown) => string
}

interface Theirs { now: Version | undefined; by: AuditEntry | undefined }

export interface Edit {
  busy: boolean
  problem: Problem | undefined
  /** All fields as the form has them. */
  fields: Fields
  save: () => Promise<void>
  clear: () => void
  conflict: { was: Version | undefined; theirs: Theirs; said: (name: string, value: unknown) => string; changed: string[]; keep: () => void; take: () => void } | undefined
}

/** The condition that it is unchanged since it was read. */
const guard = (at: Version | undefined): Record<string, string> => (at?.etag ? { 'If-Match': at.etag } : { 'If-None-Match': '*' })
const overtaken = (p: unknown) => p instanceof Problem && p.code === 'precondition_failed'

const differs = (a: Fields, b: Fields) => (name: string) => write(a[name] ?? null) !== write(b[name] ?? null)
const said = (_: string, value: unknown) => (value === undefined || value === null || value === '' ? 'none' : typeof value === 'string' ? value : write(value, 1))

/**
 * An edit of an object that others edit too. A save never overwrites another person's change unseen: the reader sees both versions, and
 * chooses. Fields that only the other changed stay in any case.
 */
export function useEdit(of: Edited): Edit {
  const action = useAction()
  const base = useRef(of.now)
  const followed = useRef('')
  const [theirs, setTheirs] = useState<Theirs>()
  const text = useRef('')
  text.current = write(of.now ?? null)
  const alike = write(of.now?.fields ?? null) === write(base.current?.fields ?? null) // only its ETag is another
  if ((of.pinned || alike || Object.keys(of.changes).length === 0) && text.current !== followed.current) {
    base.current = of.now
    followed.current = text.current
  }
  const was = base.current?.fields ?? {}
  const changed = Object.keys(of.changes).filter(differs(was, of.changes))
  const mine = Object.fromEntries(changed.map((name) => [name, of.changes[name]]))
  const look = () => of.read().catch((p) => { if (p instanceof Problem && p.status === 404) return undefined; throw p })
  const end = (now: Version | undefined, saved: boolean, was: Version | undefined) => {
    base.current = of.pinned ? of.now : now
    followed.current = text.current // what the page has is older, until it reads it again
    setTheirs(undefined)
    of.done(now, saved, was)
  }
  const over = (at: Version | undefined) => ({ ...(at ? at.fields : was), ...mine })
  const show = async (now: Version | undefined) => setTheirs({ now, by: may('admin') ? await latest({ ...of.log, ...(now?.target ? { target: now.target } : {}) }) : undefined })
  const attempt = async (at: Version | undefined): Promise<void> => {
    if (of.looks) {
      const now = await look()
      if (now && (at ? changed : Object.keys({ ...of.changes, ...now.fields })).some(differs(at?.fields ?? of.changes, now.fields))) return show(now)
      try {
        return end(await of.put(over(now ?? at), guard(now)), true, now)
      } catch (p) {
        if (!overtaken(p)) throw p
        return attempt(at) // another was written in between
      }
    }
    let saved: Version | undefined
    try {
      saved = await of.put(over(at), guard(at))
    } catch (p) {
      if (!overtaken(p)) throw p
      const now = await look()
      const same = at && now && at.etag !== now.etag && !Object.keys({ ...at.fields, ...now.fields }).some(differs(at.fields, now.fields))
      return same ? attempt(now) : show(now) // the change may be in something else, such as which version of a plugin is active
    }
    end(saved, true, at)
  }
  return {
    busy: action.busy, problem: action.problem, clear: () => { action.clear(); setTheirs(undefined) }, fields: { ...was, ...of.changes },
    save: () => action.run(() => attempt(base.current)),
    conflict: theirs && { was: base.current, theirs, said: of.said ?? said, changed, keep: () => void action.run(() => attempt(theirs.now)), take: () => end(theirs.now, false, undefined) },
  }
}

/** The last change in the log; undefined when it cannot be read, as nothing depends on it. */
const latest = (log: Record<string, string>) => call<Page<AuditEntry>>('GET', `/v1/audit?${new URLSearchParams({ ...log, outcome: 'ok', limit: '1' })}`).then((page) => page.items[0], () => undefined)

const clock = dates({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })

/** How a save ended that did not succeed: in a conflict, of which both sides are shown and offered, or with a problem. */
export function Outcome({ edit }: { edit: Edit }) {
  if (!edit.conflict) return edit.problem ? <Failed problem={edit.problem} /> : null
  const { was, theirs: { now, by }, said, changed, keep, take } = edit.conflict
  const before = was?.fields
  const rows = now ? [...new Set([...Object.keys(before ?? {}), ...Object.keys(now.fields)])].filter(differs(before ?? {}, now.fields)) : changed
  const what = !before ? 'There is one already.' : now ? 'It changed while you edited it.' : 'It was deleted while you edited it.'
  return (
    <section class="problem stack" aria-label="Conflict">
      <p role="alert"><b>{what}</b>{by && <><Sentence text={sentenceOf(by)} />, <span class="note">{clock(by.at)}</span></>}</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Both versions">
        <table class="versions">
          <thead><tr><th scope="col">Field</th>{before && <th scope="col">Before</th>}{now && <th scope="col">Theirs</th>}<th scope="col">Yours</th></tr></thead>
          <tbody>{rows.map((name) => (
            <tr key={name}>
              <th scope="row">{name.replaceAll('_', ' ')}</th>{before && <td>{said(name, before[name])}</td>}{now && <td>{said(name, now.fields[name])}</td>}
              <td>{changed.includes(name) ? said(name, edit.fields[name]) : <span class="note">you did not change it</span>}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
      <div class="row"><button type="button" disabled={edit.busy} onClick={keep}>Save yours</button><button type="button" disabled={edit.busy} onClick={take}>{now ? 'Take theirs' : 'Leave it deleted'}</button></div>
      {now && before && <small>In both cases, what only they changed stays.</small>}
      {edit.problem && <Failed problem={edit.problem} />}
    </section>
  )
}
