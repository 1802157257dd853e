import { call, keyPath, pluginPath, queuePath, valueText } from './api'
import { clamped, queueName, rateText, visible } from './format'
import { read, write } from './json'
import { said, setting } from './settings'
import type { Undo } from './state'
import { named } from './told'
import type { AuditEntry, Meta, MetaValue, Quota, Rate, RuleMatch } from './types'

type Done = Pick<AuditEntry, 'action' | 'queue' | 'target' | 'before' | 'after'>
type Fields = Record<string, unknown>

/** A pair as the audit log writes it: the value is JSON, a number or a text. */
function pairOf(text: string): [string, MetaValue] | undefined {
  const cut = text.indexOf('=')
  if (cut < 1) return undefined
  const raw = text.slice(cut + 1)
  if (/^-?\d+$/.test(raw)) return [text.slice(0, cut), BigInt(raw)]
  try { return [text.slice(0, cut), raw.startsWith('"') ? read<string>(raw) : raw] } catch { return undefined }
}

/** The match of a rule, from its text in the audit log. */
function matchOf(text: string): { queue?: boolean; submission?: string; meta?: Meta } | undefined {
  if (text === 'the queue') return { queue: true }
  const submission = /^submission (\d+)$/.exec(text)
  if (submission) return { submission: submission[1]! }
  const pair = pairOf(text)
  return pair && { meta: { [pair[0]]: pair[1] } }
}

const limits = (v: Fields | undefined) => {
  const of = { limit: null, weight: null, ...v } as { limit: number | null; weight: number | null; rate?: Rate; quota?: Quota }
  return `${of.limit === null ? 'no limit' : 'limit ' + of.limit}, weight ${of.weight ?? 1}${of.rate ? ', rate ' + rateText(of.rate) : ''}${of.quota ? ', its quota' : ''}`
}

/** The settings of a queue that a change changed, as they were, by the names that the API has: the log has every duration in milliseconds, and leaves out what is zero and new. */
function settingsBefore(was: Fields, is: Fields): [string, unknown][] {
  const changed = [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((name) => write(was[name]) !== write(is[name]))
  return changed.map((row) => {
    const name = setting(row) ? row : row.replace(/_ms$/, '_seconds')
    const zero = setting(name)?.choices?.[0] ?? { number: 0, boolean: false }[typeof is[row] as string] ?? ''
    const value = was[row] ?? zero
    return [name, name === row ? value : Number(value) / 1000]
  })
}

/** A version of a plugin as it is in use. */
export interface Use { sha256: string; config: unknown }
interface InUse { active?: Use; shadow?: Use; canary?: Use; percent?: number; settings?: Fields }

/** Restores the versions of a plugin that were in use before a change: one call for each role that the change gave to another version. */
function pluginBefore(name: string, was: InUse, is: InUse): Undo | undefined {
  const path = pluginPath(name)
  const differs = (role: keyof InUse) => write(was[role]) !== write(is[role])
  const short = (use: Use) => use.sha256.slice(0, 8)
  const body = (use: Use | undefined) => (use ? { version: use.sha256, config: use.config } : { version: '' })
  const steps: [string, () => Promise<unknown>][] = []
  if (differs('active')) steps.push(was.active ? [`${short(was.active)} active`, () => call('POST', `${path}/activate`, body(was.active))] : ['out of use', () => call('POST', `${path}/deactivate`)])
  if (was.active && differs('shadow')) steps.push([was.shadow ? `${short(was.shadow)} as shadow` : 'no shadow', () => call('POST', `${path}/shadow`, body(was.shadow))])
  if (was.active && (differs('canary') || differs('percent'))) steps.push([was.canary ? `${short(was.canary)} as canary for ${was.percent ?? 0} %` : 'no canary', () => call('POST', `${path}/canary`, { ...body(was.canary), percent: was.percent ?? 0 })])
  if (steps.length === 0) return undefined
  return { text: `plugin ${clamped(visible(name), 40)}: ${steps.map(([text]) => text).join(', ')} again`, scope: 'plugins', run: async () => { for (const [, run] of steps) await run() } }
}

/** Sets a limit, a weight, a rate and a quota as they were. */
const put = (path: string, was: Fields | undefined) => (was ? call('PUT', path, { limit: was['limit'] ?? null, weight: was['weight'] ?? null, ...(was['rate'] ? { rate: was['rate'] } : {}), ...(was['quota'] ? { quota: was['quota'] } : {}) }) : call('DELETE', path))

/** The call that takes a change back, from its entry in the audit log; undefined where there is none. It overwrites later changes. */
export function undoOf({ action, queue = '', target = '', before, after }: Done): Undo | undefined {
  const base = queuePath(queue)
  const rest = target.slice(target.indexOf(' ') + 1)
  const name = clamped(visible(named(target)), 40)
  const was = before as Fields | undefined
  switch (action) {
    case 'rule.create':
      return { text: `lift ${named(target)}`, run: () => call('DELETE', `${base}/rules/${rest}`) }
    case 'rule.lift': {
      const match = was && ((was['conditions'] as RuleMatch | undefined) ?? matchOf(String(was['match'])))
      if (!match || typeof was?.['action'] !== 'string') return undefined
      const { action: verb, reason } = was as { action: string; reason?: string }
      return { text: `${verb} ${clamped(visible(named(String(was['match']))), 40)} again`, run: () => call('POST', `${base}/rules`, { action: verb, match, ...(reason ? { reason } : {}) }) }
    }
    case 'key.set':
    case 'key.delete':
      return { text: `${name}: default ${limits(was)} again`, run: () => put(keyPath(queue, target), was) }
    case 'value.set':
    case 'value.delete': {
      const pair = pairOf(target)
      if (!pair) return undefined
      const path = `${keyPath(queue, pair[0])}/values/${encodeURIComponent(valueText(pair[1]))}`
      return { text: `${name}: ${limits(was)} again`, run: () => put(path, was) }
    }
    case 'consumer.quiet':
    case 'consumer.drain':
      return { text: `resume ${name}`, run: () => call('POST', `${base}/consumers/${encodeURIComponent(rest)}/resume`) }
    case 'schedule.pause':
    case 'schedule.resume': {
      const back = action === 'schedule.pause' ? 'resume' : 'pause'
      return { text: `${back} ${name}`, run: () => call('POST', `${base}/schedules/${encodeURIComponent(rest)}/${back}`) }
    }
    case 'submission.change':
      return typeof was?.['priority'] === 'number' ? { text: `priority ${was['priority']} again`, run: () => call('PATCH', `/v1/submissions/${rest}`, { priority: was['priority'] }) } : undefined
    case 'queue.change': {
      const fields = was ? settingsBefore(was, (after ?? {}) as Fields) : []
      return fields.length > 0 ? { text: `queue ${queueName(queue)}: ${fields.map(([name, value]) => `${name} ${said(name, value)}`).join(', ')} again`, scope: 'admin', run: () => call('PATCH', base, { settings: Object.fromEntries(fields) }) } : undefined
    }
    case 'plugin.activate':
    case 'plugin.deactivate':
    case 'plugin.rollback':
    case 'plugin.shadow':
    case 'plugin.canary':
      return pluginBefore(rest, (before ?? {}) as InUse, (after ?? {}) as InUse)
    case 'plugin.settings':
      return { text: `${name}: its settings as they were`, scope: 'plugins', run: () => call('PUT', `${pluginPath(rest)}/settings`, was?.['settings'] ?? {}) }
    case 'strategy.delete':
      return typeof before === 'string' ? { text: `${name} as it was`, run: () => call('PUT', `${base}/strategies/${encodeURIComponent(rest)}`, { strategy: before }) } : undefined
    case 'strategy.change':
      return typeof before === 'string' && typeof after === 'string' ? { text: `${name} as it was`, run: () => call('PUT', `${base}/strategies/${encodeURIComponent(rest)}`, { strategy: before }) } : undefined
  }
  return undefined
}
