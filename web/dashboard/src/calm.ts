import type { Series } from './types'

/** How many points a line has at most: more of them are a band and not a line. */
const mostPoints = 200
const [minute, hour] = [60, 3600]
const steps = [1, 2, 5, 10, 30, minute, 2 * minute, 5 * minute, 10 * minute, 30 * minute, hour, 2 * hour, 4 * hour]

/** How many seconds one point averages, in a line over this many seconds. */
export const calmStep = (span: number) => steps.find((s) => s >= span / mostPoints) ?? 24 * hour

/** Averages over steps of this many seconds. They begin at the same moments whenever they are taken, so that a line moves and does not flicker. */
export function averaged(of: Series, seconds: number): Series {
  const step = (i: number) => Math.floor(of.at[i]! / 1000 / seconds)
  const firsts = of.at.flatMap((_, i) => (i === 0 || step(i) !== step(i - 1) ? [i] : []))
  if (firsts.length === of.at.length) return of
  const average = (all: number[]) => firsts.map((first, i) => { const part = all.slice(first, firsts[i + 1]); return part.reduce((sum, n) => sum + n, 0) / part.length })
  return Object.fromEntries(Object.entries(of).map(([column, all]) => [column, average(all)])) as unknown as Series
}
