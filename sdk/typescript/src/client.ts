// The client: the methods for producers and consumers, on top of the generated calls.
import { isFinal } from './addresses.js'
import { type Data, type WireBytes, decode, decodeText, encode } from './bytes.js'
import { type ClientOptions, Connection, backoff, drawKey, jsonBody, pause } from './connection.js'
import { BadAnswerError, InvalidError, NotFoundError, QuernError, UnreachableError, refusal } from './error.js'
import { type ConsumerEvent, type EndEvent, type QueueEvent, Silence, dataOf, events, lines } from './events.js'
import { Calls } from './generated/calls.js'
import type { InsertManyAnswer, InsertResult, Meta, Output as WireOutput, Problem, Queue, QueueSettingsInput, Submission, WaitAnswer } from './generated/types.js'
import { type Insert, type InsertOfMany, insertBody, insertHead } from './insert.js'
import { read } from './json.js'
import { type CallOptions, part } from './pages.js'
import { type InsertRequest, Shared } from './shared.js'
import { JobWorker, type WorkerOptions } from './jobs.js'
import { type Handler, type WorkOptions, prepare, workTogether } from './work.js'

/** Bounds of one call of insertMany. Larger calls make inserts no cheaper, and delay others in the same commit. */
const callCount = 1000
const callSize = 4 << 20 // in UTF-16 units, each at most 3 bytes

export interface InsertOptions extends CallOptions {
  /**
   * Idempotency key of 1 to 255 visible ASCII characters, instead of a random one. Within a day, only the first insert with a key
   * inserts; the others return its submission.
   */
  key?: string
  /** Trace of the submission, instead of tracing.context(): a W3C traceparent, optionally followed by ';' and the tracestate. */
  trace?: string | undefined
}

/** The output of a chunk. */
export class Output {
  /** The submission is that of an output from outputsOf. */
  constructor(readonly index: number, readonly wire: WireBytes, readonly submission = '') {}
  get bytes(): Uint8Array { return decode(this.wire) }
  /** The output as text; bytes that are not UTF-8 become U+FFFD. */
  get text(): string { return decodeText(this.wire) }
}

/** A submission for which waitMany has waited. */
export type Ended = { id: string } & ({ submission: Submission; error?: undefined } | { submission?: undefined; error: NotFoundError })

/** How many submissions one call waits for. */
const mostWaitIds = 1000

/** How many outputs one page has, of many submissions. */
const outputsPage = 1000

/** How long one call of wait asks the server to hold its answer. */
const waitSeconds = 30

/** Missing heartbeats after which a stream counts as broken. */
const silentBeats = 3

/** Longest silence of a stream of ends: the server sends a sign of life every 15 seconds. */
const silentEndsMs = 60_000

/** Longest silence of a queue's stream: the server sends a frame every second. */
const silentEventsMs = 30_000

/** A client of a Quern server. It opens connections when it needs them. */
export class Client extends Calls {
  readonly #shared: Shared

  /** Several addresses must be of servers that serve the same queues. If one does not serve, calls go to the next, in a random order. */
  constructor(address: string | readonly string[], options: ClientOptions = {}) {
    super(new Connection(address, options))
    this.#shared = new Shared(this.connection)
  }

  /** Closes idle connections. */
  close(): void {
    this.connection.close()
  }

  /**
   * Creates a queue with these settings; settings that you leave out get their default. If the queue exists, it stays as it is. Returns
   * the queue. Every process that needs a queue may call this at its start.
   */
  async ensureQueue(queue: string, settings: QueueSettingsInput = {}, options: CallOptions = {}): Promise<Queue> {
    try {
      return await this.connection.json<Queue>({ what: 'ensure queue', method: 'PUT', path: `/v1/queues/${part(queue)}`, safe: true, signal: options.signal, headers: { 'if-none-match': '*' }, body: jsonBody({ settings }) })
    } catch (error) {
      if (error instanceof QuernError && error.code === 'precondition_failed') return this.getQueue(queue, options)
      throw error
    }
  }

  /** Inserts a submission and returns it. The client repeats a failed call with the same key, so it inserts once. */
  async insert(queue: string, work: Insert, options: InsertOptions = {}): Promise<Submission> {
    return this.#shared.insert({ ...insertion(queue, options), body: jsonBody(insertBody(work)), safe: true })
  }

  /**
   * Inserts many submissions, up to perCall (1,000 by default) in one call and one commit. Yields each submission in order, or its error;
   * an error does not prevent the others. Each submission has its own key (idempotency_key, or a random one). So the client can repeat a
   * call whose answer was lost, and still insert each once. If a call fails, insertMany throws; the submissions of earlier calls are
   * inserted.
   */
  async *insertMany(queue: string, works: Iterable<InsertOfMany> | AsyncIterable<InsertOfMany>, options: CallOptions & { perCall?: number } = {}): AsyncIterableIterator<Submission | QuernError> {
    const { perCall = callCount, signal } = options
    let texts: string[] = []
    let size = 0
    const send = async (): Promise<(Submission | QuernError)[]> => {
      const count = texts.length
      const body = `{"submissions":[${texts.join(',')}]}`
      texts = []
      size = 0
      const { results } = await this.connection.json<InsertManyAnswer>({
        what: 'insertMany', method: 'POST', path: `/v1/queues/${part(queue)}/submissions:batch`, body, safe: true, ...(signal ? { signal } : {}),
      }, 'results')
      if (results.length !== count) throw new BadAnswerError('insertMany', `it has ${results.length} results for ${count} submissions`)
      return results.map((result, at) => result.submission ?? refusedOne(result, `/submissions/${at}`))
    }
    for await (const work of works) {
      const text = jsonBody({ ...insertBody(work), idempotency_key: work.idempotency_key ?? drawKey() })
      if (texts.length > 0 && (texts.length >= perCall || size + text.length > callSize)) yield* await send()
      texts.push(text)
      size += text.length
    }
    if (texts.length > 0) yield* await send()
  }

  /**
   * Inserts a submission whose chunks come one by one, at most 100,000 and 64 MiB in all, without holding them all in memory (a browser
   * does hold them). An error from chunks ends the insert, and nothing is inserted. The client can read chunks only once, so it never
   * repeats the call by itself. To repeat it yourself, use the same key.
   */
  async insertStream(queue: string, work: Omit<Insert, 'chunks'>, chunks: Iterable<Data> | AsyncIterable<Data>, options: InsertOptions = {}): Promise<Submission> {
    // Iterating over them would give single letters and bytes.
    if (typeof chunks === 'string' || chunks instanceof Uint8Array) throw new TypeError('quern: insertStream: chunks is a single text; give a list of them')
    const first = insertHead(work)
    const request = insertion(queue, options)
    return this.connection.json<Submission>({ ...request, headers: { ...request.headers, 'content-type': 'application/x-ndjson' }, body: jsonLines(first, chunks) })
  }

  /** Waits until a submission has ended, and returns it. */
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

  /**
   * Yields the submissions, of any queues, as they end. Those that have ended already come first. After the last one the loop ends. To
   * wait for the first end only, leave the loop. If there are more than 1,000, it waits for the first 1,000 that are open. For an id that
   * the server does not know, it yields a NotFoundError and continues. It throws any other error.
   */
  async *waitMany(ids: Iterable<string>, options: CallOptions = {}): AsyncIterableIterator<Ended> {
    if (typeof ids === 'string') throw new TypeError('quern: wait: ids is a single text; give a list of them')
    const { signal } = options
    let left = [...new Set([...ids].map((id) => (/^\d{1,99}$/.test(id) ? String(BigInt(id)) : id)))] // as the server spells them
    while (left.length > 0) {
      const body = jsonBody({ ids: left.slice(0, mostWaitIds), wait_ms: waitSeconds * 1000 })
      const { ended, unknown = [] } = await this.connection.json<WaitAnswer>({
        what: 'wait', method: 'POST', path: '/v1/submissions:wait', body, waitMs: waitSeconds * 1000, safe: true, ...(signal ? { signal } : {}),
      }, 'ended')
      const over = new Set([...ended.map(({ id }) => id), ...unknown])
      left = left.filter((id) => !over.has(id))
      for (const submission of ended) yield { id: submission.id, submission }
      for (const id of unknown) yield { id, error: unknownSubmission(id) }
      if (over.size === 0) await pause(backoff(0), signal) // a server that does not hold its answers is not asked in a tight loop
    }
  }

  /**
   * Yields the outputs of a submission's chunks in the order of their indexes, without chunks that have none. If the answer breaks off,
   * it throws: the earlier outputs are right, but not all.
   */
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
   * The outputs of many submissions of a queue, page by page: those of the newest submission first, and of one in the order of the indexes
   * of its chunks. Each has the id of its submission. The filters are those of listSubmissions.
   */
  async *outputsOf(queue: string, options: Omit<NonNullable<Parameters<Client['listQueueOutputs']>[1]>, 'limit'> = {}): AsyncIterableIterator<Output> {
    for await (const { submission, index, output } of this.listQueueOutputs(queue, { ...options, limit: outputsPage })) yield new Output(index, output, submission)
  }

  /**
   * Follows a queue's numbers: first the points so far, then one frame per topic and second. If the stream breaks, it reconnects and
   * continues after the last event. It ends when the signal aborts or you leave the loop.
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
        this.connection.notices.warn(error, `the events of the queue ${queue} are followed again`)
        await pause(backoff(failures, error), signal)
      } finally {
        silence.end()
      }
    }
  }

  /**
   * Follows the ends of a queue's submissions, in the order in which they became durable. If the stream breaks or the server restarts, it
   * reconnects, and yields each end once. after is the id of an earlier event, or '0' for all ends that the queue's retention has kept;
   * without it, only new ends come. It ends when the signal aborts or you leave the loop. It throws an error that a repetition does not
   * fix, for example because the queue was deleted.
   */
  async *ends(queue: string, options: CallOptions & { after?: string; state?: readonly string[]; meta?: Meta; schedule?: string } = {}): AsyncIterableIterator<EndEvent> {
    const { state, meta, schedule, signal } = options
    let last = options.after
    for (let failures = 0; ; failures++) {
      const silence = new Silence(silentEndsMs, signal)
      try {
        const headers = { accept: 'text/event-stream', 'last-event-id': last }
        const query = { state: state?.join(), meta, schedule }
        const answer = await this.connection.stream({ what: 'ends', method: 'GET', path: `/v1/queues/${part(queue)}/ends`, query, headers, signal: silence.signal })
        for await (const raw of events(answer.body, silence.heard, (id) => { last = id })) {
          failures = 0
          if (raw.event === 'problem') throw refusal(dataOf<Problem>(raw).status, raw.data, 0)
          if (raw.event !== 'end' && raw.event !== 'gap') continue // of a later version
          if (raw.event === 'end') last = raw.id
          silence.pause()
          yield { event: raw.event, data: dataOf(raw), id: raw.id } as EndEvent
          silence.heard()
        }
      } catch (error) {
        if (signal?.aborted || isFinal(error)) throw signal?.aborted ? signal.reason : error
        this.connection.notices.warn(error, `the ends of the queue ${queue} are followed again`)
        await pause(backoff(failures, error), signal)
      } finally {
        silence.end()
      }
    }
  }

  /**
   * Attaches a consumer to the server, and yields the events for it. The server knows that the consumer is alive while the stream is
   * open. It ends when the server ends the stream in order, and throws otherwise. It does not reconnect; work does. The incarnation is a
   * text that each process draws once. If the consumer's last stream was of another process, all reservations under the name end as lost
   * at once, and the server offers their chunks again. Leave it out if this process reserved under the name before it first attached.
   */
  async *attach(queue: string, consumer: string, options: CallOptions & { incarnation?: string | undefined } = {}): AsyncIterableIterator<ConsumerEvent> {
    const silence = new Silence(this.connection.timeoutMs, options.signal) // until the first heartbeat says how often there is one
    try {
      const request = { what: 'attach', method: 'GET', path: `/v1/queues/${part(queue)}/consumers/${part(consumer)}/attach`, query: { incarnation: options.incarnation }, headers: { accept: 'text/event-stream' }, signal: silence.signal }
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
   * Reserves chunks and calls the handler with each, until the signal aborts or, without a signal, SIGINT or SIGTERM comes. Then it lets
   * running handlers finish, gives back the chunks that it has not begun, reports the last results, and returns. It throws, after the
   * same drain, if the server refuses its calls for good. Otherwise it waits for a server that is away.
   */
  async work(options: WorkOptions, handler: Handler): Promise<void> {
    return workTogether([prepare(this, this.connection, options, handler)], options)
  }

  /** A worker for several kinds of work. Register each handler with worker.handle, then call worker.run, which works like work. */
  worker(options: WorkerOptions = {}): JobWorker {
    return new JobWorker(this, this.connection, options)
  }
}

/** The error that a call for the submission alone would get. */
const unknownSubmission = (id: string): NotFoundError => new NotFoundError({
  status: 404, code: 'unknown_submission', title: 'There is no such submission',
  detail: `There is no submission ${id}: it never existed, its retention is over, or it or its queue was deleted.`,
})

/** The error of one submission of many, as a call of its own would have thrown it. */
function refusedOne(result: InsertResult, at: string): QuernError {
  const { status, code = '', detail = '', pointer = '' } = result
  if (status !== 'invalid') return new QuernError({ status: 422, code, detail })
  const errors = [{ pointer: pointer.startsWith(at) ? pointer.slice(at.length) : pointer, detail }]
  return new InvalidError({ status: 422, code, detail: 'The request is not valid.', errors })
}

function insertion(queue: string, options: InsertOptions): Omit<InsertRequest, 'body'> {
  const { key = drawKey(), trace, signal } = options
  if (typeof key !== 'string' || !/^[!-~]{1,255}$/.test(key)) throw new TypeError(`quern: insert: the idempotency key ${JSON.stringify(key)} is not 1 to 255 visible ASCII characters`)
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
  if (error instanceof QuernError || error instanceof UnreachableError || error instanceof BadAnswerError) return error
  return new UnreachableError(what, silence.signal.aborted ? silence.signal.reason : error)
}
