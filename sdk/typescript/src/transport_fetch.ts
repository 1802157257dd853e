// Calls through fetch, for Deno and browsers.
import { gather, join } from './bytes.js'
import { NotTrustedError } from './error.js'
import type { Answer, Call, TlsOptions, Transport } from './transport.js'

export const host = (): string => 'consumer'

/** fetch cannot call a Unix socket. */
export const knowsSockets = false

interface DenoLike {
  createHttpClient?(options: { caCerts?: string[]; cert?: string; key?: string }): { close(): void }
}

export function openTransport(tls: TlsOptions | undefined): Transport {
  const deno = (globalThis as { Deno?: DenoLike }).Deno
  if (tls && (!deno?.createHttpClient || tls.servername)) throw new TypeError('quern: TLS options cannot be set in this runtime: browsers have their own, Deno has ca, cert and key')
  const client = tls && deno?.createHttpClient?.({ ...(tls.ca ? { caCerts: [tls.ca] } : {}), ...(tls.cert ? { cert: tls.cert } : {}), ...(tls.key ? { key: tls.key } : {}) })
  const send = async (call: Call): Promise<Answer> => {
    const { body } = call
    // Browsers send no body piece by piece over HTTP/1.1, so that a stream is put together first.
    const whole = body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : join(await gather(body, (fault) => new TypeError(`quern: the body of the call: ${fault}`)))
    const options = { method: call.method, headers: call.headers, signal: call.signal, redirect: 'error' as const, ...(whole === undefined ? {} : { body: whole as BodyInit }), ...(client ? { client } : {}) }
    const answer = await fetch(call.url, options).catch((failed: Error) => {
      const error = failed?.cause instanceof Error ? failed.cause : failed // Deno's own text is only that it failed
      throw /certificate|fatal alert: UnknownCA/i.test(error.message) ? new NotTrustedError('connect', error) : error
    })
    return { status: answer.status, header: (name) => answer.headers.get(name) ?? undefined, body: pieces(answer.body) }
  }
  return { send, close: () => client?.close() }
}

/** Not every browser's streams can be iterated over. */
async function* pieces(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  for (;;) {
    const next = await reader?.read()
    if (!next || next.done) return
    yield next.value
  }
}
