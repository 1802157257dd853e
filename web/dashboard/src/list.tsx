import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { exact } from './format'
import { useSteady } from './steady'

export interface Column { name: string; right?: boolean; title?: string; hidden?: boolean }

interface Props<T> {
  /** What is listed, for those who hear the page. */
  name: string
  items: T[] | undefined
  id: (item: T) => string
  /** Changes when other things are listed, so that what was there need not stay. */
  scope: string
  columns: Column[]
  cells: (item: T) => VNode[]
  /** The address that Enter opens. */
  open?: ((item: T) => string) | undefined
  chosen?: Set<string> | undefined
  choose?: ((ids: Set<string>) => void) | undefined
  /** Whether this list of the page is the one that j, k, x and Enter are for. */
  keys?: boolean
  marked?: string | undefined
  children?: ComponentChildren
}

/** A table that stays under the pointer: numbers change in place, rows do not move, and new ones wait behind a button. */
export function List<T>(p: Props<T>) {
  const [at, setAt] = useState('')
  const { chosen, choose } = p
  const list = useSteady(p.items, p.id, p.scope, at !== '' || (chosen?.size ?? 0) > 0)
  const body = useRef<HTMLTableSectionElement>(null)
  const last = useRef('')
  /** Chooses a row or leaves it out; with shift, all rows from the one before it on become as it becomes. */
  const toggle = (id: string, shift = false) => {
    const next = new Set(chosen)
    const on = !next.has(id)
    const ids = list.rows.map((r) => r.id)
    const [from, to] = [ids.indexOf(shift ? last.current : id), ids.indexOf(id)].sort((a, b) => a - b) as [number, number]
    for (const one of from < 0 ? [id] : ids.slice(from, to + 1)) on ? next.add(one) : next.delete(one)
    last.current = id
    choose?.(next)
  }
  const state = useRef({ list, at, p, toggle })
  state.current = { list, at, p, toggle }
  useEffect(() => {
    if (p.keys === false) return
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]') || (e.target instanceof HTMLElement && e.target.matches('input:not([type=checkbox]), select, textarea'))) return
      const { list: { rows }, at: on, p: now, toggle: flip } = state.current
      const place = rows.findIndex((r) => r.id === on)
      const row = rows[place]
      if (e.key === 'j' || e.key === 'k') {
        const next = rows[e.key === 'j' ? Math.min(rows.length - 1, place + 1) : Math.max(0, place - 1)]
        if (next) setAt(next.id)
      } else if ((e.key === 'x' || e.key === 'X') && row && now.choose) flip(row.id, e.key === 'X')
      else if (e.key === 'n') state.current.list.show()
      else if (e.key === 'Escape' && on) setAt('')
      else if (e.key === 'Enter' && row && now.open && !(e.target instanceof HTMLElement && e.target.matches('button, a, [role=button]'))) location.hash = now.open(row.item)
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [p.keys])
  useEffect(() => { body.current?.querySelector('[data-at]')?.scrollIntoView({ block: 'nearest' }) }, [at])
  const all = list.rows.length > 0 && list.rows.every((r) => chosen?.has(r.id))
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={p.name} {...list.hold}>
      {list.fresh > 0 && <button class="pill" onClick={list.show}>{exact(list.fresh)} new</button>}
      <table>
        <caption class="sr">{p.name}</caption>
        <thead><tr>
          {choose && <th class="pick"><input type="checkbox" aria-label="Choose all that are shown" checked={all} onChange={() => choose(all ? new Set() : new Set(list.rows.map((r) => r.id)))} /></th>}
          {p.columns.map((c) => <th key={c.name} class={c.right ? 'r' : undefined} title={c.title}>{c.hidden ? <span class="sr">{c.name}</span> : c.name}</th>)}
        </tr></thead>
        <tbody ref={body}>{list.rows.map((r) => (
          <tr key={r.id} data-on={r.id === at || r.id === p.marked || undefined} data-at={r.id === at || undefined} data-gone={r.gone || undefined} title={r.gone ? 'no longer in this list' : undefined}>
            {choose && <td class="pick"><input type="checkbox" aria-label={`Choose ${r.id}`} checked={chosen?.has(r.id) ?? false} onClick={(e) => toggle(r.id, e.shiftKey)} /></td>}
            {p.cells(r.item)}
          </tr>
        ))}</tbody>
      </table>
    </div>
  )
}
