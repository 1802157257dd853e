import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Problem, call, keyPath, valueOf, valueText } from './api'
import { MarkRow, useChanges } from './changes'
import { exact, percent, short, shown } from './format'
import { Failed, Width, atLimit } from './parts'
import { dark, queue, valueLink } from './state'
import { starts } from './stream'
import { Clamp } from './text'
import type { KeyFrame, KeySeries, MetaValue, ValueCount } from './types'

const cells = 120
const stepMs = 5000
const shownMs = cells * stepMs

interface Row { value: MetaValue; cells: number[]; step: number }

/** The chunks in flight of a key's values, or of one value, now and over the last ten minutes. Rows keep their place while the pointer is
 * over them. */
export function Heat({ frame, at, rows: most, only, target }: { frame: KeyFrame; at: string; rows: number; only?: ValueCount; /** The target of the marks in the audit log; without it, all of the queue. */ target?: string }) {
  const rows = useRef(new Map<string, Row>())
  const [loaded, setLoaded] = useState(0)
  const [problem, setProblem] = useState<Problem>()
  const [order, setOrder] = useState<string[]>([])
  const over = useRef(false)
  const ordered = useRef(0)
  const name = queue.value
  const changes = useChanges(shownMs / 1000, target)

  useEffect(() => {
    const ended = new AbortController()
    call<KeySeries>('GET', `${keyPath(name, frame.key)}/timeseries`, undefined, {}, ended.signal).then((got) => {
      rows.current = new Map(got.values.map((v) => [valueText(v.value), { value: v.value, cells: v.in_flight, step: got.ends ? Date.parse(got.ends) / stepMs - 1 : 0 }]))
      setProblem(undefined)
      setLoaded((n) => n + 1)
    }).catch((p) => { if (!ended.signal.aborted) setProblem(p) })
    return () => ended.abort()
  }, [name, frame.key, starts.value])

  const step = Math.floor(Date.parse(at) / stepMs)
  const blind = frame.rest.in_flight > 0 || !frame.whole
  const now = new Map(frame.top.map((v) => [valueText(v.value), v]))
  if (only) now.set(valueText(only.value), only)
  useLayoutEffect(() => { // like all that follows a frame here: an effect after the paint would draw the page twice
    for (const [key, v] of now) {
      if (v.in_flight > 0 && !rows.current.has(key)) rows.current.set(key, { value: v.value, cells: new Array<number>(cells).fill(blind ? -1 : 0), step })
    }
    for (const [key, row] of rows.current) {
      const v = now.get(key)
      const n = v ? v.in_flight : blind ? -1 : 0
      for (; row.step < step; row.step++) row.cells = [...row.cells.slice(1), -1]
      row.cells[cells - 1] = Math.max(row.cells[cells - 1] ?? -1, n)
      if (row.cells.every((c) => c <= 0) && !now.has(key)) rows.current.delete(key)
    }
  }, [at, loaded])

  useLayoutEffect(() => {
    if (over.current || (ordered.current === step && order.length > 0)) return
    ordered.current = step
    const busy = (key: string) => rows.current.get(key)?.cells.reduce((a, c) => a + Math.max(0, c), 0) ?? 0
    // Where a frame names only some values, the present numbers of the others are not known.
    const all = only ? [valueText(only.value)] : [...new Set([...now.keys(), ...(blind ? [] : rows.current.keys())])]
    setOrder(all.map((key) => [key, busy(key)] as const).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, most).map(([key]) => key))
  }, [at, loaded, frame.key])

  if (problem) return <Failed problem={problem} />
  const peak = Math.max(1, ...order.map((key) => Math.max(0, ...(rows.current.get(key)?.cells ?? []))))
  return (
    <div class="strip" onPointerEnter={() => { over.current = true }} onPointerLeave={() => { over.current = false }}>
      <MarkRow items={changes} from={(step + 1) * stepMs - shownMs} to={(step + 1) * stepMs} />
      {order.map((key) => {
        const v = now.get(key)
        return <Strip key={key} of={frame.key} row={rows.current.get(key)} v={v} name={v?.value ?? rows.current.get(key)?.value ?? valueOf(key)} peak={peak} blind={blind} />
      })}
    </div>
  )
}

function Strip({ of, row, v, name, peak, blind }: { of: string; row: Row | undefined; v: ValueCount | undefined; name: MetaValue; peak: number; blind: boolean }) {
  const limit = v?.limit ?? null
  const inFlight = v?.in_flight ?? (blind ? row?.cells.findLast((n) => n >= 0) : 0) ?? 0 // as last seen, until the rows are put in order again
  const canvas = useRef<HTMLCanvasElement>(null)
  useLayoutEffect(() => { if (canvas.current && row) paint(canvas.current, row.cells, limit ?? peak, limit) }, [row?.cells.join(), limit ?? peak, limit, dark.value])
  const text = limit === null ? exact(inFlight) : `${exact(inFlight)} / ${exact(limit)}`
  return (
    <>
      <span class="val"><Clamp text={shown(name)} most={13} href={valueLink(of, valueText(name))} /></span>
      <canvas ref={canvas} width="720" height="32" aria-hidden="true" />
      <div class="gauge">
        <div class={v && atLimit(v) ? 'bar sat' : 'bar'} aria-hidden="true"><Width of="reserved" share={percent(inFlight, limit ?? peak)} /></div>
        <b title={v ? `${exact(v.ready)} ready` : ''}>{limit === null ? short(inFlight) : `${short(inFlight)} / ${short(limit)}`}<span class="sr"> in flight: {text}{v && atLimit(v) ? ', at its limit' : ''}</span></b>
      </div>
    </>
  )
}

function paint(canvas: HTMLCanvasElement, values: number[], full: number, limit: number | null) {
  const g = canvas.getContext('2d')!
  const css = getComputedStyle(document.documentElement)
  const [unknown, empty, held, edge] = ['line-strong', 'sunken', 'reserved', 'dead'].map((name) => css.getPropertyValue('--' + name).trim()) as [string, string, string, string]
  const width = canvas.width / cells
  g.clearRect(0, 0, canvas.width, canvas.height)
  values.forEach((n, i) => {
    const x = i * width
    g.globalAlpha = 1
    if (n < 0) { // not known: a dot in the middle, not an empty cell
      g.fillStyle = unknown
      g.fillRect(x + width / 2 - 1, canvas.height / 2 - 1, 2, 2)
      return
    }
    g.fillStyle = empty
    g.fillRect(x, 0, width - 1.5, canvas.height)
    if (n === 0) return
    g.fillStyle = held
    g.globalAlpha = 0.18 + 0.82 * Math.min(1, n / Math.max(1, full))
    g.fillRect(x, 0, width - 1.5, canvas.height)
    if (limit !== null && n >= limit) { // at the limit: not by colour alone
      g.globalAlpha = 1
      g.fillStyle = edge
      g.fillRect(x, 0, width - 1.5, 4)
    }
  })
}
