// Calls to one server, or to several that serve the same queues: attempts, pauses, addresses, time limits.
import { type Address, Addresses, isFinal } from './addresses.js'
import { gather, join, utf8 } from './bytes.js'
import { BadAnswerError, NotTrustedError, QuernError, UnreachableError, refusal } from './error.js'
import { isList, isObject, read, write } from './json.js'
import { type Logger, Notices } from './notices.js'
import type { Answer, TlsOptions, Transport } from './transport.js'
import { openTransport } from '#transport'

/** Options of a client. */
export interface ClientOptions {
  /** Access token, sent with every call to every address. */
  token?: string
  /** TLS options for https addresses. */
  tls?: TlsOptions
  /** Further attempts of a call that is safe to repeat; 5 by default, 0 for none. */
  retries?: number
  /** How long one attempt of a call may take, in milliseconds, without the time that it asks the server to wait; 30,000 by default. */
  timeoutMs?: number
  /**
   * Sends the calls of a queue straight to the node of a cluster that owns it, as soon as an answer has named the owner, and until it
   * does not serve; false by default. The client remembers the owners of up to 256 queues. It calls an owner that is not one of its
   * addresses only if the owner's URL has the scheme of the address that named it.
   */
  direct?: boolean
  /** Tracing of calls and chunks, for example with OpenTelemetry. */
  tracing?: Tracing
  /**
   * Logger for problems that the client handles by itself and reports nowhere else: those of workers without an onError, and of streams
   * that it follows. It logs each kind at most once a minute. console by default.
   */
  logger?: Logger
  /** Carries the calls instead of the runtime's own connections. */
  transport?: Transport
}

/** One attempt of a call, for tracing. */
export interface Try {
  what: string
  method: string
  url: string
  /** 1 for the first. */
  attempt: number
}

/** Tracing of calls and chunks. */
export interface Tracing {
  /**
   * Returns the present trace of calls: a W3C traceparent, optionally followed by ';' and the tracestate. Submissions that they insert
   * carry it to their consumers.
   */
  context?(): string | undefined
  /** The client calls it when an attempt of a call begins, and its result when the attempt ends. */
  try?(t: Try): ((end: { status?: number; error?: unknown }) => void) | void
  /** Runs a handler within the trace of its chunk: `chunk.trace`. */
  handler?<T>(chunk: { submission: string; index: number; trace: string | undefined }, run: () => Promise<T>): Promise<T>
}

/** A call, with all that each attempt needs. */
export interface Request {
  what: string
  method: string
  path: string
  query?: Record<string, unknown>
  headers?: Record<string, string | undefined>
  body?: string | Uint8Array | AsyncIterable<Uint8Array>
  /** How long the server is asked to wait, in milliseconds. */
  waitMs?: number
  /** It may be made twice. */
  safe?: boolean
  signal?: AbortSignal
  /** false: it belongs to no trace, as it is made for several callers. */
  traced?: boolean
  /** Called when the call pauses before another attempt. */
  pauses?: () => void
}

const backoffBase = 100
const backoffCap = 5000
const maxRetryAfter = 60_000 // a server that asks for more gets a try after this, or its answer is the error

/** The error of an attempt that got no answer. Only a transport knows when a certificate is at fault. */
/** Whether the error is about an answer that came. */
const isAnswer = (error: unknown): boolean => error instanceof QuernError || error instanceof BadAnswerError

const noAnswer = (what: string, error: unknown) => (error instanceof NotTrustedError ? new NotTrustedError(what, error.cause) : new UnreachableError(what, error))

/** The pause after the given try: random, from 0 to base*2^try, on top of the server's Retry-After. */
export const backoff = (tries: number, error?: unknown): number =>
  Math.random() * Math.min(backoffBase * 2 ** Math.min(tries, 10), backoffCap) + Math.min(error instanceof QuernError ? error.retryAfterMs : 0, maxRetryAfter)

/** Waits, or throws the reason of the signal as soon as it is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error)
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', ended)
      resolve()
    }, ms)
    const ended = () => {
      clearTimeout(timer)
      reject(signal!.reason as Error)
    }
    signal?.addEventListener('abort', ended, { once: true })
  })
}

/** 128 bits as hexadecimal text, for idempotency keys and names. */
export const drawKey = (): string => crypto.randomUUID().replaceAll('-', '')

/** Where one try goes. */
interface Way {
  attempt: number
  address: Address
  /** It has gone on to the owner of the queue. */
  followed: boolean
}

/** Whether a body can be read only once. */
const isStreamed = (body: Request['body']): boolean => typeof body === 'object' && !(body instanceof Uint8Array)

export class Connection {
  readonly tracing: Tracing
  readonly timeoutMs: number
  readonly notices: Notices
  readonly #addresses: Addresses
  readonly #token: string | undefined
  readonly #retries: number
  readonly #transport: Transport

  constructor(addresses: string | readonly string[], options: ClientOptions) {
    const { token, tls, retries = 5, timeoutMs = 30_000, tracing = {}, transport, logger = console, direct = false } = options
    this.#addresses = new Addresses(addresses, direct)
    if (token !== undefined && !/^[!-~]*$/.test(token)) throw new TypeError('quern: the token has characters that no token has (spaces, line breaks or others outside ASCII)')
    if (!(timeoutMs > 0)) throw new RangeError(`quern: timeoutMs is ${timeoutMs}; it must be positive`)
    if (!(retries >= 0)) throw new RangeError(`quern: retries is ${retries}; it must be 0 or more`)
    this.#token = token || undefined
    this.#retries = retries
    this.timeoutMs = timeoutMs
    this.tracing = tracing
    this.notices = new Notices(logger)
    this.#transport = transport ?? openTransport(tls)
  }

  close(): void {
    this.#transport.close()
  }

  /** Makes a call, again where that is safe and may help, and reads its answer, which has these lists of objects. */
  async json<T>(request: Request, ...lists: (keyof T & string)[]): Promise<T> {
    const text = utf8(await this.#bodyOf(request))
    if (!text && lists.length === 0) return undefined as T
    let answer: T
    try {
      answer = read<T>(text)
    } catch (error) {
      throw new BadAnswerError(request.what, 'it is no JSON', { cause: error })
    }
    if (!isObject(answer)) throw new BadAnswerError(request.what, 'it is no object')
    for (const name of lists) if (!isList(answer[name])) throw new BadAnswerError(request.what, `${name} is no list of objects`)
    return answer
  }

  /** Makes a call whose answer is bytes. */
  async bytes(request: Request): Promise<Uint8Array> {
    return join(await this.#bodyOf(request))
  }

  /** Makes a call whose answer is text. */
  async text(request: Request): Promise<string> {
    return utf8(await this.#bodyOf(request))
  }

  #bodyOf(request: Request): Promise<Uint8Array[]> {
    return this.#again(request, (way) => this.#try(request, way))
  }

  /** Makes tries until one succeeds, where that is safe and may help. */
  async #again<T>(request: Request, once: (way: Way) => Promise<T>): Promise<T> {
    let elsewhere = this.#addresses.others
    for (let attempt = 1; ; attempt++) {
      const way = { attempt, address: this.#addresses.of(request.path), followed: false }
      try {
        return await once(way)
      } catch (error) {
        if (request.signal?.aborted) throw request.signal.reason
        if (error instanceof BadAnswerError) throw error
        const moved = this.#addresses.leave(request.path, way.address, error)
        if (!request.safe || (isFinal(error) && !moved)) throw error
        if (moved && elsewhere > 0) {
          elsewhere--
          attempt-- // another address is no second try
          continue
        }
        elsewhere = this.#addresses.others
        if (attempt > this.#retries) throw error
        request.pauses?.()
        await pause(backoff(attempt - 1, error), request.signal)
      }
    }
  }

  /** One try, with its answer read to the end. */
  async #try(request: Request, way: Way): Promise<Uint8Array[]> {
    const limit = new AbortController()
    const abort = () => limit.abort(request.signal?.reason)
    if (request.signal?.aborted) abort()
    request.signal?.addEventListener('abort', abort, { once: true })
    const timer = setTimeout(() => limit.abort(new Error('no answer in time')), this.timeoutMs + (request.waitMs ?? 0))
    try {
      const answer = await this.#send(request, way, limit.signal)
      const body = await gather(answer.body, (fault) => new BadAnswerError(request.what, fault))
      limit.signal.throwIfAborted() // a body without a length ends with its connection, also when the connection was cut here
      return body
    } catch (error) {
      if (isAnswer(error)) throw error
      throw noAnswer(request.what, limit.signal.aborted ? limit.signal.reason : error)
    } finally {
      clearTimeout(timer)
      request.signal?.removeEventListener('abort', abort)
    }
  }

  /** Makes a call whose answer is read as it comes: it has no limit of time but that of the signal, which must be aborted in the end. */
  stream(request: Request & { signal: AbortSignal }): Promise<Answer> {
    return this.#again(request, async (way) => {
      try {
        return await this.#send(request, way, request.signal)
      } catch (error) {
        throw isAnswer(error) ? error : noAnswer(request.what, error)
      }
    })
  }

  /** Sends a call. A node that no longer owns the queue answers 421 and has done nothing, so the call goes on to the owner that the node
   * names. */
  async #send(request: Request, way: Way, signal: AbortSignal): Promise<Answer> {
    const { attempt, address: { base, socketPath } } = way
    const url = base + request.path + query(request.query)
    const done = this.tracing.try?.({ what: request.what, method: request.method, url, attempt })
    try {
      const answer = await this.#transport.send({ method: request.method, url, socketPath, headers: this.#headers(request), body: request.body, signal })
      done?.({ status: answer.status })
      const owner = this.#addresses.heard(request.path, way.address, answer.status, answer.header('quern-owner'))
      if (answer.status >= 200 && answer.status < 300) return answer
      const refused = refusal(answer.status, utf8(await gather(answer.body, (fault) => new BadAnswerError(request.what, fault))), retryAfter(answer))
      if (answer.status !== 421 || !owner || owner === way.address || way.followed || isStreamed(request.body)) throw refused
      way.followed = true
      way.address = owner
    } catch (error) {
      if (!(error instanceof QuernError)) done?.({ error })
      throw error
    }
    return this.#send(request, way, signal)
  }

  #headers(request: Request): Record<string, string> {
    const headers: Record<string, string> = {}
    const trace = request.traced === false ? undefined : request.headers?.['traceparent'] ?? this.tracing.context?.()
    for (const [name, value] of Object.entries(request.headers ?? {})) if (value !== undefined) headers[name] = value
    if (trace) {
      const cut = trace.indexOf(';')
      headers['traceparent'] = cut < 0 ? trace : trace.slice(0, cut)
      if (cut >= 0) headers['tracestate'] = trace.slice(cut + 1)
    }
    if (this.#token) headers['authorization'] = 'Bearer ' + this.#token
    if (request.body !== undefined) headers['content-type'] ??= 'application/json'
    if (typeof request.body === 'string') headers['content-length'] = String(byteLength(request.body))
    if (request.body instanceof Uint8Array) headers['content-length'] = String(request.body.length)
    return headers
  }
}

/** Seconds or a date, which counts from the answer's own Date: the clocks need not agree. */
function retryAfter(answer: Answer): number {
  const value = answer.header('retry-after') ?? ''
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const ms = Date.parse(value) - Date.parse(answer.header('date') ?? '')
  return ms > 0 ? ms : 0
}

/** The query of an address: lists are repeated, objects are parameters with their name as the prefix, undefined is left out. */
function query(fields: Record<string, unknown> | undefined): string {
  const out = new URLSearchParams()
  for (const [name, value] of Object.entries(fields ?? {})) {
    if (Array.isArray(value)) value.forEach((one) => out.append(name, String(one)))
    else if (value instanceof Date) out.append(name, value.toISOString())
    else if (typeof value === 'object' && value !== null) for (const [key, one] of Object.entries(value)) out.append(`${name}.${key}`, metaText(one as MetaValue))
    else if (value !== undefined && value !== null) out.append(name, String(value))
  }
  const text = out.toString()
  return text && '?' + text
}

type MetaValue = string | number | bigint

/** A meta value as paths and filters have it: a bare whole number, or s: and the text. */
export const metaText = (value: MetaValue): string => (typeof value === 'string' ? 's:' + value : String(value))

/** Metadata as it is sent. JSON would leave undefined out, and make a text of a date, in silence. */
export function checkMeta<M extends object>(name: string, meta: M): M {
  for (const [key, value] of Object.entries(meta)) {
    if (typeof value === 'string' || typeof value === 'bigint' || Number.isInteger(value)) continue
    throw new TypeError(`quern: ${name}.${key} is ${String(value)}, a ${typeof value}; it must be a string or a whole number`)
  }
  return meta
}

/** Writes a body. */
export const jsonBody = (value: unknown): string => write(value)

const encoder = new TextEncoder()
const buffer = (globalThis as { Buffer?: { byteLength(text: string): number } }).Buffer
export const byteLength = (text: string): number => buffer?.byteLength(text) ?? encoder.encode(text).length

/** Runs after all that is ready to run now. */
export const later: (fn: () => void) => void = (globalThis as { setImmediate?: (fn: () => void) => void }).setImmediate ?? ((fn) => setTimeout(fn, 0))
