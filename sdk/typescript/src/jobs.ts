// Kinds of work: handlers with typed arguments, and one worker for several kinds. The meta of a submission names its kind, and the content of each
// chunk is the JSON of its arguments.
import { type Chunk, type Handler, cancel, isGraceOver } from './chunk.js'
import type { Client } from './client.js'
import { type Connection, byteLength } from './connection.js'
import { HandlerTimeoutError, PermanentError, RetryError, SnoozeError } from './error.js'
import { raised, textOf } from './failure.js'
import type { Strategy } from './generated/types.js'
import type { InsertOfMany } from './insert.js'
import { read, write } from './json.js'
import { type WorkOptions, drawConsumer, prepare, workTogether } from './work.js'

/** The meta key whose value is the kind of a submission. */
export const metaKind = 'kind'
/** How many values SelectAny takes. */
const maxKinds = 64
const maxConsumer = 128
/** The longest time of a timer. */
const maxTimeout = 2 ** 31 - 1

/** Options of a kind. */
export interface JobOptions<Args = unknown> {
  /**
   * Number of handlers for this kind alone. The kind is then a separate consumer, whose name ends with the kind's. Without it, the kind
   * shares the worker's handlers with the other kinds.
   */
  concurrency?: number
  /**
   * How long a handler may take. Then the signal of its chunk aborts with a HandlerTimeoutError, and the error that the handler throws
   * fails the attempt. No limit by default.
   */
  timeoutMs?: number
  /**
   * Returns after an error the milliseconds until the next attempt, or undefined for no more attempts. The worker does not call it for a
   * PermanentError, RetryError or SnoozeError. Without it, the back-off of the submission or the queue decides. Their limit of attempts
   * always holds.
   */
  retry?: (chunk: Chunk, error: unknown) => number | undefined
  /** Checks the arguments, such as the parse of a schema. If it throws, the chunk fails for good. */
  parse?: (value: unknown) => Args
}

/** Does the work of one chunk of a kind. */
export type JobHandler<Args> = (args: Args, chunk: Chunk) => ReturnType<Handler>

/** Options of a worker for several kinds. */
export interface WorkerOptions extends WorkOptions {
  /** Functions that wrap the handlers of all kinds; the first one is the outermost. */
  middleware?: readonly ((next: Handler) => Handler)[]
  /**
   * The worker calls it after each failed attempt that the server has recorded. Hooks run concurrently with handlers and each other. A
   * worker with slow hooks reserves less.
   */
  onFailure?: (chunk: Chunk, error: unknown) => Promise<void> | void
  /**
   * The worker calls it after a failed attempt if that was the last one: the chunk is now dead, skipped or forwarded. To know that, the
   * client reads the chunk after each failed attempt. If a process dies in the last attempt of a chunk, no client calls it: follow the
   * ends of submissions, or look at the dead letters.
   */
  onDead?: (chunk: Chunk, error: unknown) => Promise<void> | void
}

interface Job extends JobOptions {
  name: string
  handler: JobHandler<unknown>
}

/** A worker for several kinds of work, from client.worker. */
export class JobWorker {
  readonly #jobs = new Map<string, Job>()
  readonly #options: WorkerOptions

  constructor(readonly client: Client, readonly connection: Connection, options: WorkerOptions) {
    this.#options = options
  }

  /** Makes a function the handler of a kind. If a content is not JSON, its chunk fails for good. */
  handle<Args>(name: string, handler: JobHandler<Args>, options: JobOptions<Args> = {}): this {
    const { concurrency, timeoutMs } = options
    if (name === '') throw new TypeError('quern: work: a kind has no name')
    if (this.#jobs.has(name)) throw new TypeError(`quern: work: the kind ${name} has two handlers`)
    if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency > 0)) throw new RangeError(`quern: work: the concurrency of the kind ${name} is ${concurrency}; it must be a whole number from 1`)
    if (timeoutMs !== undefined && !(timeoutMs > 0 && timeoutMs <= maxTimeout)) throw new RangeError(`quern: work: the timeoutMs of the kind ${name} is ${timeoutMs}; it must be more than 0 and at most ${maxTimeout}`)
    this.#jobs.set(name, { ...(options as JobOptions), name, handler: handler as JobHandler<unknown> })
    return this
  }

  /**
   * Works like client.work, but only on submissions of the kinds that have a handler. strategy orders them. If kinds have a concurrency
   * of their own, it works as several consumers, which begin and end together.
   */
  async run(): Promise<void> {
    const { middleware = [], onFailure, onDead, ...options } = this.#options
    const jobs = [...this.#jobs.values()]
    if (jobs.length === 0 || jobs.length > maxKinds) throw new RangeError(`quern: work: there are ${jobs.length} kinds; it must be from 1 to ${maxKinds}: add them by handle`)
    const consumer = options.consumer ?? drawConsumer()
    const hook = onFailure || onDead ? (chunk: Chunk, error: unknown) => this.#failed(chunk, error) : undefined
    const worker = (of: Job[], own: WorkOptions) => prepare(this.client, this.connection, { ...options, ...own, strategy: selected(options.strategy, of) }, dispatch(of, middleware), hook)
    const shared = jobs.filter((job) => job.concurrency === undefined)
    const workers = shared.length > 0 ? [worker(shared, { consumer })] : []
    for (const job of jobs) {
      if (job.concurrency === undefined) continue
      const name = `${consumer}-${job.name}`
      if (byteLength(name) > maxConsumer) throw new RangeError(`quern: work: the consumer of the kind ${job.name}, ${name}, has ${byteLength(name)} bytes; at most ${maxConsumer} are allowed: set a shorter consumer`)
      workers.push(worker([job], { consumer: name, concurrency: job.concurrency }))
    }
    await workTogether(workers, options)
  }

  /** Calls the hooks for a failure that the server has recorded. */
  async #failed(chunk: Chunk, error: unknown): Promise<void> {
    const { onFailure, onDead } = this.#options
    await onFailure?.(chunk, error)
    if (onDead && (await this.#isDead(chunk))) await onDead(chunk, error)
  }

  /** Whether the failure of a try was that of the last: the server says so. A later attempt that has ended has a hook of its own. */
  async #isDead(chunk: Chunk): Promise<boolean> {
    try {
      const { attempts, state } = await this.client.getChunk(chunk.submission, chunk.index)
      return attempts === chunk.attempt && (state === 'dead' || state === 'skipped' || state === 'forwarded')
    } catch (error) {
      throw new Error('onDead was not called, as it is not known whether the chunk is dead', { cause: error })
    }
  }
}

/** Returns a submission of a kind with one chunk for each of the arguments, for insert, insertMany and chunk.thenInsert. */
export function submissionOf<Args>(kind: string, args: readonly Args[], rest: Omit<InsertOfMany, 'chunks'> = {}): InsertOfMany {
  const inline = args.map((one, i) => {
    const text = write(one)
    if (typeof text !== 'string') throw new TypeError(`quern: the arguments ${i} of the kind ${kind} are ${typeof one}, which JSON does not have`)
    return text
  })
  return { ...rest, meta: { ...rest.meta, [metaKind]: kind }, chunks: { inline } }
}

/** A strategy for some kinds only. */
function selected(strategy: Strategy | undefined, jobs: Job[]): Strategy {
  const values = jobs.map((job) => job.name)
  if (typeof strategy === 'object') return { type: 'select_any', meta_field: metaKind, values, underlying: strategy } as Strategy
  return `SelectAny(${JSON.stringify(metaKind)}, ${JSON.stringify(values)}, ${strategy?.trim() || 'Random'})`
}

/** The handler of some kinds. */
function dispatch(jobs: Job[], middleware: readonly ((next: Handler) => Handler)[]): Handler {
  const handlers = new Map(jobs.map((job) => {
    const { handler } = job
    const handleKind: Handler = (chunk) => handler(argumentsOf(job, chunk), chunk) // framesOf knows its name
    return [job.name, bounded(job, middleware.reduceRight((next, around) => around(next), handleKind))] as const
  }))
  return (chunk) => {
    const handler = handlers.get(String(chunk.meta[metaKind]))
    if (!handler) throw new PermanentError(`no handler for the kind ${String(chunk.meta[metaKind])}`) // the strategy selects no such chunk
    return handler(chunk)
  }
}

function argumentsOf(job: Job, chunk: Chunk): unknown {
  if (chunk.key !== undefined) throw new PermanentError(`the content is the object ${JSON.stringify(chunk.key)}; arguments are JSON in the chunk itself`)
  try {
    const value = read<unknown>(chunk.text)
    return job.parse ? job.parse(value) : value
  } catch (error) {
    throw new PermanentError(`the content is not the JSON of the arguments: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

/** A handler with the timeout and the retries of its kind. */
function bounded({ timeoutMs, retry }: Job, next: Handler): Handler {
  return async (chunk) => {
    let late: HandlerTimeoutError | undefined
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => cancel(chunk, (late = new HandlerTimeoutError(timeoutMs))), timeoutMs)
    try {
      return await next(chunk)
    } catch (thrown) {
      if (isGraceOver(chunk) || thrown instanceof PermanentError || thrown instanceof RetryError || thrown instanceof SnoozeError) throw thrown
      const error = late && thrown !== late ? new HandlerTimeoutError(timeoutMs!, thrown) : thrown
      if (!retry) throw error
      const pauseMs = retry(chunk, error)
      const decided = pauseMs === undefined ? new PermanentError(textOf(error)) : new RetryError(textOf(error), pauseMs)
      raised.set(decided, error)
      throw decided
    } finally {
      clearTimeout(timer)
    }
  }
}
