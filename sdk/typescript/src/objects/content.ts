// Contents of objects, and their keys.

/**
 * A content of an object: a text, bytes, a Blob or File, a stream, or an iterable of parts of the content, such as a generator or a
 * stream of Node.
 */
export type Content = string | Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<string | Uint8Array> | Iterable<Uint8Array>

const encoder = new TextEncoder()

/** The pieces of a content. */
export async function* piecesOf(content: Content): AsyncGenerator<Uint8Array> {
  if (typeof content === 'string') return yield encoder.encode(content)
  if (content instanceof Uint8Array) return yield content
  const source = content instanceof Blob ? content.stream() : content
  if (source instanceof ReadableStream) return yield* piecesOfStream(source)
  if (typeof source !== 'object' || source === null || !(Symbol.asyncIterator in source || Symbol.iterator in source)) {
    throw new TypeError(`quern: an object is made of a string, a Uint8Array, a Blob, a stream or pieces, not of ${source === null ? 'null' : typeof source}; use JSON.stringify for values`)
  }
  for await (const piece of source as AsyncIterable<unknown>) {
    if (typeof piece !== 'string' && !(piece instanceof Uint8Array)) throw new TypeError(`quern: a piece of an object is a string or a Uint8Array, not a ${typeof piece}`)
    yield typeof piece === 'string' ? encoder.encode(piece) : piece
  }
}

/** Not every browser can go through a stream with for await. */
async function* piecesOfStream(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  let whole = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) {
        whole = true
        return
      }
      yield value
    }
  } finally {
    if (!whole) await reader.cancel().catch(() => {})
  }
}

/** The key, if it stays inside the bucket. Producers name the objects that consumers read, and .. leads elsewhere. */
export function plain(key: string): string {
  if (/[\\\0]/.test(key) || key.split('/').some((part) => part === '' || part === '.' || part === '..')) {
    throw new TypeError(`quern: the key ${JSON.stringify(key)} has an empty part, a part . or .., a backslash or a zero byte, which buckets do not take`)
  }
  return key
}
