// The log of errors after which a client goes on by itself, and which nothing else reports.
import { ChunkError, HandlerError, QuernError, StrategyError } from './error.js'
import { typeOf } from './failure.js'

/** A logger for problems; console is one. */
export interface Logger {
  warn(text: string): void
}

/** How long each kind of trouble is logged once. */
const everyMs = 60_000
/** Kinds that are told apart at a time. */
const maxKinds = 100

/** Logs each kind of trouble at most once a minute: a server that is away, or a handler that always fails, does not fill the log. */
export class Notices {
  readonly #logger: Logger
  readonly #kinds = new Map<string, { next: number; missed: number }>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Logs an error, unless one of its kind was logged a moment ago. */
  warn(error: unknown, about: string): void {
    const missed = this.due(kindOf(error), performance.now())
    if (missed === undefined) return
    const more = missed > 0 ? ` (${missed} more like it were not logged)` : ''
    this.#logger.warn(`quern: ${about}: ${visible(error)}${more}`)
  }

  /** How many of a kind were not logged since the last that was, if one is to be logged now; else undefined. */
  due(kind: string, now: number): number | undefined {
    const kinds = this.#kinds
    if (kinds.size >= maxKinds && !kinds.has(kind)) {
      for (const [name, { next }] of kinds) if (next <= now) kinds.delete(name)
      if (kinds.size >= maxKinds) kind = '' // the others share one
    }
    const known = kinds.get(kind)
    if (known && now < known.next) {
      known.missed++
      return undefined
    }
    kinds.set(kind, { next: now + everyMs, missed: 0 })
    return known?.missed ?? 0
  }
}

/** Which errors are alike. */
function kindOf(error: unknown): string {
  if (error instanceof HandlerError) return `handler ${typeOf(error.cause)}`
  if (error instanceof QuernError) return `refused ${error.status} ${error.code}`
  if (error instanceof ChunkError) return `chunk ${error.result.status} ${error.result.code}`
  if (error instanceof StrategyError) return `strategy ${error.detail}`
  return typeOf(error)
}

/** An error's text. Producers may choose parts of it, so control characters are escaped, and no line looks like one of the log. */
function visible(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.replace(/^quern: /, '').replace(/[^\P{C}\n\t]/gu, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`).replaceAll('\n', '\n  ')
}
