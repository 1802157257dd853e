import type { MetaValue, StrategyJSON } from './types'

/** A block of a strategy as the tree editor has it: always an object, with its inner blocks always in `inner`. */
export interface Block {
  type: string
  meta_field?: string; value?: MetaValue; values?: unknown; max?: number | string | null; per?: string; burst?: number | null; cost?: string
  name?: string; version?: string; config?: unknown; window?: number | null; explore?: number | null; expression?: string; missing?: string
  inner: Block[]
}

export const orders = ['random', 'oldest_first', 'newest_first', 'custom_priority'] as const
export const wrappers = ['select_only', 'select_any', 'except', 'max_simultaneous', 'max_rate', 'prefer_distinct', 'fair', 'plugin', 'score', 'or_else'] as const

/** The name that the text form has: SelectOnly for select_only. */
export const blockName = (type: string) => type.split('_').map((w) => w[0]!.toUpperCase() + w.slice(1)).join('')

export function fromJSON(w: StrategyJSON): Block {
  if (typeof w === 'string') return { type: w, inner: [] }
  const { type, underlying, branches, try_first, fallback, ...fields } = w
  const inner = underlying !== undefined ? [underlying] : (branches ?? [try_first, fallback].filter((b) => b !== undefined))
  return { type, ...fields, inner: inner.map(fromJSON) }
}

export function toJSON({ type, inner, ...fields }: Block): StrategyJSON {
  if (inner.length === 0) return Object.keys(fields).length === 0 ? type : { type, ...fields }
  return type === 'or_else' ? { type, branches: inner.map(toJSON) } : { type, ...fields, underlying: toJSON(inner[0]!) }
}

/** The JSON pointer of an inner block, in the JSON of toJSON. */
export const innerPointer = (b: Block, at: string, i: number) => (b.type === 'or_else' ? `${at}/branches/${i}` : `${at}/underlying`)

/** A pointer into the server's JSON, as one into the JSON of toJSON. */
export const asSent = (pointer: string) => pointer.replaceAll('/try_first', '/branches/0').replaceAll('/fallback', '/branches/1')

const fresh: Record<string, Omit<Block, 'type' | 'inner'>> = {
  select_only: { meta_field: '', value: '' }, select_any: { meta_field: '', values: [''] }, except: { meta_field: '', values: [''] }, max_simultaneous: { meta_field: '', max: 5 }, max_rate: { meta_field: '', max: 100, per: '1m' }, prefer_distinct: { meta_field: '', max: 1 },
  fair: { meta_field: '' }, plugin: { name: '' }, score: { expression: 'priority' },
}

/** A block of a type around another. Its meta field, if it has one, is `key`. */
export function wrap(type: string, inner: Block, key: string): Block {
  const fields = fresh[type] ?? {}
  return { type, ...fields, ...('meta_field' in fields ? { meta_field: key } : {}), inner: type === 'or_else' ? [inner, { type: 'oldest_first', inner: [] }] : [inner] }
}

/** The same block with another type: its inner blocks stay, and so does the key. */
export function retype(b: Block, type: string, key: string): Block {
  if ((orders as readonly string[]).includes(type)) return { type, inner: [] }
  const within = b.inner[0] ?? b
  const next = wrap(type, within, b.meta_field ?? key)
  if (type === 'or_else' && b.inner.length > 1) return { ...next, inner: b.inner }
  if (Array.isArray(b.values) && next.value !== undefined && b.values.length > 0) return { ...next, value: b.values[0] as MetaValue }
  if (next.values && b.values !== undefined) return { ...next, values: b.values }
  if (next.values && b.value !== undefined) return { ...next, values: [b.value] }
  return b.max != null && 'max' in next && (typeof b.max === 'number' || type === 'max_simultaneous') ? { ...next, max: b.max } : next
}

/** The tree with the block at a path replaced or removed. A removed alternative of two leaves only the other; a removed wrapper leaves its
 * inner block. */
export function replace(root: Block, path: number[], by: Block | null): Block {
  const [i, ...rest] = path
  if (i === undefined) return by ?? root.inner[0] ?? { type: 'oldest_first', inner: [] }
  if (rest.length > 0 || by || root.inner[i]!.inner.length > 0) {
    const inner = root.inner.map((b, n) => (n === i ? replace(b, rest, by) : b))
    return { ...root, inner }
  }
  if (root.type !== 'or_else') return { ...root, inner: [{ type: 'oldest_first', inner: [] }] }
  const left = root.inner.filter((_, n) => n !== i)
  return left.length === 1 ? left[0]! : { ...root, inner: left }
}

/** An OrElse with two of its alternatives in each other's place. */
export function swap(b: Block, i: number, j: number): Block {
  const inner = [...b.inner]
  ;[inner[i], inner[j]] = [inner[j]!, inner[i]!]
  return { ...b, inner }
}
