import type { ComponentChildren } from 'preact'
import { valueText, type Problem } from './api'
import { Copy } from './copy'
import { amount, duration, exact, grouped, metaList, moment, percent, short, shown } from './format'
import { inQueue, link, valueLink } from './state'
import { Clamp, Sentence } from './text'
import type { Diagnosis, Forecast, Meta, MetaValue, Submission, ValueCount, Warning } from './types'

/** The states of a chunk, each with its colour class; `done` first as in all bars. */
export const chunkStates = ['done', 'reserved', 'ready', 'waiting', 'dead', 'skipped'] as const

/** Where the chunks of a submission are counted: those behind a rule stand apart. */
export const countedStates = ['done', 'reserved', 'ready', 'paused', 'blocked', 'waiting', 'dead', 'skipped'] as const

export const Mark = ({ of }: { of: string }) => <i class={`mark ${of}`} aria-hidden="true" />

/** The queues in quarantine. Of one with several shards, those shards that are. */
export function damagedOf(all: { name: string; quarantined?: unknown }[]): string[] {
  const names = all.flatMap((q) => (q.quarantined ? [q.name] : []))
  return names.filter((name) => !names.some((other) => other.startsWith(name + '~')))
}

/** A count, shortened when it is long; the exact one is in its title. */
export const Count = ({ n, of }: { n: number; /** The noun of one. */ of?: string }) => <span title={of ? amount(n, of) : exact(n)}>{of ? amount(n, of, `${of}s`, short) : short(n)}</span>

export function Tile({ of, name, value, title, href, children }: { of?: string; name: string; value: string; title?: string; /** The list of its items. */ href?: string; children?: ComponentChildren }) {
  return (
    <section class="card tile" aria-label={name}>
      <div class="k">{of && <Mark of={of} />}{href ? <a href={href}>{name}</a> : name}</div>
      <div class="v" title={title}>{value}</div>
      <div class="d">{children}</div>
    </section>
  )
}

export const Chip = ({ k, v }: { k: string; v: MetaValue }) => <span class="chip"><Clamp text={`${k}=${shown(v)}`} href={valueLink(k, valueText(v))} /></span>
export const MetaChips = ({ meta }: { meta: Meta | undefined }) => <>{metaList(meta).map(([k, v]) => <Chip key={k} k={k} v={v} />)}</>

/** A part of a bar. A share of 0 has no element, because its border would still show. */
export const Width = ({ of, share }: { of: string; share: number }) => (share > 0 ? <i class={of} style={{ width: `${Math.min(100, share)}%` }} /> : null)

/** When work is done, as the server foresees it. */
export function ends(f: Forecast, now: number): string {
  const within = (at: string) => duration(Math.max(1, (Date.parse(at) - now) / 1000))
  const text = [`in about ${within(f.p50)}`, `nine times in ten within ${within(f.p90)}`, ...(f.not_before ? [`not before ${moment(f.not_before)}`] : [])].join(', ')
  return f.moving ? text : `${text}, but for what does not move`
}

/** Whether a value is at its limit, but for the moments between two chunks. */
export const atLimit = (v: ValueCount) => v.saturated || v.saturated_since !== null

/** Where the chunks of a submission stand, as one bar. */
export function Progress({ s }: { s: Submission }) {
  const text = countedStates.filter((of) => s[of]).map((of) => `${exact(s[of] ?? 0)} ${of}`).join(', ') || 'no chunk'
  return (
    <div class="bar" role="img" aria-label={text} title={text}>
      {countedStates.map((of) => <Width key={of} of={of} share={percent(s[of] ?? 0, s.chunks)} />)}
    </div>
  )
}

const stateMark: Record<string, string> = { open: 'reserved', completed: 'done', completed_with_dead: 'dead', failed: 'dead', cancelled: 'skipped', expired: 'skipped' }
export const State = ({ of }: { of: string }) => <span class="state"><Mark of={stateMark[of] ?? of} />{of.replaceAll('_', ' ')}</span>

export const SubmissionLink = ({ id }: { id: string }) => <a class="mono" href={link('submissions/' + id)}>{id}</a>

/** Blocks that nothing scores now, with the reason. */
export const Unscored = ({ of = 'The strategy', list }: { of?: string; list: Warning[] | undefined }) => <>{list?.map((w, i) => <p class="problem" role="status" key={i}>{of} {w.detail}.</p>)}</>

/** The dashboard page for a path of the API below a queue. */
function pageOf(href: string): string {
  const [, , , name = '', list = '', ...rest] = href.split('/')
  const page = list === 'meta-keys' ? `keys/${rest[0]}/${rest[2]}` : list === 'consumers' && rest.length > 0 ? `consumers/${rest[0]}` : list
  return inQueue(decodeURIComponent(name), page)
}

/** The sentence of a queue. Objects that its causes name are links, in the order of the sentence. */
export function Answer({ d }: { d: Diagnosis }) {
  const parts: ComponentChildren[] = []
  let from = 0
  for (const l of d.causes.flatMap((c) => c.links ?? []).map((l) => ({ ...l, at: d.sentence.indexOf(l.text) })).sort((a, b) => a.at - b.at)) {
    if (l.at < from) continue
    parts.push(<Sentence text={d.sentence.slice(from, l.at)} />, <a href={pageOf(l.href)}><Sentence text={l.text} /></a>)
    from = l.at + l.text.length
  }
  return <>{parts}<Sentence text={d.sentence.slice(from)} /></>
}

/** An error, with the request id under which the server's log has it. */
export function Failed({ problem, again }: { problem: Problem; again?: () => void }) {
  return (
    <div class="problem" role="alert">
      <b>{problem.title}</b>
      {problem.detail}
      {problem.errors.length > 0 && <ul>{problem.errors.map((e) => <li key={e.pointer}><code>{e.pointer}</code> {grouped(e.detail)}</li>)}</ul>}
      <div class="row">
        {problem.requestId && <small>request <code>{problem.requestId}</code></small>}
        {again && <button class="quiet" onClick={again}>Try again</button>}
      </div>
    </div>
  )
}

/** An empty list: the text explains it, and the command changes it. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <><pre tabIndex={0}>{command}</pre><Copy text={command} name="Copy command" /></>}
    </div>
  )
}

/** The number of selected rows of a list, with the actions on them. It keeps its room, so that the list below does not move. */
export function Chosen({ n, clear, children }: { n: number; clear: () => void; children: ComponentChildren }) {
  return <div class="chosen row" role="status">{n === 0 ? <small>Nothing selected.</small> : <><b>{exact(n)} selected</b>{children}<button onClick={clear}>Clear</button></>}</div>
}
