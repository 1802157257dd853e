import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { dates, short } from './format'
import { dark } from './state'

/** `now` is its newest value: the last of `values` may be an average. */
export interface Line { name: string; of: string; values: number[]; now: number; fill?: boolean; cut?: boolean }

/** The top of the scale. One large insert may be a thousand times the throughput, and must not flatten the other lines. */
function top(lines: Line[]): number {
  const highest = (of: Line[]) => Math.max(1, ...of.flatMap((l) => l.values))
  const kept = highest(lines.filter((l) => !l.cut))
  return kept > 1 ? Math.min(highest(lines), kept * 1.5) : highest(lines)
}

/** Whether a line goes beyond the scale. */
export const isCut = (line: Line, lines: Line[]) => line.cut === true && Math.max(0, ...line.values) > top(lines) * 1.08

/** Half of the shortest time that a chart shows, in seconds. */
const leastZoom = 5

const token = (name: string) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()

/** Draws moments as dashed lines from top to bottom. */
function drawMarks(u: uPlot, marks: number[]) {
  const { ctx, bbox } = u
  ctx.save()
  ctx.strokeStyle = token('ink-2')
  ctx.lineWidth = devicePixelRatio
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio])
  for (const at of marks) {
    const x = Math.round(u.valToPos(at, 'x', true)) + (devicePixelRatio % 2) / 2 // in the middle of a pixel it is sharp
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
  }
  ctx.restore()
}

/** A moment as an axis that shows this many seconds has it. */
const [day, minute, second] = [dates({ day: 'numeric', month: 'short' }), dates({ hour: '2-digit', minute: '2-digit' }), dates({ hour: '2-digit', minute: '2-digit', second: '2-digit' })]
const clock = (at: number, span: number) => (span > 2 * 86_400 ? day : span < 300 ? second : minute)(at * 1000)

/** Lines over time, and marks at moments, in seconds. Canvas is not readable by everybody, so the newest values and the marks stand beside it in words. */
export function Chart({ at, lines, marks, name, from, to, zoom }: { at: number[]; lines: Line[]; marks: number[]; name: string; from: number; to: number; zoom: (from: number, to: number) => void }) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const data = () => [at.map((t) => t / 1000), ...lines.map((l) => l.values)] as uPlot.AlignedData
  const range = useRef<[number, number]>([from, to])
  range.current = [from, to]
  const high = useRef(1)
  high.current = top(lines)
  const marked = useRef(marks)
  marked.current = marks
  useEffect(() => {
    const box = place.current!
    const axis: uPlot.Axis = { stroke: token('ink-3'), grid: { stroke: token('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' }
    const values: uPlot.Axis.Values = (_, splits) => splits.map((s) => clock(s, range.current[1] - range.current[0]))
    plot.current = new uPlot({
      width: box.clientWidth, height: box.clientHeight, legend: { show: false }, cursor: { drag: { x: true, y: false, setScale: false } },
      scales: { x: { range: () => range.current }, y: { range: () => [0, high.current * 1.08] } },
      axes: [{ ...axis, values, space: 80, size: 28, grid: { show: false } }, { ...axis, size: 52, space: 44, values: (_, splits) => splits.map((n) => short(n)) }],
      hooks: { draw: [(u) => drawMarks(u, marked.current)], setSelect: [(u) => { if (u.select.width > 4) zoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')); u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false) }] },
      series: [{}, ...lines.map((l) => ({ label: l.name, stroke: token(l.of), width: 1.6, points: { show: false }, ...(l.fill ? { fill: token(l.of) + '22' } : {}) }))],
    }, data(), box)
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height: box.clientHeight }))
    watch.observe(box)
    return () => { watch.disconnect(); plot.current?.destroy(); plot.current = null }
  }, [dark.value, lines.map((l) => l.of).join()])
  useLayoutEffect(() => { plot.current?.setData(data()) }, [at, lines, marks.join(), from, to])
  /** Plus and minus zoom in and out; the arrows move along the time. */
  const press = (e: KeyboardEvent) => {
    const [from, to] = range.current
    const [middle, half] = [(from + to) / 2, (to - from) / 2]
    const by: Record<string, [number, number]> = { '+': [middle, half / 2], '=': [middle, half / 2], '-': [middle, half * 2], ArrowLeft: [middle - half / 2, half], ArrowRight: [middle + half / 2, half] }
    const next = by[e.key]
    if (!next || e.ctrlKey || e.metaKey || e.altKey) return
    e.preventDefault()
    if (next[1] >= leastZoom) zoom(next[0] - next[1], Math.min(next[0] + next[1], Date.now() / 1000))
  }
  const now = lines.map((l) => `${l.name} ${short(l.now)}`).join(', ')
  return <div class="chart" ref={place} role="img" tabIndex={0} onKeyDown={press} aria-keyshortcuts="+ - ArrowLeft ArrowRight" aria-label={`${name}. Now: ${now}`} />
}
