import { write } from './json'
import type { Meta, MetaValue } from './types'

const whole = new Intl.NumberFormat('en-US')
const tenths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 })

/** A count with all its digits. */
export const exact = (n: number) => whole.format(n)

/** A text of the server that is for programs, too, with its numbers as people read them. Ids, times and code stay. */
export const grouped = (text: string) => text.replace(/(?<![\w.,:/=-])\d{4,12}(?![\w:/-]|\.\d)/g, (n) => exact(Number(n)))

/** A count with its noun, as in 1 chunk and 1,234 chunks. A text that has both takes them from here. */
export const amount = (n: number, one: string, many = `${one}s`, write = exact) => `${write(n)} ${n === 1 ? one : many}`

/** A queue as people name it: a shard of one by its number. */
export function queueName(name: string): string {
  const [whole = '', shard] = name.split('~')
  return shard === undefined ? name : `${whole}, shard ${shard}`
}

/** A count as people read it: 9,999, then 12.3 k, 98.4 M, 1.2 G. One that is rounded up to 1,000 k is 1.0 M. */
export function short(n: number): string {
  if (n < 10_000) return n % 1 && n < 100 ? n.toFixed(1) : whole.format(Math.round(n))
  for (const [unit, size] of [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]] as const) {
    if (n < 0.9995 * size) continue
    const scaled = n / size
    return `${scaled < 99.95 ? tenths.format(scaled) : whole.format(Math.round(scaled))} ${unit}`
  }
  return String(n)
}

/** Seconds as 3m 12s: the two largest units. */
export function duration(seconds: number): string {
  if (seconds < 1) return seconds <= 0 ? '0s' : '<1s'
  let left = Math.round(seconds)
  const parts: string[] = []
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]] as const) {
    const n = Math.floor(left / size)
    left -= n * size
    if (n > 0 || parts.length > 0) parts.push(`${n}${unit}`)
    if (parts.length === 2) break
  }
  return parts.filter((p, i) => i === 0 || !p.startsWith('0')).join(' ')
}

export function bytes(n: number): string {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]] as const) if (n >= 0.99996 * size) return `${tenths.format(n / size)}\u00a0${unit}`
  return `${n}\u00a0B`
}

export const percent = (part: number, of: number) => (of > 0 ? (100 * part) / of : 0)

/** Writes moments as the reader has them. Making a format takes a thousand times as long as using it. */
export function dates(options: Intl.DateTimeFormatOptions): (at: string | number) => string {
  const format = new Intl.DateTimeFormat(undefined, { ...options, hourCycle: 'h23' })
  return (at) => format.format(new Date(at))
}

/** A moment in the reader's time zone. */
export const moment = dates({ dateStyle: 'medium', timeStyle: 'medium' })

/** A sentence of the server with its moments in the reader's time zone. */
export const local = (text: string) => text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, moment)

/** The name of the key by which values are counted. Strategies write that of submissions with a $. */
export const keyName = (key: string) => (key === '$submission' ? 'submission' : key)

/** A meta value as people read it: text that looks like a number, or whose ends or lines would not be seen, is quoted. */
export const shown = (v: MetaValue) => (typeof v !== 'string' ? String(v) : v === '' || /^[+-]?\d+$|^\s|\s$|[\t\n\r]/.test(v) ? write(v) : v)

/**
 * Characters that are invisible, or reverse the text beside them: direction marks and overrides (U+202E and its kin), controls, fillers,
 * tags, halves of pairs. A joiner stays where it follows a letter that is not of ASCII: there it belongs to the script.
 */
const unseen = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\p{Cs}]|(?<![^\0-\x7f])[\u200c\u200d]/gu

/** A text with such characters as escapes, so that two different names never look the same. */
export const visible = (text: string) => text.replace(unseen, (c) => (c > '\uffff' ? `\\u{${c.codePointAt(0)!.toString(16)}}` : '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')))

const letters = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
const split = (text: string) => (/[^ -~]/.test(text) ? [...letters.segment(text)].map((s) => s.segment) : [...text])

/** A text that is longer than `most` letters without its middle: names often differ at their ends. */
export function clamped(text: string, most: number): string {
  const near = 8 * most // enough for letters of several characters, and no more is looked at
  if (text.length <= most || (text.length <= near && split(text).length <= most)) return text
  const tail = Math.floor((most - 1) * 0.4)
  return split(text.slice(0, near)).slice(0, most - 1 - tail).join('') + '…' + split(text.slice(-near)).slice(-tail).join('')
}

export const metaList = (meta: Meta | undefined): [string, MetaValue][] => Object.entries(meta ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))

const units: [string, number][] = [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1000], ['ms', 1]]

/** A rate as strategies write it: 50/1m. */
export function rateText({ max, per_ms }: { max: number; per_ms: number }): string {
  const [unit, is] = units.find(([, is]) => per_ms % is === 0)!
  return `${max}/${per_ms / is}${unit}`
}

/** The inverse of rateText. */
export function rateOf(text: string): { max: number; per_ms: number } {
  const [, max, n, unit] = /^(\d+)\/(\d+)(d|h|m|s|ms)$/.exec(text) ?? []
  return { max: Number(max), per_ms: Number(n) * (units.find(([name]) => name === unit)?.[1] ?? NaN) }
}
