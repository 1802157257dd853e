/**
 * Messages between the pages of a browser and the worker that follows the server for all of them. The event `past` is a `series` for a page
 * that has missed nothing.
 */
export type Asked = { queue: string; topics: string[] } | { ping: true } | { leave: true }
export type Told = { event: string; data: string } | { joined: true } | { closed: true }

export const events = ['series', 'stats', 'keys', 'consumers', 'schedules', 'skipped', 'closed'] as const

/** A stream that a page follows. */
export interface Source {
  on: (event: string, fn: (data: string) => void) => void
  /** The stream was open already: it does not repeat its earlier events. */
  onJoined: () => void
  /** The stream ended and does not reconnect by itself. */
  onClosed: () => void
  close: () => void
}

export const address = (queues: string[], topics: string[]) => `/v1/events?topics=${topics.join()}${queues.map((q) => '&queue=' + encodeURIComponent(q)).join('')}`

/** How often a page pings the worker, and after how long without a ping the worker drops the page: a page that crashed does not leave. */
export const pingMs = 10_000
export const goneMs = 45_000

let refused = typeof SharedWorker === 'undefined'

/** Follows a queue: through the shared worker where the browser has one, else alone. */
export const source = (queue: string, topics: string[]): Source => (refused ? alone(queue, topics) : shared(queue, topics))

function alone(queue: string, topics: string[]): Source {
  const es = new EventSource(address([queue], topics))
  const out: Source = {
    on: (event, fn) => es.addEventListener(event, (e) => fn((e as MessageEvent<string>).data)),
    onJoined: () => {}, onClosed: () => {}, close: () => es.close(),
  }
  es.onerror = () => { if (es.readyState === EventSource.CLOSED) out.onClosed() } // otherwise it comes back by itself, with the id of the last event
  es.addEventListener('closed', () => { es.close(); out.onClosed() })
  return out
}

function shared(queue: string, topics: string[]): Source {
  const handlers = new Map<string, (data: string) => void>()
  let own: Source | undefined
  let over = false
  const worker = new SharedWorker('assets/stream.js', 'quern-stream-2') // another name when the messages change: pages of an older server may keep theirs running
  const tell = (asked: Asked) => worker.port.postMessage(asked)
  const beat = setInterval(() => tell({ ping: true }), pingMs)
  const leave = () => { tell({ leave: true }); worker.port.close() }
  const end = () => {
    over = true
    clearInterval(beat)
    removeEventListener('pagehide', leave)
  }
  const out: Source = {
    on: (event, fn) => { handlers.set(event, fn); own?.on(event, fn) },
    onJoined: () => {}, onClosed: () => {},
    close: () => { end(); own ? own.close() : leave() },
  }
  addEventListener('pagehide', leave)
  worker.onerror = () => { // the worker cannot be loaded here: each page follows alone
    refused = true
    if (over) return
    end()
    own = alone(queue, topics)
    own.onClosed = () => out.onClosed()
    for (const [event, fn] of handlers) own.on(event, fn)
  }
  worker.port.onmessage = ({ data }: MessageEvent<Told>) => {
    if (over) return
    if ('event' in data) handlers.get(data.event)?.(data.data)
    else if ('joined' in data) out.onJoined()
    else { end(); out.onClosed() }
  }
  tell({ queue, topics })
  return out
}
