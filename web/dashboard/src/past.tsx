import { useMemo } from 'preact/hooks'
import { averaged, calmStep } from './calm'
import { useLive, type Live } from './live'
import { queuePath } from './api'
import { duration, moment } from './format'
import { queue, refine, route } from './state'
import { series } from './stream'
import type { Series } from './types'

const minute = 60
const day = 86_400

/** How far back a chart goes: as the address has it, in words, in seconds. */
const spans = [['10m', '10 min', 10 * minute], ['1h', '1 h', 60 * minute], ['6h', '6 h', 360 * minute], ['24h', '24 h', day], ['7d', '7 d', 7 * day], ['30d', '30 d', 30 * day]] as const

/** The rings that the server keeps: from step to step, and how far back. */
const rings = [['second', 10 * minute], ['minute', day], ['hour', 30 * day]] as const

export interface Past {
  /** The series as it is drawn: averages where there are more points than the eye can tell apart. */
  of: Series | undefined
  /** The series as it was measured. */
  raw: Series | undefined
  read: Live<Series>
  /** In seconds. */
  from: number
  to: number
  /** How many seconds back it goes. */
  within: number
  /** When the history begins, in words, if that is within the chosen time. */
  begins: string | undefined
  /** The meaning of a point of the drawn series, in words. */
  point: string
  /** The step of the server's points: a second, a minute or an hour. */
  step: string
}

/** The part of the past that the address names, from the finest ring that has all of it. The last ten minutes are those of the stream. */
export function usePast(): Past {
  const q = route.value.query
  const now = (series.value.at.at(-1) ?? 0) / 1000
  const span = spans.find(([name]) => name === q.get('range')) ?? spans[0]
  const [zoomFrom, zoomTo] = [Number(q.get('from')), Number(q.get('to'))]
  const zoomed = zoomFrom > 0 && zoomTo > zoomFrom
  const from = zoomed ? zoomFrom : now - span[2]
  const [step] = rings.find(([, back]) => now - from <= back + 1) ?? rings[2]
  const read = useLive<Series>(step !== 'second' && now > 0 ? `${queuePath(queue.value)}/timeseries?step=${step}` : '', 30)
  const raw = step === 'second' ? series.value : read.data
  const first = (raw?.at[0] ?? 0) / 1000
  const begin = zoomed ? from : Math.max(from, Math.min(first, now - (step === 'second' ? minute : 5 * minute)))
  const begins = first > from + 2 * minute ? `history begins at ${moment(first * 1000)}` : undefined
  const to = zoomed ? zoomTo : now
  const seconds = calmStep(to - begin)
  const of = useMemo(() => raw && averaged(raw, seconds), [raw, seconds])
  const point = of === raw ? `a point ${step === 'hour' ? 'an' : 'a'} ${step}` : `each point is the average of ${duration(seconds)}`
  return { of, raw, read, begins, from: begin, to, within: now - from, point, step }
}

/** Chooses how far back the charts of a page go. */
export function PastPicker() {
  const q = route.value.query
  const span = q.get('range') ?? spans[0][0]
  const zoomed = Number(q.get('to')) > 0
  return (
    <span class="seg" role="group" aria-label="How far back">
      {spans.map(([name, text]) => <button key={name} aria-pressed={!zoomed && span === name} onClick={() => refine({ range: name === spans[0][0] ? undefined : name, from: undefined, to: undefined })}>{text}</button>)}
      {zoomed && <button aria-pressed="true" onClick={() => refine({ from: undefined, to: undefined })}>zoomed ×</button>}
    </span>
  )
}

/** Shows the time between two moments, in seconds. */
export const zoom = (from: number, to: number) => refine({ from: String(Math.floor(from)), to: String(Math.ceil(to)) })
