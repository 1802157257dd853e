import { duration } from './format'

export interface Backoff { base_ms: number; factor: number; cap_ms: number }
export const isBackoff = (v: unknown): v is Backoff => typeof v === 'object' && v !== null && 'base_ms' in v

/** What a queue's settings are about, in the order in which they are shown. */
export const about: Record<string, string> = {
  reservation_timeout_ms: 'how long a chunk is held when the consumer names no time',
  max_reservation_ms: 'the longest that one may be held, extends and all',
  max_attempts: 'tries that end without success, until a chunk is given up',
  max_expiries: 'of them, those that ended by their deadline',
  on_exhausted: 'what becomes of a chunk that is given up',
  retry_backoff: 'the pause after a failed try',
  expiry_backoff: 'the pause after a try that expired or was lost',
  suspect_share: 'of the consumers’ slots, what chunks that expired may take from other work',
  requeue: 'where a failed chunk comes back: at its place, or behind all others',
  dead_letter_queue: 'where dead letters go on to; empty: they stay',
  dead_retention_seconds: 'how long a dead letter is kept',
  retention_seconds: 'how long ended submissions and outputs are kept',
  consumer_grace_ms: 'how long a consumer may be away until what it holds is lost',
  restart_grace_ms: 'after a start, how long nothing is handed out that a limit counts',
  draining: 'whether inserts are refused',
  durability: 'whether each answer waits for the disk, or a power cut may take the last moments',
}

export const choices: Record<string, string[]> = {
  on_exhausted: ['fail_submission', 'dead_letter', 'skip'], requeue: ['head', 'tail'], durability: ['full', 'relaxed'],
}

/** A setting as people read it. */
export function said(name: string, value: unknown): string {
  if (typeof value === 'number' && name.endsWith('_ms')) return value === 0 ? 'none' : duration(value / 1000)
  if (typeof value === 'number' && name.endsWith('_seconds')) return value === 0 ? 'for ever' : duration(value)
  if (typeof value === 'number' && name === 'suspect_share') return `${(100 * value).toFixed(0)} %`
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (isBackoff(value)) return value.base_ms === 0 ? 'none' : `up to ${duration(value.base_ms / 1000)}, times ${value.factor} from try to try, at most ${duration(value.cap_ms / 1000)}`
  return value === undefined || value === '' ? 'none' : String(value)
}

/** All settings by name, those that are not set too, and those that this page does not know last. */
export function settingsOf(settings: Record<string, unknown>): [string, unknown][] {
  const known = Object.keys(about).filter((name) => name in settings || name === 'dead_letter_queue')
  return [...known, ...Object.keys(settings).filter((name) => !(name in about))].map((name) => [name, settings[name]])
}
