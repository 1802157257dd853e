/** What has just been read, with whatever of it is as before being the very thing of before: who compares by identity finds only what changed. */
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
