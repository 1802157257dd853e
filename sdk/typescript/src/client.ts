// The client: what producers and consumers need, on top of the generated calls.
import { type Data, type WireBytes, decode, decodeText, encode } from './bytes.js'
import { type ClientOptions, Connection, type Request, backoff, drawKey, isFinal, jsonBody, pause } from './connection.js'
import { QuernError, UnreachableError } from './error.js'
import { type ConsumerEvent, type QueueEvent, Silence, dataOf, events, lines } from './events.js'
import { Calls } from './generated/calls.js'
import type { NewSubmission, Output as WireOutput, Submission } from './generated/types.js'
import { read } from './json.js'
import { type CallOptions, part } from './pages.js'
import { type Handler, type WorkOptions, work } from './work.js'

/** Work to insert: chunks in exactly one of three forms, and what strategies see of it. */
export type Insert = Omit<NewSubmission, 'chunks' | 'attachment'> & {
  chunks: { count: number; template: string } | { count: number; prefix: string } | { inline: readonly Data[] }
  attachment?: Data
}

export interface InsertOptions extends CallOptions {
  /** Idempotency key, of 1 to 255 visible ASCII characters, instead of a drawn one: of all inserts with one key within a day only the first inserts. */
  key?: string
  /** Trace that the submission carries, in the place of tracing.context(): a W3C traceparent, and behind a ';', if there is one, the tracestate. */
  trace?: string | undefined
}

/** What came of a chunk. */
export class Output {
  constructor(readonly index: number, readonly wire: WireBytes) {}
  get bytes(): Uint8Array { return decode(this.wire) }
  /** As text; what is not UTF-8 becomes U+FFFD. */
  get text(): string { return decodeText(this.wire) }
}

/** How long one call of wait asks the server to hold its answer. */
const waitSeconds = 30

/** How many heartbeats may stay out before a stream is taken for dead. */
const silentBeats = 3

/** How long a queue's stream may say nothing: it has a frame every second. */
const silentEventsMs = 30_000

/** A client of a Quern server. It makes connections as it needs them. */
export class Client extends Calls {
  /** Several addresses are of servers that serve the same queues: while one does not answer, calls go to the next. */
  constructor(address: string | readonly string[], options: ClientOptions = {}) {
    super(new Connection(address, options))
  }

  /** Closes connections that are not in use. */
  close(): void {
    this.connection.close()
  }

  /** Inserts a submission and returns it as it is then. It may be tried several times under one key, so it inserts once. */
  async insert(queue: string, work: Insert, options: InsertOptions = {}): Promise<Submission> {
    const { chunks, attachment, ...rest } = work
    const body = { ...rest, chunks: 'inline' in chunks ? { inline: chunks.inline.map(encode) } : chunks, ...(attachment === undefined ? {} : { attachment: encode(attachment) }) }
    return this.connection.json<Submission>({ ...insertion(queue, options), body: jsonBody(body), safe: true })
  }

  /**
   * Inserts many submissions, up to atOnce (16 unless told) at the same time, and tells of them in their order. Each has its own key. After an
   * error no more are begun; those under way may still be inserted.
   */
  async *insertMany(queue: string, works: Iterable<Insert> | AsyncIterable<Insert>, options: CallOptions & { atOnce?: number } = {}): AsyncIterableIterator<Submission> {
    const { atOnce = 16, signal } = options
    const running: Promise<Submission>[] = []
    for await (const work of works) {
      const insert = this.insert(queue, work, { signal })
      insert.catch(() => {}) // it is thrown when its turn comes
      running.push(insert)
      if (running.length >= atOnce) yield await running.shift()!
    }
    while (running.length > 0) yield await running.shift()!
  }

  /**
   * Inserts a submission whose chunks come one by one, at most 100,000 of them and 64 MiB in all, without holding them all in memory (in
   * browsers they are). An error from chunks ends the insert, and nothing is inserted. As chunks can be read only once the call is never made
   * again by itself; give the same key to do that yourself.
   */
  async insertStream(queue: string, work: Omit<Insert, 'chunks'>, chunks: Iterable<Data> | AsyncIterable<Data>, options: InsertOptions = {}): Promise<Submission> {
    const { attachment, ...rest } = work
    const first = { ...rest, ...(attachment === undefined ? {} : { attachment: encode(attachment) }) }
    const request = insertion(queue, options)
    return this.connection.json<Submission>({ ...request, headers: { ...request.headers, 'content-type': 'application/x-ndjson' }, body: jsonLines(first, chunks) })
  }

  /** Returns a submission when it is no longer open. */
  async wait(id: string, options: CallOptions = {}): Promise<Submission> {
    const { signal } = options
    for (;;) {
      const got = await this.connection.json<Submission>({
        what: 'wait', method: 'GET', path: `/v1/submissions/${part(id)}`, headers: { prefer: `wait=${waitSeconds}` }, waitMs: waitSeconds * 1000, safe: true, ...(signal ? { signal } : {}),
      })
      if (got.state !== 'open') return got
      await pause(backoff(0), signal) // a server that does not hold its answers is not asked in a tight loop
    }
  }

  /** Goes through the outputs of a submission's chunks in the order of their indexes, as they come; chunks without one are left out. Outputs that break off throw: what came before is true, and is not all. */
  async *outputs(id: string, options: CallOptions = {}): AsyncIterableIterator<Output> {
    const silence = new Silence(this.connection.timeoutMs, options.signal)
    try {
      const answer = await this.connection.stream({ what: 'outputs', method: 'GET', path: `/v1/submissions/${part(id)}/outputs`, safe: true, signal: silence.signal })
      for await (const line of lines(hearing(answer.body, silence.heard))) {
        if (line === '') continue
        const { index, output } = read<WireOutput>(line)
        silence.pause()
        yield new Output(index, output)
        silence.heard()
      }
    } catch (error) {
      throw streamError('outputs', error, options.signal, silence)
    } finally {
      silence.end()
    }
  }

  /**
   * Follows a queue's numbers: first the points so far, then a frame of each topic a second. It comes back by itself when the stream breaks, after
   * the last event that came, and ends by its signal or by leaving the loop.
   */
  async *events(queue: string, options: CallOptions & { topics?: readonly ('stats' | 'keys' | 'consumers' | 'schedules')[] } = {}): AsyncIterableIterator<QueueEvent> {
    const { topics, signal } = options
    let last: string | undefined
    for (let failures = 0; ; failures++) {
      const silence = new Silence(silentEventsMs, signal)
      try {
        const headers = { accept: 'text/event-stream', 'last-event-id': last }
        const answer = await this.connection.stream({ what: 'events', method: 'GET', path: '/v1/events', query: { queue, topics: topics?.join() }, headers, signal: silence.signal })
        for await (const raw of events(answer.body, silence.heard)) {
          failures = 0
          last = raw.id || last
          silence.pause()
          yield { event: raw.event, data: dataOf(raw), id: raw.id } as QueueEvent
          silence.heard()
        }
      } catch (error) {
        if (signal?.aborted || isFinal(error)) throw signal?.aborted ? signal.reason : error
        await pause(backoff(failures, error), signal)
      } finally {
        silence.end()
      }
    }
  }

  /**
   * Keeps a consumer known to the server as long as its stream is open, and goes through what the server tells it. It ends when the server ends the
   * stream in order, and throws otherwise. It does not come back by itself; work does.
   */
  async *attach(queue: string, consumer: string, options: CallOptions = {}): AsyncIterableIterator<ConsumerEvent> {
    const silence = new Silence(this.connection.timeoutMs, options.signal) // until the first heartbeat says how often there is one
    try {
      const request = { what: 'attach', method: 'GET', path: `/v1/queues/${part(queue)}/consumers/${part(consumer)}/attach`, headers: { accept: 'text/event-stream' }, signal: silence.signal }
      const answer = await this.connection.stream(request)
      for await (const raw of events(answer.body, silence.heard)) {
        const event = { event: raw.event, data: dataOf(raw) } as ConsumerEvent
        if (event.event === 'hello' && event.data.heartbeat_ms > 0) silence.allow(silentBeats * event.data.heartbeat_ms)
        yield event
      }
    } catch (error) {
      throw streamError('attach', error, options.signal, silence)
    } finally {
      silence.end()
    }
  }

  /**
   * Reserves chunks and hands them to the handler, until the signal is aborted or, without one, SIGINT or SIGTERM comes. Then running handlers
   * finish, what was reserved ahead goes back, the last results are reported, and it returns. It throws when the server refuses its calls for good,
   * after the same drain. A server that is away is waited for.
   */
  work(options: WorkOptions, handler: Handler): Promise<void> {
    return work(this, this.connection, options, handler)
  }
}

function insertion(queue: string, options: InsertOptions): Request {
  const { key = drawKey(), trace, signal } = options
  if (!/^[!-~]{1,255}$/.test(key)) throw new TypeError(`quern: insert: the idempotency key ${JSON.stringify(key)} is not 1 to 255 visible ASCII characters`)
  return { what: 'insert', method: 'POST', path: `/v1/queues/${part(queue)}/submissions`, headers: { 'idempotency-key': key, traceparent: trace }, ...(signal ? { signal } : {}) }
}

/** Writes the submission and its chunks as JSON lines, in pieces of some kilobytes. */
async function* jsonLines(first: unknown, chunks: Iterable<Data> | AsyncIterable<Data>): AsyncGenerator<Uint8Array> {
  const piece = 32 << 10
  const encoder = new TextEncoder()
  let text = jsonBody(first) + '\n'
  for await (const chunk of chunks) {
    text += JSON.stringify(encode(chunk)) + '\n'
    if (text.length < piece) continue
    yield encoder.encode(text)
    text = ''
  }
  yield encoder.encode(text)
}

async function* hearing(body: AsyncIterable<Uint8Array>, heard: () => void): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    heard()
    yield piece
  }
}

function streamError(what: string, error: unknown, signal: AbortSignal | undefined, silence: Silence): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof QuernError || error instanceof UnreachableError) return error
  return new UnreachableError(what, silence.signal.aborted ? silence.signal.reason : error)
}
