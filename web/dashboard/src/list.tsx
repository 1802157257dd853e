import { Component, cloneElement, type ComponentChildren, type Ref, type VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { exact } from './format'
import { useSteady } from './steady'
import { useWidths } from './widths'

export interface Column { name: string; right?: boolean; title?: string; hidden?: boolean; age?: boolean /* of times that grow: it has room for the longest, so that no tick moves the table */; wide?: boolean /* only where there is room */ }

interface Line {
  id: string
  /** A cell for each column, or one for all of them. */
  cells: () => VNode[]
  /** The cell before the first: the box that chooses the row. */
  pick?: VNode | undefined
  /** All values that the row shows. While each stays the same, the row is not rendered; without `shows`, it is rendered with the table. */
  shows?: unknown[] | undefined
  on?: boolean
  at?: boolean
  gone?: boolean
}

/**
 * Every table of rows. The browser skips the rows of a long table that are out of view. The first column and that of the actions stay in
 * sight while the others are scrolled; on a narrow screen a row is a card, on which each value has the name of its column.
 */
export function Table({ name, scope = name, columns, lines, pick, body, children, ...rest }: {
  /** The name of the list, for screen readers. */
  name: string
  /** Changes when other things are listed. */
  scope?: string
  columns: Column[]
  lines: Line[]
  pick?: VNode | undefined
  body?: Ref<HTMLTableSectionElement>
  children?: ComponentChildren
} & Record<`on${string}`, unknown>) {
  const table = useWidths(lines.length, scope)
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={name} {...rest}>
      {children}
      <table class="list" role="table" ref={table}>
        <caption class="sr">{name}</caption>
        <thead role="rowgroup"><tr role="row">
          {pick && <th class="pick" role="columnheader">{pick}</th>}
          {columns.map((c, i) => <th key={c.name} role="columnheader" class={[c.right && 'r', i === 0 && 'first', c.hidden && 'acts', c.wide && 'wide', c.age && 'age'].filter(Boolean).join(' ') || undefined} title={c.title}>{c.hidden ? <span class="sr">{c.name}</span> : c.name}</th>)}
        </tr></thead>
        <tbody ref={body ?? null} role="rowgroup">{lines.map((l) => <Row key={l.id} line={l} columns={columns} />)}</tbody>
      </table>
    </div>
  )
}

class Row extends Component<{ line: Line; columns: Column[] }> {
  /** A signal that the row's cells read sets another state. */
  override shouldComponentUpdate({ line }: { line: Line }, state: unknown) {
    const was = this.props.line.shows
    return state !== this.state || !was || !line.shows || line.shows.some((v, i) => v !== was[i])
  }

  override render({ line: l, columns }: { line: Line; columns: Column[] }) {
    const named = (cell: VNode, i: number) => {
      const c = columns[i]
      const { class: own, colSpan } = cell.props as { class?: string; colSpan?: number }
      return cloneElement(cell, { key: i, role: 'cell', ...(colSpan ? { style: { '--column': i + (l.pick ? 2 : 1) } } : { 'data-label': c?.hidden ? undefined : c?.name, class: [own, i === 0 && 'first', c?.hidden && 'acts'].filter(Boolean).join(' ') || undefined }) })
    }
    return (
      <tr role="row" data-on={l.on || undefined} data-at={l.at || undefined} data-gone={l.gone || undefined} title={l.gone ? 'no longer in this list' : undefined}>
        {l.pick && <td class="pick" role="cell">{l.pick}</td>}
        {l.cells().map(named)}
      </tr>
    )
  }
}

interface Props<T> {
  name: string
  items: T[] | undefined
  id: (item: T) => string
  /** Changes when other things are listed, so that the old rows need not stay. */
  scope: string
  columns: Column[]
  cells: (item: T) => VNode[]
  /** The other values that the cells show, besides the item and signals. With it, a row is rendered again only when one of these values has
   * changed. */
  besides?: unknown[]
  /** The address that Enter opens. */
  open?: ((item: T) => string) | undefined
  chosen?: Set<string> | undefined
  choose?: ((ids: Set<string>) => void) | undefined
  /** Whether the keys j, k, x and Enter work on this list of the page. */
  keys?: boolean
  marked?: string | undefined
  /** Whether something of the list is in hand otherwise, so that its rows stay: one of them is being changed. */
  held?: boolean
}

/** A table that stays under the pointer: numbers change in place, rows do not move, and new ones wait behind a button. */
export function List<T>(p: Props<T>) {
  const [at, setAt] = useState('')
  const { chosen, choose } = p
  const list = useSteady(p.items, p.id, p.scope, at !== '' || (chosen?.size ?? 0) > 0 || p.held === true)
  const body = useRef<HTMLTableSectionElement>(null)
  const last = useRef('')
  /** Selects a row or clears it; with shift, all rows since the last click get the same state. */
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
    <Table name={p.name} scope={p.scope} columns={p.columns} body={body} {...list.hold}
      pick={choose && <input type="checkbox" aria-label="Select all shown" checked={all} onChange={() => choose(all ? new Set() : new Set(list.rows.map((r) => r.id)))} />}
      lines={list.rows.map((r) => {
        const looks = { on: r.id === at || r.id === p.marked, at: r.id === at, gone: r.gone }
        const isChosen = chosen?.has(r.id) ?? false
        return {
          id: r.id, ...looks, cells: () => p.cells(r.item), shows: p.besides && [r.item, ...Object.values(looks), choose && isChosen, ...p.besides],
          pick: choose && <input type="checkbox" aria-label={`Choose ${r.id}`} checked={isChosen} onClick={(e) => state.current.toggle(r.id, e.shiftKey)} />,
        }
      })}>
      {list.fresh > 0 && <button class="pill" onClick={list.show}>{exact(list.fresh)} new</button>}
    </Table>
  )
}
