// Inserts of one client into one queue share calls when they overlap. There is no timer:
//
//	A inserts: no call is under way, and A's goes at once, as a call of its own
//	B, C, D insert meanwhile and wait
//	A's call ends, or has to be tried again: one call for B, C and D, each with its own result
//
// So a lone caller waits for its own call only, and the busier the program, the more inserts share a call and the commit behind it.
import { type Connection, type Request, byteLength, later } from './connection.js'
import { BadAnswerError, QuernError } from './error.js'
import type { InsertManyAnswer, Submission } from './generated/types.js'

// Bounds of a shared call. A larger call makes no insert cheaper, and delays the other callers that share the commit. A large insert goes
// alone, as it would hold up small ones.
const mostInserts = 1000
const mostBytes = 8 << 20
const large = 64 << 10

export type InsertRequest = Request & { body: string; headers: { 'idempotency-key': string; traceparent: string | undefined } }

/** One insert that waits. If its shared call was refused, it gets neither a submission nor an error, and asks alone: the refusal is then
 * that of a single insert. */
interface Waiting {
  line: string
  bytes: number
  settle: (submission: Submission | undefined) => void
  fail: (error: unknown) => void
}

/** The inserts of a client that share calls. */
export class Shared {
  readonly #waiting = new Map<string, Waiting[]>() // by path; a path is there while a call of it is under way

  constructor(readonly connection: Connection) {}

  /** Makes the call of an insert, or shares one. */
  async insert(request: InsertRequest): Promise<Submission> {
    const { path } = request
    if (byteLength(request.body) > large) return this.connection.json<Submission>(request)
    const waiting = this.#waiting.get(path)
    if (waiting) return (await this.#wait(request, waiting)) ?? this.connection.json<Submission>(request)
    this.#waiting.set(path, [])
    const next = once(() => void this.#next(path)) // a call that is tried again holds up no others
    try {
      return await this.connection.json<Submission>({ ...request, pauses: next })
    } finally {
      next()
    }
  }

  /** Waits for the next call. An insert whose signal aborts before the call begins is not in it. */
  #wait({ path, body, headers, signal }: InsertRequest, waiting: Waiting[]): Promise<Submission | undefined> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error)
      const trace = headers.traceparent ?? this.connection.tracing.context?.()
      const line = `${body.slice(0, -1)},"idempotency_key":${JSON.stringify(headers['idempotency-key'])}${trace ? `,"trace":${JSON.stringify(trace)}` : ''}}`
      const leave = () => {
        const left = this.#waiting.get(path)
        if (left?.includes(one)) left.splice(left.indexOf(one), 1)
        reject(signal!.reason as Error)
      }
      const end = <T>(how: (of: T) => void) => (of: T) => {
        signal?.removeEventListener('abort', leave)
        how(of)
      }
      const one: Waiting = { line, bytes: byteLength(line), settle: end(resolve), fail: end(reject) }
      signal?.addEventListener('abort', leave, { once: true })
      waiting.push(one)
    })
  }

  /** Makes one call for the waiting inserts, and then starts the next one. If none waits, no call is under way any more. */
  async #next(path: string): Promise<void> {
    const waiting = this.#waiting.get(path)!
    if (waiting.length === 0) return void this.#waiting.delete(path)
    let count = 0
    for (let bytes = 0; count < Math.min(waiting.length, mostInserts) && (bytes += waiting[count]!.bytes) <= mostBytes; ) count++
    const call = waiting.splice(0, count)
    const next = once(() => void this.#next(path))
    const headers = { 'content-type': 'application/x-ndjson' }
    const body = call.map((one) => one.line).join('\n')
    try {
      const { results } = await this.connection.json<InsertManyAnswer>({ what: 'insert', method: 'POST', path: path + ':batch', headers, body, safe: true, traced: false, pauses: next }, 'results')
      if (results.length !== call.length) throw new BadAnswerError('insert', `it has ${results.length} results for ${call.length} submissions`)
      call.forEach((one, at) => one.settle(results[at]!.submission))
    } catch (error) {
      const isRefusal = error instanceof QuernError && error.status < 500 // the cause may be one of them
      for (const one of call) isRefusal ? one.settle(undefined) : one.fail(error)
    }
    later(next) // callers that have their result go on first, so that their next inserts share the next call
  }
}

/** An act that is done the first time only. */
function once(act: () => void): () => void {
  let left = true
  return () => {
    if (left) {
      left = false
      act()
    }
  }
}
