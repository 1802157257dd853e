// Follows the server for all pages of a browser at once: a browser keeps six connections to a server, and each page would hold one for itself. There is a
// stream for each queue that is looked at, with the topics that any page wants.
import { address, events, goneMs, type Asked, type Told } from './source'

interface Page { port: MessagePort; stream: string; topics: string[]; seen: number }

interface Stream { es: EventSource; topics: string[]; last: Map<string, string> }

const pages = new Set<Page>()
const streams = new Map<string, Stream>()

const to = (page: Page, told: Told) => page.port.postMessage(told)
const of = (stream: string) => [...pages].filter((p) => p.stream === stream)

function open(name: string, topics: string[]) {
  streams.get(name)?.es.close()
  const es = new EventSource(address(name, topics))
  const stream: Stream = { es, topics, last: new Map() }
  streams.set(name, stream)
  for (const event of events) {
    es.addEventListener(event, (e) => {
      const { data } = e as MessageEvent<string>
      if (event !== 'series' && event !== 'skipped') stream.last.set(event, data)
      for (const page of of(name)) to(page, { event, data })
    })
  }
  es.onerror = () => {
    if (es.readyState !== EventSource.CLOSED || streams.get(name) !== stream) return
    streams.delete(name)
    for (const page of of(name)) { pages.delete(page); to(page, { closed: true }) }
  }
}

/** Opens, keeps or closes the stream of a queue, as those that look at it want. A topic that no page wants any more stays until the stream is opened otherwise. */
function settle(name: string) {
  const wanted = [...new Set(of(name).flatMap((p) => p.topics))]
  const stream = streams.get(name)
  if (wanted.length === 0) {
    stream?.es.close()
    streams.delete(name)
  } else if (!stream || wanted.some((t) => !stream.topics.includes(t))) open(name, wanted)
}

function leave(page: Page) {
  if (pages.delete(page)) settle(page.stream)
}

function join(page: Page, { stream, topics }: { stream: string; topics: string[] }) {
  leave(page)
  page.stream = stream
  page.topics = topics
  pages.add(page)
  const before = streams.get(stream)
  settle(stream)
  const now = streams.get(stream)!
  if (now !== before) return // it begins, and tells what was before by itself
  to(page, { joined: true })
  for (const [event, data] of now.last) to(page, { event, data })
}

;(globalThis as unknown as { onconnect: (e: MessageEvent) => void }).onconnect = ({ ports: [port] }) => {
  const page: Page = { port: port!, stream: '', topics: [], seen: Date.now() }
  port!.onmessage = ({ data }: MessageEvent<Asked>) => {
    page.seen = Date.now()
    if ('stream' in data) join(page, data)
    else if ('leave' in data) leave(page)
  }
}

setInterval(() => { for (const page of pages) if (Date.now() - page.seen > goneMs) { to(page, { closed: true }); leave(page) } }, goneMs / 3)
