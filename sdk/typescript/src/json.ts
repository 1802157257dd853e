// JSON without losing digits: JSON.parse makes 2^63-1 another number, and JSON.stringify refuses a bigint. In between, a bigint is a string
// that begins with a random text of this process, so that no real string is taken for one.
const mark = crypto.randomUUID() + ':'
const marked = new RegExp(`"${mark}(-?\\d+)"`, 'g')

/** A number of 16 digits or more where a value can stand. Ids are strings, so answers seldom have one. */
const mayBeLong = /(?:^|[:,[])\s*-?\d{16}/
const stringsAndNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g

const isLong = (token: string) => token.length >= 16 && /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token))

/** Reads JSON. Whole numbers that a number cannot hold become bigints. */
export function read<T>(text: string): T {
  if (!mayBeLong.test(text)) return JSON.parse(text) as T
  JSON.parse(text) // an error then names the original text
  const safe = text.replace(stringsAndNumbers, (token) => (token[0] !== '"' && isLong(token) ? `"${mark}${token}"` : token))
  return JSON.parse(safe, (_, value: unknown) => (typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value)) as T
}

/** Writes JSON. A bigint becomes a whole number. */
export function write(value: unknown): string {
  try {
    return JSON.stringify(value) // most values have no bigint, and need no look at every field
  } catch {
    return JSON.stringify(value, (_, v: unknown) => (typeof v === 'bigint' ? mark + String(v) : v)).replace(marked, '$1')
  }
}

export const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether a value is a list of objects. */
export const isList = (value: unknown): boolean => Array.isArray(value) && value.every(isObject)
