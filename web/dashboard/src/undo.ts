import { call, keyPath, queuePath, valueText } from './api'
import { clamped, visible } from './format'
import type { Undo } from './state'
import type { AuditEntry, Meta, MetaValue } from './types'

type Done = Pick<AuditEntry, 'action' | 'queue' | 'target' | 'before' | 'after'>
type Fields = Record<string, unknown>

/** A pair as the audit log writes it: the value is JSON, a number or a text. */
function pairOf(text: string): [string, MetaValue] | undefined {
  const cut = text.indexOf('=')
  if (cut < 1) return undefined
  const raw = text.slice(cut + 1)
  if (/^-?\d+$/.test(raw)) return [text.slice(0, cut), BigInt(raw)]
  try { return [text.slice(0, cut), raw.startsWith('"') ? String(JSON.parse(raw)) : raw] } catch { return undefined }
}

/** What a rule was about, from how the audit log writes it. */
function matchOf(text: string): { queue?: boolean; submission?: string; meta?: Meta } | undefined {
  if (text === 'the queue') return { queue: true }
  const submission = /^submission (\d+)$/.exec(text)
  if (submission) return { submission: submission[1]! }
  const pair = pairOf(text)
  return pair && { meta: { [pair[0]]: pair[1] } }
}

const settings = (v: Fields | undefined) => {
  const of = { limit: null, weight: null, ...v } as { limit: number | null; weight: number | null }
  return `${of.limit === null ? 'no limit' : 'limit ' + of.limit}, weight ${of.weight ?? 1}`
}

/** The call that takes a change back, from what the audit log has of it; undefined where there is none. What came after it is overwritten. */
export function undoOf({ action, queue = '', target = '', before, after }: Done): Undo | undefined {
  const base = queuePath(queue)
  const rest = target.slice(target.indexOf(' ') + 1)
  const named = clamped(visible(target), 40)
  const was = before as Fields | undefined
  switch (action) {
    case 'rule.create':
      return { text: `lift ${target}`, run: () => call('DELETE', `${base}/rules/${rest}`) }
    case 'rule.lift': {
      const match = was && matchOf(String(was['match']))
      if (!match || typeof was?.['action'] !== 'string') return undefined
      const { action: verb, reason } = was as { action: string; reason?: string }
      return { text: `${verb} ${clamped(visible(String(was['match'])), 40)} again`, run: () => call('POST', `${base}/rules`, { action: verb, match, ...(reason ? { reason } : {}) }) }
    }
    case 'value.set':
    case 'value.delete': {
      const pair = pairOf(target)
      if (!pair) return undefined
      const path = `${keyPath(queue, pair[0])}/values/${encodeURIComponent(valueText(pair[1]))}`
      return { text: `${named}: ${settings(was)} again`, run: () => (was ? call('PUT', path, { limit: was['limit'] ?? null, weight: was['weight'] ?? null }) : call('DELETE', path)) }
    }
    case 'consumer.quiet':
    case 'consumer.drain':
      return { text: `resume ${named}`, run: () => call('POST', `${base}/consumers/${encodeURIComponent(rest)}/resume`) }
    case 'schedule.pause':
    case 'schedule.resume': {
      const back = action === 'schedule.pause' ? 'resume' : 'pause'
      return { text: `${back} ${named}`, run: () => call('POST', `${base}/schedules/${encodeURIComponent(rest)}/${back}`) }
    }
    case 'submission.change':
      return typeof was?.['priority'] === 'number' ? { text: `priority ${was['priority']} again`, run: () => call('PATCH', `/v1/submissions/${rest}`, { priority: was['priority'] }) } : undefined
    case 'strategy.change':
      return typeof before === 'string' && typeof after === 'string' ? { text: `${named} as it was`, run: () => call('PUT', `${base}/strategies/${encodeURIComponent(rest)}`, { strategy: before }) } : undefined
  }
  return undefined
}
