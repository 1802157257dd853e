import { useLayoutEffect, useRef } from 'preact/hooks'
import type { RefObject } from 'preact'

/** From this many rows on, the browser skips those that are out of view. */
const long = 200

/**
 * Keeps the widths that the columns of a long table get when it is laid out as a table. With fixed widths each row is laid out by itself,
 * and the browser skips rows that are out of view; in a plain table, one changed number lays out and paints all rows. The widths are taken
 * again when the room or the list changes; a text that has grown since then wraps.
 */
export function useWidths(rows: number, listed: string): RefObject<HTMLTableElement | null> {
  const isLong = rows >= long
  const table = useRef<HTMLTableElement>(null)
  useLayoutEffect(() => {
    const t = table.current
    if (!t || !isLong) return
    let room = -1
    const watch = new ResizeObserver(() => {
      if (t.parentElement!.clientWidth === room) return
      room = t.parentElement!.clientWidth
      t.dataset.long = 'table'
      const widths = [...t.tHead!.rows[0]!.cells].filter((cell) => cell.checkVisibility()).map((cell) => `${cell.getBoundingClientRect().width}px`)
      t.style.setProperty('--columns', widths.join(' '))
      t.dataset.long = 'rows'
    })
    watch.observe(t.parentElement!)
    return () => { watch.disconnect(); delete t.dataset.long }
  }, [isLong, listed])
  return table
}
