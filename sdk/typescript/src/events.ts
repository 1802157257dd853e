// Server-sent events.
import { BadAnswerError } from './error.js'
import { read } from './json.js'
import type { Closed, ConsumersFrame, EndsGap, Hello, KeysFrame, RevokedEvent, SchedulesFrame, Series, Skipped, StatsFrame, Submission } from './generated/types.js'

/** An event as it came. */
export interface RawEvent {
  event: string
  data: string
  /** The id from which the stream resumes after this event; "" when there is none. */
  id: string
}

/** An event of a queue's stream. */
export type QueueEvent =
  | { event: 'series'; data: Series; id: string }
  | { event: 'stats'; data: StatsFrame; id: string }
  | { event: 'keys'; data: KeysFrame; id: string }
  | { event: 'consumers'; data: ConsumersFrame; id: string }
  | { event: 'schedules'; data: SchedulesFrame; id: string }
  | { event: 'skipped'; data: Skipped; id: string }
  | { event: 'closed'; data: Closed; id: string }

/** An event of a queue's stream of ends: a submission that ended, with its place as the id; or a gap, where ends before the next one are
 * missing. */
export type EndEvent =
  | { event: 'end'; data: Submission; id: string }
  | { event: 'gap'; data: EndsGap; id: string }

/** An event for an attached consumer. */
export type ConsumerEvent =
  | { event: 'hello'; data: Hello }
  | { event: 'revoked'; data: RevokedEvent }
  | { event: 'drain' | 'quiet' | 'resume'; data: unknown }

/** The longest line of any answer that is read line by line: 1 MiB of output, every byte of it escaped. */
const maxLine = 8 << 20

/** Reads a body line by line, without the line ends. The last line needs none. */
export async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let rest: string[] = [] // pieces of a line that has not ended
  let length = 0
  for await (const piece of body) {
    const parts = decoder.decode(piece, { stream: true }).split('\n')
    const last = parts.pop()!
    for (const part of parts) {
      const line = rest.length > 0 ? rest.join('') + part : part
      rest = []
      length = 0
      yield line.endsWith('\r') ? line.slice(0, -1) : line
    }
    if (last === '') continue
    rest.push(last)
    if ((length += last.length) > maxLine) throw new BadAnswerError('stream', `a line is longer than ${maxLine} characters`)
  }
  const end = rest.join('') + decoder.decode()
  if (end !== '') yield end
}

/** Reads the events of a stream to its end. It calls alive for every line, including empty ones, and place for every id. */
export async function* events(body: AsyncIterable<Uint8Array>, alive: () => void, place: (id: string) => void = () => {}): AsyncGenerator<RawEvent> {
  let now: RawEvent = { event: '', data: '', id: '' }
  for await (const line of lines(body)) {
    alive()
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line)!
    if (field === 'event' || field === 'data' || field === 'id') now[field] = value!
    if (line !== '') continue
    if (now.event) yield now
    if (now.id) place(now.id)
    now = { event: '', data: '', id: now.id }
  }
}

/** The value of an event's data; null if it has none. */
export const dataOf = <T>(raw: RawEvent): T => (raw.data ? read<T>(raw.data) : (null as T))

/** Bounds the silence of a stream: aborts it when nothing is heard for so long. */
export class Silence {
  readonly #stop = new AbortController()
  readonly signal = this.#stop.signal
  #timer: ReturnType<typeof setTimeout> | undefined
  #ms: number
  readonly #outer: AbortSignal | undefined
  readonly #abort = () => this.#stop.abort(this.#outer?.reason)

  constructor(ms: number, outer?: AbortSignal) {
    this.#ms = ms
    this.#outer = outer
    if (outer?.aborted) this.#abort()
    outer?.addEventListener('abort', this.#abort, { once: true })
    this.heard()
  }

  heard = (): void => {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#stop.abort(new Error('the stream fell silent')), this.#ms)
  }

  /** Stops the timer until something is heard, because the caller may take any time over an item. */
  pause(): void {
    clearTimeout(this.#timer)
  }

  /** Silence of more than this is the end from now on. */
  allow(ms: number): void {
    this.#ms = ms
    this.heard()
  }

  /** Ends the stream. */
  end(): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#abort)
    this.#stop.abort()
  }
}
