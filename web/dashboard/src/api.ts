import { signal } from '@preact/signals'
import { read, write } from './json'
import { doubt, named, namedHeader, who } from './session'
import type { MetaValue } from './types'

/** An error as the server describes it (problem+json), or that the server could not be reached. */
export class Problem extends Error {
  constructor(
    readonly title: string, readonly detail: string, readonly status: number, readonly code: string,
    readonly requestId: string, readonly errors: { pointer: string; detail: string }[] = [],
  ) { super(title) }
}

/** The node of a cluster that answered the page Nodes last; '' while it is not known, and of a server that is alone. */
export const answering = signal('')

/** Calls the server. It throws a Problem when that fails, and an AbortError when signal ends it. */
export const call = <T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<T> =>
  send(method, path, body === undefined ? undefined : write(body), body === undefined ? headers : { 'Content-Type': 'application/json', ...headers }, signal)

const tags = new WeakMap<object, string>()

/** The ETag of an answer of call, for If-Match; undefined where the server has none. */
export const etagOf = (answer: object) => tags.get(answer)

/** Calls the server with a body as it is: a file, or a form. */
export async function send<T>(method: string, path: string, body: BodyInit | undefined, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<T> {
  let response: Response
  let text: string
  try {
    response = await fetch(path, { method, signal: signal ?? null, headers: method === 'GET' ? headers : { ...namedHeader(), ...headers }, ...(body === undefined ? {} : { body }) })
    text = await response.text()
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Problem('The server cannot be reached', 'Check that quern serve runs and that this page was loaded from its address.', 0, 'unreachable', '')
  }
  answering.value = response.headers.get('Quern-Node') ?? answering.value
  if (response.ok) {
    const answer = (text ? read<T>(text) : undefined) as T
    const etag = response.headers.get('ETag')
    if (etag && answer instanceof Object) tags.set(answer, etag)
    return answer
  }
  if (response.status === 401 && path !== '/v1/session') void doubt()
  const id = response.headers.get('X-Request-Id') ?? ''
  try {
    const p = read<{ title: string; detail?: string; code: string; request_id?: string; errors?: { pointer: string; detail: string }[] }>(text)
    throw new Problem(p.title, p.detail ?? '', response.status, p.code, p.request_id ?? id, p.errors)
  } catch (error) {
    if (error instanceof Problem) throw error
    throw new Problem('The answer cannot be read', `Status ${response.status}.`, response.status, 'unreadable', id)
  }
}

/** A meta value as paths, filters and the command line have it: 7 is the integer, s:7 the text. */
export function valueText(v: MetaValue): string {
  if (typeof v !== 'string') return String(v)
  return v.startsWith('s:') || /^[+-]*\d+$/.test(v) || /^\.*$/.test(v) ? 's:' + v : v
}

/** The meta value that such a text stands for. */
export function valueOf(text: string): MetaValue {
  if (text.startsWith('s:')) return text.slice(2)
  return /^-?\d+$/.test(text) ? BigInt(text) : text
}

export const queuePath = (queue: string) => '/v1/queues/' + encodeURIComponent(queue)
export const pluginPath = (name: string) => '/v1/plugins/' + encodeURIComponent(name)
export const keyPath = (queue: string, key: string) => `${queuePath(queue)}/meta-keys/${encodeURIComponent(key)}`
export const valuePath = (queue: string, key: string, v: MetaValue) => `${keyPath(queue, key)}/values/${encodeURIComponent(valueText(v))}`

const quote = (s: string) => (/^[\w.,:=@%+/-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`)

/** A command line from its words, each quoted for a POSIX shell where it has to be. */
export const shell = (...words: (string | number)[]) => words.map((w) => quote(String(w))).join(' ')

/** A command line of quern with this server's address, so that it works on any machine. The words after -- are another program's. */
export function quern(...words: (string | number)[]) {
  const end = words.indexOf('--')
  const own = end < 0 ? words.length : end
  return shell('quern', ...words.slice(0, own), '--server', location.origin, ...words.slice(own))
}

/** The curl command that does what call would do. The token is that of the shell, where the command line finds it too. */
export function curl(method: string, path: string, body?: unknown): string {
  const words = ['curl', '-s', ...(method === 'GET' ? [] : ['-X', method]), location.origin + path]
  if (method !== 'GET' && named()) words.push('-H', 'Quern-On-Behalf-Of: ' + named())
  if (body !== undefined) words.push('-H', 'Content-Type: application/json', '-d', write(body))
  return shell(...words) + (who.value?.token_required ? ' -H "Authorization: Bearer $QUERN_TOKEN"' : '')
}
