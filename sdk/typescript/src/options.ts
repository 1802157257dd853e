// How a worker works, as it is asked for and as it is settled.
import { drawKey } from './connection.js'
import type { Meta, Strategy } from './generated/types.js'
import { host } from '#transport'

/** How a worker works. All of it may be left out. */
export interface WorkOptions {
  /** "default" unless told. */
  queue?: string
  /** What to take first: a text such as OldestFirst, a tree, or { name } of a named strategy; Random unless told. */
  strategy?: Strategy
  /** Name of this consumer, its alone; the host's name with something random unless told. */
  consumer?: string
  /** What plugins may know of this consumer. */
  context?: Meta
  /** Handlers that run at once; 1 unless told. */
  concurrency?: number
  /** Chunks reserved ahead, beyond those that handlers work on; as many as concurrency unless told. */
  prefetch?: number
  /** Of a reservation, which is extended while its handler runs: how soon a crashed consumer's work goes on elsewhere if it is not attached. In milliseconds, at least 100; a minute unless told. */
  timeoutMs?: number
  /** How long the server is asked to wait for work, at most a minute; 20 s unless told. */
  waitMs?: number
  /** How long handlers may go on after the worker was to end, before their signal is aborted; without limit unless told. */
  graceMs?: number
  /** Drains and ends the worker when it is aborted. */
  signal?: AbortSignal
  /** Signals of the process that drain the worker; SIGINT and SIGTERM unless told, none when there is a signal. A second one has its usual effect. */
  signals?: readonly string[]
  /** false: not attached. Then the server does not notice when this process dies, and what is revoked shows only when it is extended. */
  attach?: boolean
  /** Hears of what the worker goes on after: calls that failed and are made again, results that did not count (ChunkError), DrainedError. */
  onError?: (error: unknown) => void
}

/** Options with what was left out filled in. */
export type Settings = Required<Pick<WorkOptions, 'queue' | 'consumer' | 'concurrency' | 'prefetch' | 'timeoutMs' | 'waitMs' | 'attach' | 'onError'>> & Pick<WorkOptions, 'strategy' | 'context' | 'graceMs'>

/** The most chunks that one worker holds: a bound on memory, and on what a crash loses. */
const maxHeld = 100_000
const maxWait = 60_000
const minTimeout = 100

/** Fills in what was left out and refuses what cannot be. */
export function settle(o: WorkOptions): Settings {
  const { concurrency = 1, queue = 'default', timeoutMs = 60_000, waitMs = 20_000, attach = true, onError = () => {}, strategy, context, graceMs } = o
  const { prefetch = concurrency, consumer = `${host().slice(0, 100)}-${drawKey().slice(0, 8)}` } = o
  const whole = (name: string, value: number, least: number, most: number) => {
    if (!Number.isInteger(value) || value < least || value > most) throw new RangeError(`quern: work: ${name} is ${value}; it must be a whole number from ${least} to ${most}`)
  }
  whole('concurrency', concurrency, 1, maxHeld)
  whole('prefetch', prefetch, 0, maxHeld - concurrency)
  whole('timeoutMs', timeoutMs, minTimeout, 86_400_000)
  whole('waitMs', waitMs, 0, maxWait)
  if (graceMs !== undefined && !(graceMs >= 0)) throw new RangeError(`quern: work: graceMs is ${graceMs}; it must be 0 or more`)
  return {
    queue, consumer, concurrency, prefetch, timeoutMs, waitMs, attach, onError,
    ...(strategy === undefined ? {} : { strategy }), ...(context === undefined ? {} : { context }), ...(graceMs === undefined ? {} : { graceMs }),
  }
}
