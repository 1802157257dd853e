// A handler's error, as the worker reports it to the server.
import { head } from './bytes.js'
import { PermanentError, RetryError, SnoozeError } from './error.js'

/** A failed try, as it is reported. */
export interface Failure {
  error: string
  fatal?: boolean
  retry_after_ms?: number
}

/** How much of an error the server keeps, in bytes. */
export const maxError = 1000
/** How many stack frames a reported error has. */
const maxFrames = 10

/** The failure of a handler's error. Handlers may throw anything, even an object that throws when it is read; this never throws. */
export function failureOf(error: unknown): Failure {
  const failure: Failure = { error: 'an error without a text' }
  try {
    if (error instanceof PermanentError) failure.fatal = true
    if (error instanceof RetryError) failure.retry_after_ms = error.retryAfterMs
    failure.error = head(textOf(error), maxError)
  } catch {
    // its getters or traps throw
  }
  return failure
}

/** The delay of a chunk that its handler gives back; undefined for any other error. Like failureOf, it never throws. */
export function snoozeOf(error: unknown): number | undefined {
  try {
    return error instanceof SnoozeError ? error.delayMs : undefined
  } catch {
    return undefined // its traps throw
  }
}

/** The handler's own error, by the error with which a kind's retry has replaced it. */
export const raised = new WeakMap<object, unknown>()

/** The handler's own error. */
export const raisedOf = (error: unknown): unknown => (typeof error === 'object' && error !== null && raised.has(error) ? raised.get(error) : error)

/** The text; unless it is one of this client's errors, also the type and the stack frames. */
export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof PermanentError || error instanceof RetryError) return String(error.message || error.name)
  return `${typeOf(error)}${error.message && ': '}${error.message}${framesOf(error)}`
}

/** The name of an error's type; for any other value, its typeof. */
export function typeOf(error: unknown): string {
  try {
    if (!(error instanceof Error)) return typeof error
    return String(error.name === 'Error' ? error.constructor.name : error.name)
  } catch {
    return 'unknown'
  }
}

/** Where an error came from, up to the worker that called the handler, the innermost frame first. */
function framesOf({ stack, message }: Error): string {
  if (typeof stack !== 'string') return ''
  const at = stack.indexOf(message) // V8 begins with the name and the message, which may look like frames
  const frames: string[] = []
  for (const line of stack.slice(at < 0 ? 0 : at + message.length).split('\n')) {
    const [, place] = /^\s*(?:at )?(.*:\d+\)?)$/.exec(line) ?? []
    if (/#handle |\bhandleKind /.test(line) || frames.length === maxFrames) break
    if (place && !/\bnode:/.test(place)) frames.push(`\n  at ${place}`)
  }
  return frames.join('')
}
