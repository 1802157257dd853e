import { duration, exact } from './format'

export interface Backoff { kind?: string; base_ms: number; factor: number; cap_ms: number; delays_ms?: number[]; jitter?: string }
export const isBackoff = (v: unknown): v is Backoff => typeof v === 'object' && v !== null && 'base_ms' in v

export const ms = (n: number) => (n > 0 && n < 1000 ? `${n} ms` : n < 60_000 && n % 1000 !== 0 ? `${n / 1000}s` : duration(n / 1000))

/** A back-off as people read it. */
export function pause(b: Backoff): string {
  if (b.base_ms === 0 && b.kind !== 'list') return 'none'
  const first = ms(b.base_ms)
  const delay = b.kind === 'list' ? (b.delays_ms ?? []).map(ms).join(', then ') : b.kind === 'fixed' ? first
    : first + (b.kind === 'linear' ? ' times the attempt' : `, times ${exact(b.factor)} per attempt`) + (b.cap_ms ? `, at most ${ms(b.cap_ms)}` : '')
  return (b.jitter === 'none' ? '' : b.jitter === 'equal' ? 'half to all of ' : 'up to ') + delay
}

/** A back-off as the flags of quern write it. */
export function backoffFlag(b: Backoff): string {
  const parts = b.kind === 'list' ? (b.delays_ms ?? []).map((n) => `${n}ms`) : b.kind === 'fixed' ? [`${b.base_ms}ms`]
    : [`${b.base_ms}ms`, ...(b.kind === 'linear' ? [] : [b.factor]), `${b.cap_ms}ms`]
  if (!b.kind && b.base_ms === 0) return '0'
  return (b.kind ? b.kind + ':' : '') + parts.join(',') + (b.jitter ? ',jitter=' + b.jitter : '')
}
