// The parts that all generated calls share.
import { BadAnswerError } from './error.js'
import { isList } from './json.js'

/** The options of every call. */
export interface CallOptions {
  /** Ends the call: it then throws the signal's reason. */
  signal?: AbortSignal | undefined
}

/** A part of a path. */
export const part = (text: string | number): string => encodeURIComponent(String(text))

/** Goes through a list page by page. */
export async function* pages<T>(page: (cursor: string | undefined) => Promise<{ items: T[]; next?: string }>): AsyncIterableIterator<T> {
  let cursor: string | undefined
  do {
    const got = await page(cursor)
    if (!isList(got.items)) throw new BadAnswerError('list', 'items is no list of objects')
    yield* got.items
    // A server that names the page that it has just sent would have the client read it for ever.
    if (got.next && got.next === cursor) throw new BadAnswerError('list', `behind the page ${cursor} comes the same page`)
    cursor = got.next
  } while (cursor)
}
