// Follows the server for all pages of a browser by one connection: a browser keeps six to a server, for all of its pages together. The stream is of
// every queue that a page shows, with every topic that a page wants.
import { read } from './json'
import { address, events, goneMs, type Asked, type Told } from './source'

/** `begun`: the page has the earlier events, and has missed no frame since. */
interface Page { port: MessagePort; queue: string; topics: string[]; seen: number; begun: boolean }

interface Stream { es: EventSource; queues: Set<string>; topics: Set<string> }

const pages = new Set<Page>()
/** The last event of each kind, by queue. */
const last = new Map<string, Map<string, string>>()
let stream: Stream | undefined
/** The stream that replaces the one above as soon as it is open. Until then, pages get the events of the old one. */
let next: Stream | undefined

const to = (page: Page, told: Told) => page.port.postMessage(told)
const of = (queue: string) => [...pages].filter((p) => p.queue === queue)
const covers = (s: Stream | undefined, { queue, topics }: Page) => s !== undefined && s.queues.has(queue) && topics.every((t) => s.topics.has(t))

/** Stops following a queue for a page. The page asks again when it has found out why. */
function close(page: Page) {
  pages.delete(page)
  to(page, { closed: true })
}

function hear(event: string, data: string) {
  const { queue } = read<{ queue: string }>(data)
  if (event === 'closed') {
    stream?.queues.delete(queue)
    last.delete(queue)
    of(queue).forEach(close)
    return
  }
  if (event !== 'series' && event !== 'skipped') {
    if (!last.has(queue)) last.set(queue, new Map())
    last.get(queue)!.set(event, data)
  }
  for (const page of of(queue)) {
    to(page, { event: event === 'series' && page.begun ? 'past' : event, data })
    if (event === 'series' || (event === 'stats' && covers(stream, page))) page.begun = true // a queue that has just been made has no series
  }
}

/** Opens a stream as the pages want it now. */
function open() {
  const queues = new Set([...pages].map((p) => p.queue).sort())
  const topics = new Set([...pages].flatMap((p) => p.topics))
  const mine: Stream = { es: new EventSource(address([...queues], [...topics])), queues, topics }
  next?.es.close()
  next = mine
  mine.es.onopen = () => {
    if (next !== mine) return
    stream?.es.close()
    stream = mine
    next = undefined
    for (const queue of last.keys()) if (!queues.has(queue)) last.delete(queue)
  }
  mine.es.onerror = () => {
    if (mine.es.readyState !== EventSource.CLOSED) { // it comes back by itself, and begins again
      if (mine === stream) for (const page of pages) page.begun = false
      return
    }
    if (mine === next) next = undefined
    else if (mine === stream) stream = undefined
    else return
    for (const page of pages) if (!covers(stream, page)) close(page)
  }
  for (const event of events) mine.es.addEventListener(event, (e) => { if (mine === stream) hear(event, (e as MessageEvent<string>).data) })
}

/** Opens another stream if the present one lacks something that a page wants, and closes all when there is no page. */
function settle() {
  if (pages.size > 0) {
    if ([...pages].some((p) => !covers(next ?? stream, p))) open()
    return
  }
  for (const s of [stream, next]) s?.es.close()
  stream = next = undefined
  last.clear()
}

function join(page: Page, { queue, topics }: { queue: string; topics: string[] }) {
  Object.assign(page, { queue, topics, begun: false })
  pages.add(page)
  settle()
  if (!covers(stream, page)) return // the stream that is being opened sends the earlier events
  page.begun = true
  to(page, { joined: true })
  for (const [event, data] of last.get(queue) ?? []) to(page, { event, data })
}

function leave(page: Page) {
  if (pages.delete(page)) settle()
}

;(globalThis as unknown as { onconnect: (e: MessageEvent) => void }).onconnect = ({ ports: [port] }) => {
  const page: Page = { port: port!, queue: '', topics: [], seen: Date.now(), begun: false }
  port!.onmessage = ({ data }: MessageEvent<Asked>) => {
    page.seen = Date.now()
    if ('queue' in data) join(page, data)
    else if ('leave' in data) leave(page)
  }
}

/** Closes pages that are gone, and drops topics and queues that no page wants any more. It does not do so at once, because a page that is
 * loaded again leaves and comes back. */
function tidy() {
  for (const page of pages) if (Date.now() - page.seen > goneMs) close(page)
  settle()
  if (stream && !next && ([...stream.queues].some((q) => of(q).length === 0) || [...stream.topics].some((t) => ![...pages].some((p) => p.topics.includes(t))))) open()
}

setInterval(tidy, goneMs / 3)
