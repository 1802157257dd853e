import { useLive } from './live'
import { amount, dates, exact } from './format'
import { may } from './session'
import { link, queue } from './state'
import { stats } from './stream'
import { Sentence } from './text'
import { sentenceOf } from './told'
import type { AuditEntry, Page } from './types'

/** How many of the latest changes are read for a chart. */
const most = 50

/** How many of these changes the chart's foot names. */
const told = 3

/** The changes of this queue, or of one target in it, within this many seconds, the latest first. Without the scope for the audit log there are none. */
export function useChanges(within: number, target?: string): AuditEntry[] {
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const since = new Date((Math.floor(now / 60_000) - Math.ceil(within / 60)) * 60_000).toISOString() // whole minutes, so that the address changes seldom
  const asked = new URLSearchParams({ queue: queue.value, outcome: 'ok', since, limit: String(most), ...(target ? { target } : {}) })
  return useLive<Page<AuditEntry>>(now > 0 && may('admin') ? `/v1/audit?${asked}` : '', 5, `${queue.value} ${within} ${target}`).data?.items ?? []
}

const clock = dates({ hour: '2-digit', minute: '2-digit' })
const dayAndClock = dates({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' })

/** The marks of a chart as sentences. */
export function Changes({ items, within, target }: { items: AuditEntry[]; within: number; target?: string | undefined }) {
  if (items.length === 0) return null
  const span = within <= 600 ? '10m' : within <= 3600 ? '1h' : within <= 86_400 ? undefined : within <= 604_800 ? '168h' : 'all'
  return (
    <p class="foot" aria-label="What changed lately">
      <span class="note">┊ changes: </span>
      {items.slice(0, told).map((e, i) => <span key={e.at + i}>{i > 0 && ' · '}<span class="note">{(within > 86_400 ? dayAndClock : clock)(e.at)}</span> <Sentence text={sentenceOf(e)} /></span>)}
      {items.length > told && ` · ${exact(items.length - told)}${items.length === most ? ' and more' : ''} before`} · <a href={link('activity', { for: span, queue: queue.value, target })}>all</a>
    </p>
  )
}

/** The marks of strips, as a row above them. */
export function MarkRow({ items, from, to }: { items: AuditEntry[]; from: number; to: number }) {
  const seen = items.map((e) => ({ e, at: (Date.parse(e.at) - from) / (to - from) })).filter(({ at }) => at >= 0 && at <= 1)
  if (seen.length === 0) return null
  return (
    <>
      <span class="val note">changes</span>
      <div class="marks" role="img" aria-label={amount(seen.length, 'change')}>{seen.map(({ e, at }, i) => <i key={e.at + i} style={{ left: `${100 * at}%` }} title={`${clock(e.at)} ${sentenceOf(e)}`} />)}</div>
      <span />
    </>
  )
}
