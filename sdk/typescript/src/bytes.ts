// Bytes as the interface has them: text where they are UTF-8, base64 where not.

/** Bytes as callers may give them: a string stands for its UTF-8. */
export type Data = string | Uint8Array

/** Bytes on the wire. */
export type WireBytes = string | { text: string } | { base64: string }

const encoder = new TextEncoder()
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const lenient = new TextDecoder('utf-8', { ignoreBOM: true })

/** Node's and Deno's Buffer codes base64 many times faster than btoa. */
const buffer = (globalThis as { Buffer?: { from(data: unknown, encoding?: string): Uint8Array & { toString(encoding: string): string } } }).Buffer

/** Half a surrogate pair is no UTF-8: the server would refuse the whole call for it. */
const wellFormed = (text: string) => (/[\ud800-\udfff]/.test(text) ? lenient.decode(encoder.encode(text)) : text)

/** Writes bytes for the wire. */
export function encode(data: Data): WireBytes {
  if (typeof data === 'string') return wellFormed(data)
  if (!(data instanceof Uint8Array)) throw new TypeError(`quern: bytes are given as a string or a Uint8Array, not as ${data === null ? 'null' : typeof data}; use JSON.stringify for values`)
  try {
    return strict.decode(data)
  } catch {
    return { base64: toBase64(data) }
  }
}

/** Reads bytes from the wire. */
export function decode(wire: WireBytes): Uint8Array {
  if (typeof wire === 'string') return encoder.encode(wire)
  return 'text' in wire ? encoder.encode(wire.text) : fromBase64(wire.base64)
}

/** Reads bytes from the wire as text; bytes that are not UTF-8 become U+FFFD. */
export function decodeText(wire: WireBytes): string {
  if (typeof wire === 'string') return wire
  return 'text' in wire ? wire.text : lenient.decode(fromBase64(wire.base64))
}

/** The first bytes of a text, cut between characters. */
export function head(text: string, most: number): string {
  const whole = wellFormed(text)
  if (whole.length * 3 <= most) return whole
  const bytes = encoder.encode(whole)
  if (bytes.length <= most) return whole
  let cut = most
  while (cut > 0 && (bytes[cut]! & 0xc0) === 0x80) cut--
  return lenient.decode(bytes.subarray(0, cut))
}

function toBase64(data: Uint8Array): string {
  if (buffer) return buffer.from(data).toString('base64')
  let text = ''
  for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192))
  return btoa(text)
}

const fromBase64 = (text: string): Uint8Array =>
  buffer ? new Uint8Array(buffer.from(text, 'base64')) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0))

/** Joins pieces. */
export function join(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0]!
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/** The longest body that is read whole: about the longest string that the runtime holds. */
const maxBody = 500 << 20

/** Reads a body whole. tooLong makes the error of one that is too long. */
export async function gather(body: AsyncIterable<Uint8Array>, tooLong: (fault: string) => Error): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of body) {
    pieces.push(piece)
    if ((length += piece.length) > maxBody) throw tooLong(`it is longer than ${maxBody >> 20} MiB`)
  }
  return pieces
}

/** The text of whole bodies, which the interface says is UTF-8. */
export const utf8 = (pieces: readonly Uint8Array[]): string => lenient.decode(join(pieces))
