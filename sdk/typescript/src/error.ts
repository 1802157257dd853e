import type { Problem, ProblemError, Result, StrategyWarning } from './generated/types.js'
import { read } from './json.js'

/** A refusal by the server. `code` is stable, so you can switch on it. `errors` names the wrong fields. */
export class QuernError extends Error {
  override name = 'QuernError'
  readonly status: number
  readonly code: string
  readonly title: string
  readonly detail: string
  readonly requestId: string
  readonly errors: readonly ProblemError[]
  /** Pause that the server asked for, in milliseconds; 0 if it asked for none. */
  readonly retryAfterMs: number

  constructor(problem: Partial<Problem> & { status: number }, retryAfterMs = 0) {
    const { status, code = '', title = '', detail = '', request_id: requestId = '', errors = [] } = problem
    const where = [String(status), code, requestId && `request ${requestId}`].filter(Boolean).join(', ')
    super(`quern: ${detail || title || 'the server refused the call'} (${where})` + errors.map((e) => `; ${e.pointer} ${e.detail}`).join(''))
    this.status = status
    this.code = code
    this.title = title
    this.detail = detail
    this.requestId = requestId
    this.errors = errors
    this.retryAfterMs = retryAfterMs
  }
}

/** 401: there is no access token, or a wrong or expired one. */
export class UnauthorizedError extends QuernError { override name = 'UnauthorizedError' }
/** 403: the access token lacks a scope, or is bound to other queues or meta. */
export class ForbiddenError extends QuernError { override name = 'ForbiddenError' }
/** 404: there is no such thing; `code` says which, such as unknown_queue. */
export class NotFoundError extends QuernError { override name = 'NotFoundError' }
/** 409: the present state does not allow it. */
export class ConflictError extends QuernError { override name = 'ConflictError' }
/** 412: it has changed since you read it. */
export class PreconditionError extends QuernError { override name = 'PreconditionError' }
/** 413: the body is larger than the server accepts. */
export class TooLargeError extends QuernError { override name = 'TooLargeError' }
/** 400 and 422: the request is wrong; `errors` says where. */
export class InvalidError extends QuernError { override name = 'InvalidError' }
/** 429: too much for now. The client has repeated the call already. */
export class OverloadedError extends QuernError { override name = 'OverloadedError' }
/** 502, 503 and 504, and 421 of a queue that has moved: not available now. The client has repeated the call already. */
export class UnavailableError extends QuernError { override name = 'UnavailableError' }

const kinds: Record<number, typeof QuernError> = {
  400: InvalidError, 401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 409: ConflictError, 412: PreconditionError,
  413: TooLargeError, 422: InvalidError, 429: OverloadedError, 502: UnavailableError, 503: UnavailableError, 504: UnavailableError,
}

/** The error of an answer with an error status. An answer of another program, such as a proxy's page, has its first line as the detail. */
export function refusal(status: number, body: string, retryAfterMs: number): QuernError {
  let problem: Partial<Problem>
  try {
    problem = read<Partial<Problem>>(body)
    if (typeof problem !== 'object' || problem === null) throw new TypeError('no problem')
  } catch {
    problem = { title: `HTTP status ${status}`, detail: body.trim().slice(0, 200).split('\n')[0]!.replace(/\p{C}/gu, '') }
  }
  const moved = status === 421 && /^(moved|moving|elsewhere)$/.test(problem.code ?? '') // any other 421 is about a host that the server does not serve
  return new (kinds[moved ? 503 : status] ?? QuernError)({ ...problem, status }, retryAfterMs)
}

/** The answer is not what the server's interface says: it comes from another program, or was damaged. The client does not repeat the call. */
export class BadAnswerError extends Error {
  override name = 'BadAnswerError'
  constructor(what: string, fault: string, options?: ErrorOptions) {
    super(`quern: ${what}: the answer is not what the server's interface says: ${fault}`, options)
  }
}

/** There is no answer: the client could not reach the server, or the answer broke off or took too long. `cause` has the reason. */
export class UnreachableError extends Error {
  override name = 'UnreachableError'
  constructor(what: string, cause: unknown) {
    super(`quern: ${what}: ${cause instanceof Error ? cause.message || cause.name : String(cause)}`, { cause })
  }
}

/**
 * The connection failed because of a certificate: the client does not trust the server's, or the server does not accept the client's. The
 * client does not repeat such a call. Browsers do not tell the two apart, and throw an UnreachableError.
 */
export class NotTrustedError extends UnreachableError { override name = 'NotTrustedError' }

/** The reason of a chunk's signal when its reservation was lost or revoked: the handler's result no longer counts. */
export class LostError extends Error {
  override name = 'LostError'
  constructor(readonly result: Result) {
    super(`quern: the reservation was lost: ${resultText(result)}`)
  }
}

/** The reason of a chunk's signal when the worker is ending and its grace period is over. */
export class GraceError extends Error {
  override name = 'GraceError'
  constructor() {
    super('quern: the grace period of the drain is over')
  }
}

/**
 * The reason of a chunk's signal when its handler took longer than the timeoutMs of its kind. If the handler then throws, its error is
 * the `cause` of another one.
 */
export class HandlerTimeoutError extends Error {
  override name = 'HandlerTimeoutError'
  constructor(readonly timeoutMs: number, cause?: unknown) {
    super(`quern: the handler took too long (more than ${timeoutMs} ms)` + (cause instanceof Error ? `: ${cause.name}: ${cause.message}` : ''), { cause })
  }
}

/** `onError` gets it when an operator ordered this consumer to finish its chunks and leave. */
export class DrainedError extends Error {
  override name = 'DrainedError'
  constructor() {
    super('quern: an operator told this consumer to finish what it holds and leave')
  }
}

/** `onError` gets it when the result of a chunk does not count: the reservation was lost, or the server refused the result (`invalid`). */
export class ChunkError extends Error {
  override name = 'ChunkError'
  constructor(readonly submission: string, readonly index: number, readonly result: Result) {
    super(`quern: chunk ${submission}/${index}: the result does not count: ${resultText(result)}`)
  }
}

/** `onError` gets it when a handler failed. `cause` is the handler's error. */
export class HandlerError extends Error {
  override name = 'HandlerError'
  constructor(readonly submission: string, readonly index: number, text: string, cause: unknown) {
    super(`quern: chunk ${submission}/${index}: the handler failed: ${text}`, { cause })
  }
}

/** `onError` gets it when a part of the strategy has no effect now, such as a block of a deleted plugin. `pointer` leads to the block. */
export class StrategyError extends Error {
  override name = 'StrategyError'
  readonly pointer: string
  readonly detail: string
  constructor({ pointer, detail }: StrategyWarning) {
    super(`quern: the strategy ${detail}`)
    this.pointer = pointer
    this.detail = detail
  }
}

const resultText = (r: Result) => [r.status, r.code, r.detail].filter(Boolean).join(' ')

/** A handler throws it to fail the chunk for good. */
export class PermanentError extends Error {
  override name = 'PermanentError'
}

/** The longest pause that the server gives a chunk. */
const longestPauseMs = 30 * 24 * 3600 * 1000

/**
 * A handler throws it to give its chunk back. No attempt counts, and the server offers the chunk again after this many milliseconds, at
 * most 30 days; a longer time is cut to that.
 */
export class SnoozeError extends Error {
  override name = 'SnoozeError'
  readonly delayMs: number
  constructor(delayMs: number) {
    super(`snoozed for ${String(delayMs)} ms`)
    if (typeof delayMs !== 'number' || Number.isNaN(delayMs)) throw new TypeError(`quern: delayMs is ${String(delayMs)}; name the pause before the chunk is offered again in milliseconds`)
    this.delayMs = Math.min(Math.max(0, Math.round(delayMs)), longestPauseMs)
  }
}

/**
 * A handler throws it to set the milliseconds until the next attempt, instead of the queue's back-off: at most 30 days; a longer pause is
 * cut to that.
 */
export class RetryError extends Error {
  override name = 'RetryError'
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs: number, options?: ErrorOptions) {
    super(message, options)
    if (typeof retryAfterMs !== 'number' || Number.isNaN(retryAfterMs)) throw new TypeError(`quern: retryAfterMs is ${String(retryAfterMs)}; name the pause before the next try in milliseconds`)
    this.retryAfterMs = Math.min(Math.max(0, Math.round(retryAfterMs)), longestPauseMs)
  }
}
