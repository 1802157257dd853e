// A reserved chunk, as a handler sees it and as the worker holds it.
import { type Data, type WireBytes, decode, decodeText, encode, head } from './bytes.js'
import { byteLength, jsonBody } from './connection.js'
import { GraceError, LostError } from './error.js'
import { type Failure, failureOf, maxError, raisedOf, snoozeOf } from './failure.js'
import type { Meta, Reservation, Result } from './generated/types.js'
import { type InsertOfMany, insertBody } from './insert.js'

/** Aborts the signal of a chunk. */
export let cancel: (chunk: Chunk, reason: Error) => void
/** Whether the worker was to end, and its grace period is over. */
export let isGraceOver: (chunk: Chunk) => boolean

/** The chunk that a handler works on. */
export class Chunk {
  readonly submission: string
  readonly index: number
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly meta: Readonly<Meta>
  readonly priority: number
  /** Trace of the insert: a W3C traceparent, optionally followed by ';' and the tracestate. */
  readonly trace: string | undefined
  /** Key of the object that holds the content; undefined if the chunk holds it. */
  readonly key: string | undefined
  readonly #reservation: Reservation
  readonly #cancel: Cancel
  readonly #following: Following
  readonly #say: Say

  static {
    cancel = (chunk, reason) => chunk.#cancel.abort(reason)
    isGraceOver = (chunk) => chunk.#cancel.reason instanceof GraceError
  }

  constructor(r: Reservation, cancel: Cancel, following: Following, say: Say) {
    this.submission = r.submission
    this.index = r.index
    this.attempt = r.attempt
    this.meta = r.meta
    this.priority = r.priority
    this.trace = r.trace
    this.key = 'key' in r.content ? r.content.key : undefined
    this.#reservation = r
    this.#cancel = cancel
    this.#following = following
    this.#say = say
  }

  /** The content; empty if there is a key. */
  get bytes(): Uint8Array { return decode(this.#content) }
  /** The content as text; bytes that are not UTF-8 become U+FFFD. */
  get text(): string { return decodeText(this.#content) }
  /** The attachment of the submission. */
  get attachment(): Uint8Array | undefined { return this.#reservation.attachment === undefined ? undefined : decode(this.#reservation.attachment) }
  /** Deadline at the time of the reservation; the worker extends it. */
  get deadline(): Date { return new Date(this.#reservation.deadline) }
  /** Time of the insert, which the submission's id tells. */
  get createdAt(): Date { return new Date(Number(BigInt(this.submission) >> 22n)) }
  /** Start of the wait for this attempt: the insert, its run_at, or the end of the previous attempt or its back-off. */
  get readyAt(): Date { return this.#reservation.ready_at === undefined ? this.createdAt : new Date(this.#reservation.ready_at) }

  /**
   * Aborts with a LostError when the reservation is lost or revoked: the handler's result no longer counts. Aborts with a GraceError when
   * the worker is ending and its grace period is over: if the handler then throws, the chunk goes back without counting an attempt.
   */
  get signal(): AbortSignal { return this.#cancel.signal }

  /**
   * Inserts a submission into the chunk's queue if the handler returns. The server completes the chunk and inserts the submission in one
   * commit, so a crash never leaves one without the other. A handler can call it up to 100 times. If a submission is invalid, the chunk
   * fails for good. If the server has no room for it, the attempt fails, and the server retries the chunk after its back-off. A
   * submission without a trace gets the trace of the chunk.
   *
   * It is not named then, because await takes an object with a method of that name for a promise.
   */
  thenInsert(work: InsertOfMany): void {
    const body = insertBody({ ...(this.trace === undefined ? {} : { trace: this.trace }), ...work })
    this.#following.inserts.push(body)
    this.#following.bytes += byteLength(jsonBody(body)) + 1
  }

  /**
   * Reports how much of the work is done, from 0 to 1, and a note about the current step. It is for people: the dashboard and `quern
   * reservations` show it until the chunk is finished. It returns at once. Within about a second, the worker sends the latest reports of
   * all its chunks together. An empty note keeps the previous one. A long note is cut to 256 bytes.
   */
  progress(part: number, note = ''): void { this.#say(part, note) }

  get #content(): WireBytes { return 'key' in this.#reservation.content ? '' : this.#reservation.content }
}

type Say = (part: number, note: string) => void

/** How much of a note the server takes, in bytes. */
const maxNote = 256

/** The submissions that are inserted with the completion of a chunk. */
interface Following {
  inserts: object[]
  bytes: number
}

/** Cancels a handler. Most never look at their signal, so it is made only when one does. */
class Cancel {
  #controller: AbortController | undefined
  reason: Error | undefined

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.reason) this.#controller.abort(this.reason)
    return this.#controller.signal
  }

  abort(reason: Error): void {
    if (this.reason) return
    this.reason = reason
    this.#controller?.abort(reason)
  }
}

/** Does the work of one chunk. The result is the output; nothing means no output. An exception fails the attempt. */
export type Handler = (chunk: Chunk) => Promise<Data | null | undefined | void> | Data | null | undefined | void

/** The result of a chunk, as it goes to the server. */
export type Outcome = { token: string } & ({ output?: WireBytes; insert?: object[] } | Failure)

/** One reservation in a worker's hands. */
export class Held {
  readonly token: string
  readonly chunk: Chunk
  readonly #cancel = new Cancel()
  readonly #following: Following = { inserts: [], bytes: 0 }
  outcome: Outcome | undefined
  /** The error of a failed attempt, for hooks. */
  failure: { error: unknown } | undefined
  /** About how many bytes the outcome takes in a request. */
  cost = 0
  /** The server refused the handler's result, and the outcome says so. */
  refused = false
  /** It is to be given back. */
  back = false
  /** How long the returned chunk waits before it is offered again. */
  delayMs = 0
  lost: Result | undefined
  /** Quarters of the timeout since it was reserved or extended. */
  age = 0
  extending = false
  /** The progress that the handler reported last, as an extension sends it. */
  progress: { progress?: number; note?: string } = {}
  /** The worker is going to send the progress. */
  listed = false

  constructor(r: Reservation, said: (h: Held) => void) {
    this.token = r.token
    this.chunk = new Chunk(r, this.#cancel, this.#following, (part, text) => {
      const note = head(text, maxNote) || this.progress.note
      this.progress = { progress: Math.min(Math.max(part, 0), 1) || 0, ...(note ? { note } : {}) }
      if (!this.listed) said(this) // a later report replaces this one until the worker sends it
    })
  }

  /** Takes the chunk away from its handler. */
  lose(result: Result): void {
    this.lost = result
    this.#cancel.abort(new LostError(result))
  }

  /** Asks the handler to end. */
  hurry(): void {
    this.#cancel.abort(new GraceError())
  }

  /** Takes what the handler returned. */
  complete(output: Data | null | undefined | void): void {
    const { inserts, bytes } = this.#following
    const insert = inserts.length > 0 ? { insert: [...inserts] } : {}
    if (output === undefined || output === null) this.#report({ token: this.token, ...insert }, bytes)
    else {
      const wire = encode(output)
      this.#report({ token: this.token, output: wire, ...insert }, cost(wire) + bytes)
    }
  }

  /** Takes what the handler threw. */
  fail(error: unknown): void {
    this.back = this.#cancel.reason instanceof GraceError
    const snooze = snoozeOf(error)
    if (snooze !== undefined) {
      this.back = true
      this.delayMs = snooze
    }
    this.failure = { error: raisedOf(error) }
    const failure = failureOf(error)
    this.#report({ token: this.token, ...failure }, 2 * failure.error.length)
  }

  /** Turns a completion into a failure, because the server has no room for its submissions. */
  retry(reason: string): void {
    this.failure = { error: new Error(reason) }
    const error = head(reason, maxError)
    this.#report({ token: this.token, error }, 2 * error.length)
  }

  /** Turns a result that the server does not take into a failure for good. A handler's own error is added to the reason. */
  refuse(reason: string): void {
    const thrown = this.failed ? `; the handler's error was: ${this.reason}` : ''
    const text = head(reason + thrown, maxError)
    this.refused = true
    this.failure ??= { error: new Error(reason) }
    this.#report({ token: this.token, error: text, fatal: true }, 2 * text.length)
  }

  #report(outcome: Outcome, cost: number): void {
    this.outcome = outcome
    this.cost = 100 + cost
  }

  /** How many submissions the completion brings. */
  get inserts(): number { return (this.outcome && 'insert' in this.outcome && this.outcome.insert?.length) || 0 }
  get failed(): boolean { return this.outcome !== undefined && 'error' in this.outcome }
  /** Why it failed. */
  get reason(): string { return this.outcome && 'error' in this.outcome ? this.outcome.error : '' }
}

/** At most how many bytes an output takes in a request, escapes and all. */
function cost(wire: WireBytes): number {
  if (typeof wire === 'object') return 'text' in wire ? cost(wire.text) : wire.base64.length + 14
  return /^[ !#-[\]-~]*$/.test(wire) ? wire.length : JSON.stringify(wire).length * (/[\u0080-\uffff]/.test(wire) ? 3 : 1)
}
