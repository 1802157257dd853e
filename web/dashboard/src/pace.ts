import { useRef } from 'preact/hooks'
import { stats } from './stream'
import type { Submission } from './types'

/** Chunks of a submission that are not done, and can still be. */
export const leftOf = (s: Submission) => s.ready + s.waiting + s.reserved + ruledOf(s)

/** Of them, those that a rule keeps from being handed out. */
const ruledOf = (s: Submission) => (s.paused ?? 0) + (s.blocked ?? 0)

/** How many readings the pace is taken from: about a minute. */
const kept = 60

const minute = 60_000

/**
 * Chunks of a submission that are done in a second, over the last minute that this page looked. A rule or a cancel changes how many chunks
 * can be done, so earlier readings are left out, and there is no pace for a minute.
 */
export function usePace(s: Submission): number {
  const readings = useRef<{ at: number; done: number; apart: number }[]>([])
  const changed = useRef(0)
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const apart = ruledOf(s) + (s.skipped ?? 0)
  const last = readings.current.at(-1)
  if (last && Math.abs(apart - last.apart) > 0.01 * s.chunks) {
    readings.current = []
    changed.current = now
  }
  if (s.state === 'open' && now > 0 && readings.current.at(-1)?.at !== now) readings.current = [...readings.current, { at: now, done: s.done, apart }].slice(-kept)
  const first = readings.current[0]
  if (now - changed.current < minute) return 0
  return first && now > first.at ? Math.max(0, s.done - first.done) / ((now - first.at) / 1000) : 0
}
