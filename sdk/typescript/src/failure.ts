// What the server is told of what a handler threw.
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
/** How many frames of an error the server is told. */
const maxFrames = 10

/** The failure of what a handler threw. Handlers may throw anything, also what cannot be looked at: this never throws. */
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

/** How long a chunk waits whose handler gives it back; undefined for any other error. It never throws, as failureOf. */
export function snoozeOf(error: unknown): number | undefined {
  try {
    return error instanceof SnoozeError ? error.delayMs : undefined
  } catch {
    return undefined // its traps throw
  }
}

/** What a handler threw, in the place of which a kind's retry has decided. */
export const raised = new WeakMap<object, unknown>()

/** What a handler threw itself. */
export const raisedOf = (error: unknown): unknown => (typeof error === 'object' && error !== null && raised.has(error) ? raised.get(error) : error)

/** The text, and of what the handler did not throw for us the type and where it came from. */
export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof PermanentError || error instanceof RetryError) return String(error.message || error.name)
  return `${typeOf(error)}${error.message && ': '}${error.message}${framesOf(error)}`
}

/** The name of an error's type; of what is no error, what it is. */
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
