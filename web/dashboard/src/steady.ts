import { useRef, useState } from 'preact/hooks'
import { kept } from './kept'

export interface Steady<T> {
  rows: { id: string; item: T; gone: boolean }[]
  /** How many items are new and not shown yet. */
  fresh: number
  show: () => void
  hold: { onPointerEnter: () => void; onPointerLeave: () => void }
}

/**
 * Keeps the order of a list that is read again and again, while the pointer is over it, or something in it is held otherwise (chosen, or
 * marked by the keyboard): rows change in place, those that are gone stay and are marked, and new ones are counted until show lets them in.
 * A list of another scope (other filters, another page) is shown as it is.
 */
export function useSteady<T>(list: T[] | undefined, id: (item: T) => string, scope: string, held: boolean): Steady<T> {
  const over = useRef(false)
  const asked = useRef(false)
  const shown = useRef<{ scope: string; items: Map<string, T>; read: T[] | undefined }>({ scope: '', items: new Map(), read: undefined })
  const [, again] = useState(0)
  const last = useRef(new Map<string, T>())
  const next = new Map((list ?? []).map((item) => [id(item), kept(last.current.get(id(item)), item)]))
  last.current = next
  if (shown.current.scope !== scope || !(over.current || held) || asked.current || shown.current.items.size === 0) shown.current = { scope, items: next, read: list }
  else if (list && list !== shown.current.read) shown.current = { scope, read: list, items: new Map([...shown.current.items].map(([k, old]) => [k, next.get(k) ?? old])) }
  asked.current = false
  const rows = [...shown.current.items].map(([k, item]) => ({ id: k, item, gone: list !== undefined && !next.has(k) }))
  const release = () => {
    over.current = false
    again((n) => n + 1)
  }
  const show = () => {
    asked.current = true
    again((n) => n + 1)
  }
  return {
    rows, show,
    fresh: [...next.keys()].filter((k) => !shown.current.items.has(k)).length,
    hold: { onPointerEnter: () => { over.current = true }, onPointerLeave: release },
  }
}
