import { batch, computed, effect, signal, untracked } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Problem, call, keyPath, queuePath } from './api'
import { read } from './json'
import { boundTo, locked, may, who } from './session'
import { source, type Source } from './source'
import { queue, route } from './state'
import type { ConsumersFrame, KeysFrame, MetaKey, Page, Quarantined, Queue, Rates, SchedulesFrame, Series, Stats, StatsFrame, ValueCount } from './types'

/** How many points are kept: ten minutes, as in the server. A page that stays open holds no more. */
const kept = 600

export const stats = signal<StatsFrame | null>(null)
export const keys = signal<KeysFrame | null>(null)
export const series = signal<Series>(empty())
/** The server's clock, every ten seconds, for ages in the rows of a long list: with a clock of seconds, a thousand rows would be laid out
 * again each second. */
export const calmNow = computed(() => (stats.value ? Math.floor(Date.parse(stats.value.at) / 10_000) * 10_000 : 0))
/** Counts frames. Data beside the stream is read again when it grows, and never on a timer of its own. */
export const beat = signal(0)
export const frozen = signal(false)
/** Whether a frame is from after the page opened. The first may be a second old, so a list that it calls empty may have entries by now. */
export const sure = signal(false)
/** From this many seconds on, the page counts as stale. */
const late = 3
/** Seconds since the last frame if the page is stale, else 0; null before the first frame. */
export const age = signal<number | null>(null)
export const skipped = signal(0)
/** Whether the page knows the queue of the address. Until then, no page makes a call about it that the server may refuse. */
export const known = signal(false)
/** The name of the queue in the address, while there is no such queue. */
export const missing = signal('')

/** Why the queue of the address does not serve; null: it does, as far as is known. */
export const aside = signal<Quarantined | null>(null)
/** How many shards the queue of the address has, each with pages of its own; 0: it is followed as a whole, or is itself a shard. */
export const divided = signal(0)
/** The moment that times on a page are compared with: that of the last frame. A queue of several shards has no frames, so it is the browser's. 0: not known yet. */
export const momentNow = () => (stats.value ? Date.parse(stats.value.at) : divided.value > 0 ? Date.now() : 0)
/** Whether the server answers about the queue of the address, as far as is known. */
export const serves = computed(() => known.value && !missing.value && !aside.value && divided.value === 0)
/** The latest frame of a topic that a page follows; null while no page does, or before the first frame. */
export const consumers = signal<ConsumersFrame | null>(null)
export const schedules = signal<SchedulesFrame | null>(null)
const topic = signal<'consumers' | 'schedules' | ''>('')

/** Follows one more topic while the page is shown. */
export function useTopic(name: 'consumers' | 'schedules') {
  useEffect(() => {
    topic.value = name
    return () => batch(() => { topic.value = ''; consumers.value = null; schedules.value = null })
  }, [name])
}

/** Grows whenever the stream starts over, so that the pages read missed data again. */
export const starts = signal(0)

function empty(): Series {
  return { at: [], ready: [], waiting: [], reserved: [], dead: [], inserted_rate: [], reserved_rate: [], done_rate: [], failed_rate: [] }
}

/** The two as one, in order: the answer about the past may come after newer frames of the stream. */
function merge(a: Series, b: Series): Series {
  const places = [...a.at.map((at, i) => ({ at, of: a, i })), ...b.at.map((at, i) => ({ at, of: b, i }))].sort((x, y) => x.at - y.at)
  const once = places.filter((p, i) => p.at !== places[i - 1]?.at).slice(-kept)
  const out = empty()
  for (const column of Object.keys(out) as (keyof Series)[]) out[column] = once.map((p) => p.of[column][p.i]!)
  return out
}

function append(more: Series) {
  const old = series.value
  const last = old.at.at(-1) ?? 0
  if (more.at.length > 1 && (more.at[0] ?? 0) < last) {
    series.value = merge(old, more)
    return
  }
  const from = more.at.findIndex((t) => t > last)
  if (from < 0) return
  const out = empty()
  for (const column of Object.keys(out) as (keyof Series)[]) out[column] = [...old[column], ...more[column].slice(from)].slice(-kept)
  series.value = out
}

let followed: Source | null = null
let retry = 0
let lastFrame = 0
let frames = 0

/** How long a frame waits for the answers to its reads: drawing the page once for all of them costs half as much as drawing it for each. */
const gatherMs = 150

/** After how long without a touch a page is drawn only every other second: a reader from afar does not read numbers by the second. */
const calmAfterMs = 30_000
let touched = performance.now()
for (const event of ['pointermove', 'pointerdown', 'keydown', 'wheel', 'focus']) addEventListener(event, () => { touched = performance.now() }, { passive: true, capture: true })
const untouched = () => performance.now() - touched > calmAfterMs

/** Grows whenever a frame is shown. */
const drawn = signal(0)

/** Resolves when an answer may replace an earlier one on the page: with the next frame, so that the page is drawn once for both. */
export const inTurn = async () => { if (followed && stats.peek()) await nextFrame() }

/** Shows a frame: the numbers on the page are now those of its moment. */
function show(frame: StatsFrame) {
  if (++frames > 1) sure.value = true
  stats.value = frame
  aside.value = null
  document.documentElement.dataset.frame = frame.at
  age.value = 0
  drawn.value++
  append({
    at: [Date.parse(frame.at)], ready: [frame.stats.ready], waiting: [frame.stats.waiting], reserved: [frame.stats.reserved], dead: [frame.stats.dead],
    inserted_rate: [frame.rates.inserted], reserved_rate: [frame.rates.reserved], done_rate: [frame.rates.done], failed_rate: [frame.rates.failed],
  })
}

function open(name: string, more: string) {
  close()
  if (boundTo()) return // it reads everything again on a timer
  frames = 0
  if (performance.now() - lastFrame > 3000) sure.value = false // another topic only opens another stream, and the known numbers stay sure
  const src = source(name, ['stats', 'keys', ...(more ? [more] : [])])
  followed = src
  const begin = (past: Series) => batch(() => {
    append(past)
    starts.value++
  })
  src.on('series', (data) => begin(read<Series>(data)))
  src.on('past', (data) => append(read<Series>(data)))
  let first: StatsFrame | undefined
  const waiting: StatsFrame[] = []
  let last = '' // the keys of the last of them
  let timer = 0
  let asked = 0 // for how many of them the reads have begun
  const beside = new Map<string, string>() // the topics' data of the last of them
  const draw = () => batch(() => {
    if (followed !== src) return
    waiting.splice(0).forEach(show)
    asked = 0
    keys.value = read<KeysFrame>(last)
    if (beside.has('consumers')) consumers.value = read<ConsumersFrame>(beside.get('consumers')!)
    if (beside.has('schedules')) schedules.value = read<SchedulesFrame>(beside.get('schedules')!)
    beside.clear()
  })
  const gather = () => {
    if (followed !== src) return
    clearTimeout(timer)
    beat.value += waiting.length - asked
    asked = waiting.length
    timer = setTimeout(draw, stats.peek() ? gatherMs : 0) as unknown as number // the first frame waits only for events of the same turn
  }
  src.on('stats', (data) => { first = read<StatsFrame>(data) })
  src.on('keys', (data) => { // it comes right after the stats of the same moment: with both at once, a page is drawn once
    if (!first) return
    lastFrame = performance.now()
    last = data
    if (waiting.push(first) > 1 || !untouched()) gather()
    else timer = setTimeout(gather, 1500) as unknown as number
  })
  src.on('consumers', (data) => { beside.set('consumers', data) })
  src.on('schedules', (data) => { beside.set('schedules', data) })
  src.on('skipped', (data) => { skipped.value += read<{ frames: number }>(data).frames })
  src.onJoined = () => void call<Series>('GET', `${queuePath(name)}/timeseries`).then((past) => { if (followed === src) begin(past) }, () => {}) // the chart begins now
  src.onClosed = () => { if (followed === src) void look(name, more, 2000) }
}

let looks = 0

/** The rates of chunks between two looks at a queue of several shards. Counters fall when a shard restarts. */
function between(before: StatsFrame, now: Stats, at: number): Rates {
  const seconds = Math.max(1, (at - Date.parse(before.at)) / 1000)
  const rate = (name: 'inserted_total' | 'reserved_total' | 'done_total' | 'failed_total') => Math.max(0, now[name] - before.stats[name]) / seconds
  return { inserted: rate('inserted_total'), reserved: rate('reserved_total'), done: rate('done_total'), failed: rate('failed_total') }
}

/** After how long without a look the past is read again. */
const lookedAwayMs = 10_000

/** The key that the page shows by its values, where it shows one. */
const shownKey = computed(() => (route.value.page === 'keys' && route.value.rest ? route.value.rest.split('/')[0] : route.value.query.get('key')) ?? '')

/** How many values of a key are read: more than a page shows in strips. */
const mostValues = 100

/** The values of the key that is shown, and of groups, which alone have limits over several shards. Of the other keys, only the names are read. */
async function readKeys(name: string): Promise<KeysFrame> {
  const { items } = await call<Page<MetaKey>>('GET', `${queuePath(name)}/meta-keys?limit=100`)
  const chosen = items.find((k) => k.key === shownKey.peek()) ?? items[0]
  const frames = items.map(async ({ key, values }) => {
    if (key !== 'group' && key !== chosen?.key) return { key, values, whole: false, top: [], rest: { values: 0, ready: 0, in_flight: 0 } }
    const top = (await call<Page<ValueCount>>('GET', `${keyPath(name, key)}/values?sort=in_flight&limit=${mostValues}`)).items
    return { key, values: top.length, whole: top.length < mostValues, top, rest: { values: 0, ready: 0, in_flight: 0 } }
  })
  return { queue: name, at: '', keys: await Promise.all(frames), left: 0 }
}

/** Reads the numbers of a queue of several shards, which has no frames: the sums over its shards. */
async function readSums(name: string, mine: number) {
  const before = stats.peek()
  const [keyed, now, past] = await Promise.all([
    readKeys(name).catch(() => undefined),
    call<Stats>('GET', `${queuePath(name)}/stats`).catch(() => undefined), // the next look reads it again, and the pages say what is missing
    before ? undefined : call<Series>('GET', `${queuePath(name)}/timeseries`).catch(() => undefined),
  ])
  if (mine !== looks || !now) return
  const at = Date.now()
  const last = (column: keyof Series) => past?.[column].at(-1) ?? 0
  const rates = before ? between(before, now, at) : { inserted: last('inserted_rate'), reserved: last('reserved_rate'), done: last('done_rate'), failed: last('failed_rate') }
  batch(() => {
    if (past) append(past)
    if (before && at - Date.parse(before.at) > lookedAwayMs) starts.value++
    if (keyed) keys.value = { ...keyed, at: new Date(at).toISOString() }
    show({ queue: name, at: new Date(at).toISOString(), stats: now, rates })
    sure.value = true // it was read now
  })
}

/** Reads the queue, and opens its stream after a moment, if it has one. Else it looks again, until the queue exists and serves. */
async function look(name: string, more: string, pause: number) {
  close()
  const mine = looks
  const there = await call<Queue>('GET', queuePath(name)).catch((p: Problem) => (p.status === 404 ? null : undefined)) // undefined: not known
  if (mine !== looks) return
  const shards = there && !name.includes('~') && Number(there.settings.shards) > 1 ? Number(there.settings.shards) : 0
  const came = there !== null && missing.value === name
  batch(() => {
    aside.value = there?.quarantined ?? null
    divided.value = shards
    missing.value = there === null ? name : ''
    known.value = true
    if (shards > 0) beat.value += 2 // it has no frames, so the page's data is read again with each look
  })
  if (shards > 0 && !boundTo()) {
    await readSums(name, mine)
    if (mine !== looks) return
  }
  if (serves.value && (pause === 0 || came)) open(name, more)
  else retry = setTimeout(() => (serves.value ? open(name, more) : void look(name, more, 0)), 2000) as unknown as number
}

function close() {
  looks++
  clearTimeout(retry)
  followed?.close()
  followed = null
}

/** Follows the queue that the address names. A hidden page and a frozen one follow nothing. */
export function follow() {
  const hidden = signal(document.hidden)
  document.addEventListener('visibilitychange', () => { hidden.value = document.hidden })
  const allowed = computed(() => who.value !== null && may('read')) // each start of the stream asks for the identity, which must not start the stream again
  let of = ''
  effect(() => {
    const now = locked.value ? '' : queue.value // the next login must not see these numbers
    if (of !== now) {
      of = now
      lastFrame = 0
      batch(() => { sure.value = false; stats.value = null; keys.value = null; consumers.value = null; schedules.value = null; series.value = empty(); age.value = null; missing.value = ''; aside.value = null; divided.value = 0; known.value = false })
    }
    if (frozen.value || hidden.value || locked.value || !allowed.value) close()
    else {
      const more = topic.value
      untracked(() => (serves.value ? open(of, more) : void look(of, more, 0)))
    }
  })
  effect(() => { // another key is shown at once
    void shownKey.value
    untracked(() => { if (divided.value > 0 && !frozen.value && !boundTo()) void look(queue.value, topic.value, 0) })
  })
  setInterval(() => { if (boundTo() && !frozen.value && !hidden.value) beat.value++ }, 2000) // without frames, the page's data is read again on this timer
  setInterval(() => {
    const seconds = (performance.now() - lastFrame) / 1000
    if (lastFrame > 0 && !frozen.value) age.value = seconds > late ? seconds : 0
  }, 500)
}

/** Resolves with the next frame, or after a moment while the page is frozen or its stream is cut. */
export function nextFrame(): Promise<void> {
  return new Promise((done) => {
    const was = drawn.peek()
    let over = false
    const end = () => {
      if (over) return
      over = true
      clearTimeout(timer)
      stop?.()
      done()
    }
    const timer = setTimeout(end, 2000)
    let stop: (() => void) | undefined
    stop = effect(() => { if (drawn.value !== was) queueMicrotask(end) })
  })
}
