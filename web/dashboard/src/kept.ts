/** The value that was just read, with each unchanged part replaced by the old object. A comparison by identity then finds only the
 * changes. */
export function kept<T>(old: unknown, now: T): T {
  if (old === now || !isObject(old) || !isObject(now) || Array.isArray(old) !== Array.isArray(now)) return now
  const is: Record<string, unknown> = now
  const names = Object.keys(is)
  let same = names.length === Object.keys(old).length
  for (const name of names) {
    is[name] = kept(old[name], is[name])
    same &&= is[name] === old[name]
  }
  return same ? (old as T) : now
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null
