// The parts that all generated calls share.

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
    yield* got.items
    cursor = got.next
  } while (cursor)
}
