// The worker: reserves ahead, runs handlers, reports their results, extends reservations, and drains.
import { isFinal } from './addresses.js'
import { type Chunk, type Handler, Held } from './chunk.js'
import type { Client } from './client.js'
import { type Connection, backoff, checkMeta, drawKey, jsonBody, later, pause } from './connection.js'
import { BadAnswerError, ChunkError, DrainedError, HandlerError, QuernError, StrategyError, TooLargeError } from './error.js'
import type { ConsumerEvent } from './events.js'
import { raisedOf } from './failure.js'
import type { ExchangeAnswer, Meta, ReserveAnswer, Result, RevokedEvent, Strategy, StrategyWarning } from './generated/types.js'
import { part } from './pages.js'
import { host } from '#transport'

export { Chunk, type Handler } from './chunk.js'

/** Options of a worker. All are optional. */
export interface WorkOptions {
  /** Name of the queue; "default" by default. */
  queue?: string
  /** Strategy: a text such as OldestFirst, a tree, or { name } of a named strategy; Random by default. */
  strategy?: Strategy
  /** Name of this consumer, which no other process uses; the host's name and a random text by default. */
  consumer?: string
  /** Facts about this consumer, for plugins and formulas. */
  context?: Meta
  /** Number of handlers that run at once; 1 by default. */
  concurrency?: number
  /**
   * Chunks reserved ahead, beyond those that handlers work on. By default, the worker measures how many it needs so that no handler
   * waits, at most 1,000.
   */
  prefetch?: number
  /**
   * Milliseconds until the deadline, at least 100; a minute by default. The worker extends it while the handler runs. If the worker is
   * not attached, another consumer gets the chunks of a crashed one after this time.
   */
  timeoutMs?: number
  /** How long the server waits for work in a call, at most a minute; 20 s by default. */
  waitMs?: number
  /** How long handlers may continue after the worker begins to end, before their signal aborts; no limit by default. */
  graceMs?: number
  /** Drains and ends the worker when it aborts. */
  signal?: AbortSignal
  /**
   * Signals of the process that drain the worker: SIGINT and SIGTERM by default, or none if there is a signal. A second one has its usual
   * effect.
   */
  signals?: readonly string[]
  /**
   * false: the worker does not attach. Then the server does not notice when this process dies, and the worker notices revoked chunks only
   * when it extends them.
   */
  attach?: boolean
  /**
   * The worker calls it with each problem after which it continues: a call that failed and that it repeats, a handler that failed
   * (HandlerError), a result that did not count (ChunkError), a part of the strategy without effect (StrategyError), or a DrainedError.
   * Without it, the worker logs each kind at most once a minute, to the logger of the client.
   */
  onError?: (error: unknown) => void
}

type Free = 'prefetch' | 'strategy' | 'context' | 'graceMs' | 'signal' | 'onError'
type Settings = Required<Omit<WorkOptions, Free>> & Pick<WorkOptions, Free>

/** How much output goes into one call: well below the server's default limit of 1 MiB for a body. */
const batchBytes = 700 << 10
/** How many results go into one call. */
const batchItems = 5000
/** How many submissions the completions of one call bring. */
const batchInserts = 10_000
/** The most chunks of one reserve: with contents of 1 MiB, in base64, their answer is about the longest string that the runtime holds. */
const maxReserve = 350
/** The most chunks that one worker holds: a bound on memory, and on what a crash loses. */
const maxHeld = 100_000
/** The most chunks reserved ahead, unless the program sets prefetch. */
const maxAhead = 1000
const maxWait = 60_000
const minTimeout = 100
/** The longest pause after a poll that brought nothing. */
const maxIdle = 1000
/** How long a worker that is done tries to detach. */
const detachMs = 2000
/** How long a second SIGTERM is the same one: timeout(1) sends two at once. */
const repeatMs = 1000

type ProcessLike = { on(name: string, fn: (of: unknown) => void): void; off(name: string, fn: (of: unknown) => void): void }
const process = (globalThis as { process?: ProcessLike }).process

/** The function that is called for a failure that the server has recorded. */
export type Hook = (chunk: Chunk, error: unknown) => Promise<void>

/** A worker that has not begun. */
export const prepare = (client: Client, connection: Connection, options: WorkOptions, handler: Handler, hook?: Hook): Worker => new Worker(client, connection, settle(options), handler, hook)

/** Runs workers that begin and end together. */
export async function workTogether(workers: readonly Worker[], options: WorkOptions): Promise<void> {
  const running = new Set(workers)
  let late: ReturnType<typeof setTimeout> | undefined
  const end = (of: unknown) => {
    if (of === 'SIGTERM') late ??= setTimeout(forget, repeatMs)
    else forget()
    for (const worker of running) worker.end()
  }
  const { signal, signals = signal || !process?.on ? [] : ['SIGINT', 'SIGTERM'] } = options
  const forget = () => {
    clearTimeout(late)
    signal?.removeEventListener('abort', end)
    for (const name of signals) process?.off(name, end)
  }
  signal?.addEventListener('abort', end, { once: true })
  for (const name of signals) process?.on(name, end)
  if (signal?.aborted) return forget()
  let failed: { error: unknown } | undefined
  await Promise.all(workers.map(async (worker) => {
    try {
      await worker.run()
    } catch (error) {
      failed ??= { error }
    }
    running.delete(worker)
    for (const other of running) other.end() // an operator drained it, or it cannot go on: the others are of this process, too
  }))
  forget()
  if (failed) throw failed.error
}

/** The name of a consumer that was given none. */
export const drawConsumer = (): string => `${host().slice(0, 100)}-${drawKey().slice(0, 8)}`

/** Fills in defaults, and refuses settings that cannot work. */
function settle(o: WorkOptions): Settings {
  const { concurrency = 1, queue = 'default', timeoutMs = 60_000, waitMs = 20_000, attach = true, signals = [] } = o
  const { consumer = drawConsumer() } = o
  const whole = (name: string, value: number, least: number, most: number) => {
    if (!Number.isInteger(value) || value < least || value > most) throw new RangeError(`quern: work: ${name} is ${value}; it must be a whole number from ${least} to ${most}`)
  }
  whole('concurrency', concurrency, 1, maxHeld)
  whole('prefetch', o.prefetch ?? 0, 0, maxHeld - concurrency)
  whole('timeoutMs', timeoutMs, minTimeout, 86_400_000)
  whole('waitMs', waitMs, 0, maxWait)
  if (o.context) checkMeta('context', o.context)
  if (o.graceMs !== undefined && !(o.graceMs >= 0)) throw new RangeError(`quern: work: graceMs is ${o.graceMs}; it must be 0 or more`)
  return { ...o, concurrency, queue, timeoutMs, waitMs, attach, signals, consumer }
}

/** One round trip that reports, extends, gives back and reserves. */
interface Call {
  outcomes: Held[]
  extends: Held[]
  releases: Held[]
  /** Of the attach stream, before it began. */
  hellos: number
}

/**
 * How many chunks a worker reserves beyond those that its handlers work on: so many that no handler waits while a call is under way, and no
 * more, because no other worker can get them. Unless the program sets the number, the worker finds it as TCP finds its window: it begins
 * with 0, doubles the number when handlers ran out of work and had to wait, and lowers it by an eighth when more than half was left.
 */
class Ahead {
  n: number
  #answered = -Infinity // when the last call ended

  constructor(readonly o: Settings) {
    this.n = o.prefetch ?? 0
  }

  /**
   * A call that began at a time ended when `left` chunks were there that no handler had begun. It reported what had finished since the call before;
   * full: it brought all of the `asked` chunks, so the server has more. A handler had to wait if that is a sixteenth of its time or more: the
   * length of the call by how long a handler works on a chunk, which follows from how many finished.
   */
  answered(began: number, finished: number, left: number, asked: number, full: boolean): void {
    const now = performance.now()
    const since = now - this.#answered
    this.#answered = now
    if (this.o.prefetch !== undefined || asked === 0) return
    const waited = 16 * (now - began) * finished >= since * this.o.concurrency
    if (left === 0 && full && waited) this.n = Math.min(Math.max(2 * this.n, 1), maxAhead, maxHeld - this.o.concurrency)
    else if (left > this.n / 2) this.n -= Math.max(Math.floor(this.n / 8), 1)
  }
}

/** How often a worker makes a call because handlers say how far they are. */
const progressMs = 1000

/** How long a worker waits for the server's first hello before it reserves. */
const helloMs = 10_000

/** Tells this process from others that work under the same name. */
const incarnation = drawKey()

/** One run of work. Everything happens on one thread: an event changes the state, and pump then starts the actions that are possible. */
export class Worker {
  readonly #held = new Map<string, Held>() // reserved and not yet finished, by token
  #ready: Held[] = [] // of these, for handlers; from #next on
  #next = 0
  #running = 0
  #outcomes: Held[] = [] // finished, to be reported
  #extends: Held[] = [] // to be extended
  #releases: Held[] = [] // to be given back
  #unsent: Held[] = [] // with progress to be sent
  #due: ReturnType<typeof setTimeout> | undefined // until progress may be sent
  #sent = -Infinity // when progress was sent last
  #hooks = 0 // that run
  #calling = false
  #asked = 0 // chunks that the call under way may bring
  #polling = 0 // chunks that the poll under way may bring; 0: there is none
  #budget = batchBytes
  readonly #ahead: Ahead
  #failures = 0 // calls in a row that failed
  #pollFailures = 0
  #draining = false
  #fatal: unknown // why the worker ends by itself
  #undelivered = 0
  #reached = false // a call succeeded
  #away: unknown // the last failure to reach the server
  #warned: readonly StrategyWarning[] = [] // of the last answer
  #pumping = false
  #hellos = 0 // how often the server said hello
  // The worker reserves nothing before the first hello, or helloMs: reservations under its name belong to its predecessor until the server
  // sees the new incarnation and ends them. A worker that had to begin without a hello no longer sends its incarnation.
  #awaited: boolean
  #incarnation: string | undefined = incarnation
  #unknown = false // the server refuses to know us; otherwise it may, also before its first hello
  #early = new Map<string, Result>() // revoked before we knew that we have it: the stream may overtake the answer of a reserve
  #leaving = false // the stream must not be opened again
  readonly #poll = new AbortController()
  readonly #attached = new AbortController()
  #grace: ReturnType<typeof setTimeout> | undefined
  #finished: () => void = () => {}
  readonly #path: string
  readonly #reserve: object

  constructor(readonly client: Client, readonly connection: Connection, readonly o: Settings, readonly handler: Handler, readonly hook?: Hook) {
    this.#awaited = o.attach
    this.#ahead = new Ahead(o)
    this.#path = `/v1/queues/${part(o.queue)}/reservations`
    this.#reserve = { ...(o.strategy === undefined ? {} : { strategy: o.strategy }), consumer: o.consumer, timeout_ms: o.timeoutMs, ...(o.context ? { context: o.context } : {}) }
  }

  async run(): Promise<void> {
    const stream = this.o.attach ? this.#stayAttached() : undefined
    const ticker = setInterval(() => this.#tick(), this.o.timeoutMs / 4)
    const unheard = setTimeout(() => this.#unheard(), helloMs)
    await new Promise<void>((finished) => {
      this.#finished = finished
      this.#pump()
    })
    clearInterval(ticker)
    clearTimeout(unheard)
    clearTimeout(this.#grace)
    clearTimeout(this.#due)
    await this.#detach()
    await stream
    if (this.#fatal !== undefined) throw this.#fatal
    if (this.#undelivered > 0) throw new Error(`quern: work: the results of ${this.#undelivered} chunks were not delivered; the server offers these chunks again after their deadline`)
    if (!this.#reached && this.#hellos === 0 && this.#away !== undefined) throw this.#away // it never worked
  }

  /** The worker is to end. */
  end(): void {
    this.#drain()
    if (this.o.graceMs !== undefined) this.#grace ??= setTimeout(() => this.#held.forEach((h) => h.hurry()), this.o.graceMs)
  }

  /**
   * Stops reserving, and gives back the chunks that no handler has begun. A poll that is under way goes on until nothing else is left to
   * wait for, and its chunks go back: if the worker broke it off now, the server might just have answered, and would hold chunks for us
   * that we do not know of.
   */
  #drain(): void {
    if (this.#draining) return
    this.#draining = true
    for (const h of this.#ready.splice(0).slice(this.#next)) {
      this.#held.delete(h.token)
      this.#release(h)
    }
    this.#next = 0
    this.#soon()
  }

  #stop(error: unknown): void {
    this.#fatal ??= error
    this.#drain()
  }

  /** An operator ordered us to leave. */
  #leave(): void {
    if (this.#draining) return
    this.#report(new DrainedError())
    this.#drain()
  }

  /** Reports an error to onError, or to the log. */
  #report(error: unknown): void {
    try {
      if (this.o.onError) this.o.onError(error)
      else this.connection.notices.warn(error, `the worker ${this.o.consumer} of the queue ${this.o.queue}`)
    } catch (thrown) {
      this.#stop(thrown)
    }
  }

  #release(h: Held): void {
    if (!h.lost) this.#releases.push(h)
  }

  /** Pumps once for all that happens in this turn of the event loop, so that results go out together. */
  #soon(): void {
    if (this.#pumping) return
    this.#pumping = true
    later(() => {
      this.#pumping = false
      this.#pump()
    })
  }

  /** Starts the actions that have become possible. */
  #pump(): void {
    while (this.#running < this.o.concurrency && this.#next < this.#ready.length) void this.#handle(this.#ready[this.#next++]!)
    if (this.#next === this.#ready.length) {
      this.#ready = []
      this.#next = 0
    }
    if (this.#asked === 0 && this.#polling === 0) this.#early.clear()
    if (!this.#calling && this.#outcomes.length + this.#extends.length + this.#releases.length > 0) this.#call()
    const room = this.#room(0)
    // A poll and calls go on beside each other, so that results never wait for work; while one polls the calls do not reserve.
    if (!this.#calling && room > 0 && this.#polling === 0) void this.#pollFor(room)
    if (!this.#draining || this.#held.size > 0 || this.#calling || this.#outcomes.length + this.#releases.length + this.#hooks > 0) return
    if (this.#polling > 0) this.#poll.abort()
    else this.#finished()
  }

  /** How many chunks may be asked for. Unreported results and running hooks count, so that a worker reserves less while the server takes no
   * results or hooks are slow. */
  #room(reported: number): number {
    if (this.#draining || this.#awaited) return 0
    const free = this.o.concurrency + this.#ahead.n - this.#held.size - (this.#outcomes.length - reported) - this.#asked - this.#polling - this.#hooks
    return Math.min(Math.max(free, 0), maxReserve)
  }

  async #handle(h: Held): Promise<void> {
    this.#running++
    let thrown: unknown
    try {
      if (!h.lost) {
        const around = this.connection.tracing.handler
        h.complete(await (around ? around.call(this.connection.tracing, h.chunk, async () => this.handler(h.chunk)) as ReturnType<Handler> : this.handler(h.chunk)))
      }
    } catch (error) {
      h.fail(error)
      thrown = error
    }
    this.#running--
    this.#held.delete(h.token)
    if (h.failed && !h.back && !h.lost) this.#report(new HandlerError(h.chunk.submission, h.chunk.index, h.reason, raisedOf(thrown)))
    if (h.lost) this.#reportResult(h, h.lost)
    else if (h.back) this.#release(h)
    else this.#outcomes.push(h)
    this.#soon()
  }

  /** Extends each chunk after two quarters of its timeout, so at the latest when half of it is over. */
  #tick(): void {
    for (const h of this.#held.values()) if (++h.age >= 2) this.#extend(h)
    this.#soon()
  }

  /** Notes a handler's progress, to send it later. */
  #say(h: Held): void {
    h.listed = true
    this.#unsent.push(h)
    this.#due ??= setTimeout(() => this.#sendProgress(), Math.max(0, this.#sent + progressMs - performance.now()))
  }

  #sendProgress(): void {
    const unsent = this.#unsent
    this.#unsent = []
    this.#due = undefined
    this.#sent = performance.now()
    for (const h of unsent) {
      if (!this.#held.has(h.token)) continue
      if (h.extending) this.#say(h) // the extension under way may lack this progress
      else {
        h.listed = false
        this.#extend(h)
      }
    }
    this.#soon()
  }

  #extend(h: Held): void {
    if (h.extending || h.lost) return
    h.extending = true
    this.#extends.push(h)
  }

  /** Makes a call with as much to report as fits into it. */
  #call(): void {
    let bytes = 0
    let inserts = 0
    let n = 0
    for (const h of this.#outcomes) {
      bytes += h.cost
      inserts += h.inserts
      if (n > 0 && (bytes > this.#budget || inserts > batchInserts || n === batchItems)) break
      n++
    }
    const call: Call = {
      outcomes: this.#outcomes.slice(0, n),
      extends: this.#extends.splice(0, batchItems).filter((h) => this.#held.has(h.token)),
      releases: this.#releases.splice(0, batchItems),
      hellos: this.#hellos,
    }
    if (call.outcomes.length + call.extends.length + call.releases.length === 0) return // only extensions of chunks that have ended since
    if (this.#polling === 0) this.#asked = this.#room(n)
    this.#outcomes = this.#outcomes.slice(n)
    this.#calling = true
    void this.#make(call)
  }

  async #make(call: Call): Promise<void> {
    let answer: ExchangeAnswer | undefined
    let failure: unknown
    let began = 0
    try {
      await this.#giveBack(call)
      began = performance.now()
      if (call.outcomes.length + call.extends.length > 0 || this.#asked > 0) answer = await this.#exchange(call)
    } catch (error) {
      failure = error
      if (!isFinal(error)) await pause(backoff(this.#failures + 3, error))
    }
    const asked = this.#asked
    this.#calling = false
    this.#asked = 0
    try {
      if (failure !== undefined) this.#failed(call, failure)
      else {
        this.#failures = 0
        this.#reached = true
        if (answer) {
          this.#ahead.answered(began, call.outcomes.length, this.#ready.length - this.#next, asked, answer.reservations.length === asked)
          if (asked > 0) this.#warn(answer) // an answer to a call that asked for nothing has no warnings, and takes back none
          this.#settle(call, answer)
          this.#accept(answer, call.hellos)
        }
      }
    } catch (error) {
      this.#stop(error) // an answer that is not what the interface says
    }
    this.#soon()
  }

  /** Ignores the results: a chunk that is not ours any more need not go back. */
  async #giveBack(call: Call): Promise<void> {
    if (call.releases.length === 0) return
    await this.connection.json({ what: 'release', method: 'POST', path: this.#path + '/release', body: jsonBody({ items: call.releases.map((h) => (h.delayMs > 0 ? { token: h.token, delay_ms: h.delayMs } : { token: h.token })) }), safe: true })
    call.releases = []
  }

  async #exchange(call: Call): Promise<ExchangeAnswer> {
    const complete = call.outcomes.filter((h) => !h.failed).map((h) => h.outcome)
    const fail = call.outcomes.filter((h) => h.failed).map((h) => h.outcome)
    const extend = call.extends.map((h) => ({ token: h.token, timeout_ms: this.o.timeoutMs, ...h.progress })) // each repeats the progress: a restarted server does not know it
    const body = { complete, fail, extend, ...(extend.length > 0 ? { consumer: this.o.consumer } : {}), ...(this.#asked > 0 ? { reserve: { ...this.#reserve, max: this.#asked } } : {}) }
    const answer = await this.connection.json<ExchangeAnswer>({ what: 'exchange', method: 'POST', path: this.#path + '/exchange', body: jsonBody(body), safe: true }, 'complete', 'fail', 'extend', 'reservations')
    for (const [what, sent, got] of [['complete', complete, answer.complete], ['fail', fail, answer.fail], ['extend', extend, answer.extend]] as const) {
      if (got.length !== sent.length) throw new BadAnswerError(what, `it has ${got.length} results for ${sent.length} items`)
    }
    return answer
  }

  /** Takes the results of a call. */
  #settle(call: Call, answer: ExchangeAnswer): void {
    let completes = 0
    let fails = 0
    for (const h of call.outcomes) {
      const result = h.failed ? answer.fail[fails++]! : answer.complete[completes++]!
      if (result.status !== 'ok' && result.status !== 'already') this.#reportResult(h, result)
      else if (h.failure && this.hook) void this.#hear(h, h.failure.error, this.hook)
      if (result.status === 'refused') { // the chunk is still ours, and its submissions may find room at another attempt
        h.retry(result.detail ?? '')
        this.#outcomes.push(h)
      }
    }
    call.extends.forEach((h, i) => {
      const result = answer.extend[i]!
      h.extending = false
      if (result.status === 'ok' || result.status === 'already') h.age = 0
      else if (result.status === 'invalid') this.#reportResult(h, result)
      else if (this.#held.has(h.token)) h.lose(result)
    })
  }

  /** Calls the hook for a failure that the server has recorded. */
  async #hear({ chunk }: Held, error: unknown, hook: Hook): Promise<void> {
    this.#hooks++
    try {
      await hook(chunk, error)
    } catch (thrown) {
      this.#report(new Error(`quern: a hook failed for the chunk ${chunk.submission}/${chunk.index}: ${thrown instanceof Error ? thrown.message : String(thrown)}`, { cause: thrown }))
    }
    this.#hooks--
    this.#soon()
  }

  /** Takes a call that failed. */
  #failed(call: Call, error: unknown): void {
    for (const h of call.extends) h.extending = false // the next tick asks again
    this.#extendSince(call.hellos)
    if (error instanceof TooLargeError && call.outcomes.length > 0) return this.#shrink(call, error)
    if (error instanceof QuernError && isFinal(error) && this.#settleNamed(call, error)) return
    const lastTry = isFinal(error) ? this.#draining : this.#draining && this.#failures > 0
    if (lastTry) {
      this.#undelivered += call.outcomes.length
      return this.#report(error)
    }
    this.#outcomes = [...call.outcomes, ...this.#outcomes]
    this.#releases = [...call.releases, ...this.#releases]
    if (isFinal(error)) return this.#stop(error)
    this.#failures++
    this.#report(error)
  }

  /** Answers a refusal for size: with smaller calls, and in the end by failing the one chunk whose output is too much. */
  #shrink(call: Call, error: TooLargeError): void {
    this.#releases = [...call.releases, ...this.#releases]
    const [h] = call.outcomes as [Held]
    if (call.outcomes.length > 1) this.#budget = Math.max(Math.floor(this.#budget / 2), 1)
    else if (h.failed) {
      this.#undelivered++
      return this.#report(error)
    } else this.#refuse(h, error, h.inserts > 0
      ? `the server refused the output and the submissions that follow: ${error.detail || 'they are too large'}`
      : `the output of about ${h.cost} bytes is more than the server takes (1 MiB at most): put it into object storage and return its key`)
    this.#outcomes = [...call.outcomes, ...this.#outcomes]
  }

  /**
   * Settles the items of a call that a refusal names, and sends the others again, so that one bad chunk costs no other its result. Returns
   * whether the refusal points at an item.
   */
  #settleNamed(call: Call, error: QuernError): boolean {
    const bad = pointedAt(call, error)
    if (bad.size === 0) return false
    this.#outcomes = [...call.outcomes.filter((h) => {
      const wrong = bad.get(h)
      if (!wrong) return true
      if (h.refused || wrong.field === 'token') {
        this.#reportResult(h, wrong.result) // a failure would be refused, too
        return false
      }
      this.#refuse(h, error, `the server refused the ${wrong.field}: it ${wrong.detail}`)
      return true
    }), ...this.#outcomes]
    this.#releases = [...call.releases.filter((h) => !bad.has(h)), ...this.#releases]
    for (const h of call.extends) {
      const wrong = bad.get(h)
      if (!this.#held.has(h.token)) continue
      if (!wrong) this.#extend(h)
      else if (wrong.field === 'token') h.lose(wrong.result)
      else this.#reportResult(h, wrong.result) // the next tick asks again
    }
    return true
  }

  /** Turns the result of a chunk into a failure for good, with the reason why the server did not take the result. */
  #refuse(h: Held, error: QuernError, reason: string): void {
    h.refuse(reason)
    this.#reportResult(h, { status: 'invalid', code: error.code, detail: reason })
  }

  /** Reports a result that does not count. */
  #reportResult(h: Held, result: Result): void {
    this.#report(new ChunkError(h.chunk.submission, h.chunk.index, result))
  }

  /** Reports each part of the strategy that has no effect: once, until the warnings change. */
  #warn({ warnings = [] }: Pick<ReserveAnswer, 'warnings'>): void {
    for (const w of warnings) if (!this.#warned.some((known) => known.pointer === w.pointer && known.detail === w.detail)) this.#report(new StrategyError(w))
    this.#warned = warnings
  }

  /** Takes new reservations; after the beginning of the drain they go back at once. */
  #accept(answer: Pick<ReserveAnswer, 'reservations' | 'reason'>, hellos: number): void {
    if (answer.reason === 'draining') this.#leave()
    for (const reservation of answer.reservations) {
      const h = new Held(reservation, (h) => this.#say(h))
      if (this.#draining) {
        this.#releases.push(h)
        continue
      }
      this.#held.set(h.token, h)
      this.#ready.push(h)
      const taken = this.#early.get(h.token)
      if (taken) h.lose(taken) // no handler begins with it
    }
    this.#extendSince(hellos)
  }

  /** One call that waits for work. */
  async #pollFor(room: number): Promise<void> {
    this.#polling = room
    const hellos = this.#hellos
    const { signal } = this.#poll
    try {
      const body = jsonBody({ ...this.#reserve, max: room, wait_ms: this.o.waitMs })
      const answer = await this.connection.json<ReserveAnswer>({ what: 'reserve', method: 'POST', path: this.#path, body, waitMs: this.o.waitMs, safe: true, signal }, 'reservations')
      // A server that does not wait is not asked in a tight loop.
      if (answer.reservations.length === 0) await pause(backoff(0) + Math.min(answer.retry_after_ms ?? 0, maxIdle), signal).catch(() => {})
      this.#polling = 0
      this.#pollFailures = 0
      this.#reached = true
      this.#warn(answer)
      this.#accept(answer, hellos)
    } catch (error) {
      if (!isFinal(error)) await pause(backoff(this.#pollFailures + 3, error), signal).catch(() => {})
      this.#polling = 0
      this.#pollFailures++
      if (!this.#draining) isFinal(error) ? this.#stop(error) : this.#missed(error)
    }
    this.#soon()
  }

  /**
   * Opens the stream again whenever it ends, with growing pauses while that fails. After a refusal for good the worker goes on without a
   * stream, and only deadlines count.
   */
  async #stayAttached(): Promise<void> {
    const { signal } = this.#attached
    for (let failures = 0; !signal.aborted; failures++) {
      let failure: unknown
      try {
        for await (const event of this.client.attach(this.o.queue, this.o.consumer, { signal, incarnation: this.#incarnation })) {
          failures = 0
          this.#heard(event)
        }
      } catch (error) {
        failure = error
      }
      if (signal.aborted || this.#leaving) return
      if (isFinal(failure)) {
        this.#unknown = true
        this.#awaited = false
        this.#soon()
        if (!(failure instanceof QuernError && failure.code === 'unknown_queue')) this.#report(failure) // else the reserves report it
        return
      }
      if (failure !== undefined) this.#missed(failure)
      await pause(backoff(failures, failure), signal).catch(() => {})
    }
  }

  /** There was no first hello in time: the worker begins without it. */
  #unheard(): void {
    if (!this.#awaited) return
    this.#awaited = false
    this.#incarnation = undefined
    this.#soon()
  }

  /** The server could not be reached, or does not serve now. */
  #missed(error: unknown): void {
    this.#away = error
    this.#report(error)
  }

  /** Handles an event of the stream. */
  #heard(event: ConsumerEvent): void {
    if (event.event === 'hello') {
      // In another epoch the server has forgotten what we hold, and after a gap we may have missed revocations. So we extend everything,
      // and the answers say what is still ours. The first hello does the same: another server may have given us chunks before our stream
      // was open.
      this.#awaited = false
      this.#hellos++
      this.#extendAll()
    } else if (event.event === 'drain') this.#leave()
    else if (event.event === 'revoked') this.#revoke(event.data.items)
    this.#soon()
  }

  #extendAll(): void {
    for (const h of this.#held.values()) this.#extend(h)
  }

  /**
   * Extends everything if the server said hello since a call began: a restarted server has forgotten the chunks that the call brought and
   * extended.
   */
  #extendSince(hellos: number): void {
    if (this.#hellos > hellos) this.#extendAll()
  }

  /** Cancels the handlers of chunks that were taken from us. */
  #revoke(items: RevokedEvent['items']): void {
    for (const { token, reason } of items) {
      const result = takenAs(reason)
      const h = this.#held.get(token)
      if (h) {
        if (!h.lost) h.lose(result)
      } else if (this.#asked > 0 || this.#polling > 0) this.#early.set(token, result)
    }
  }

  /** Ends the stream, after it has told the server that we leave. If that fails, the server notices the lost stream, and we hold nothing by
   * then. */
  async #detach(): Promise<void> {
    this.#leaving = true
    if (this.o.attach && !this.#unknown) {
      const late = new AbortController()
      const timer = setTimeout(() => late.abort(new Error('the server does not answer')), detachMs)
      await this.client.detachConsumer(this.o.queue, this.o.consumer, { signal: late.signal }).catch(() => {})
      clearTimeout(timer)
    }
    this.#attached.abort()
  }
}

/** The items that a refusal points at, with the field and the fault; none if it is about the call as a whole. */
function pointedAt(call: Call, error: QuernError): Map<Held, { field: string; detail: string; result: Result }> {
  const lists: Record<string, Held[]> = { complete: call.outcomes.filter((h) => !h.failed), fail: call.outcomes.filter((h) => h.failed), extend: call.extends, items: call.releases }
  const found = new Map<Held, { field: string; detail: string; result: Result }>()
  for (const { pointer, detail } of error.errors) {
    const [, list = '', index = '', ...fields] = pointer.split('/')
    const field = fields.join('/') || 'result'
    const h = lists[list]?.[Number(index || NaN)]
    if (h) found.set(h, { field, detail, result: { status: 'invalid', code: error.code, detail: `the ${field} ${detail}` } })
  }
  return found
}

/** The result of a reservation that the server took back for this reason. */
function takenAs(reason: RevokedEvent['items'][number]['reason']): Result {
  if (reason === 'submission_ended') return { status: 'gone', code: reason, detail: 'the submission ended (cancelled or failed), or the chunk is out of attempts' }
  return { status: 'lost', code: 'revoked', detail: `the reservation was taken: ${reason}` }
}
