// Calls through node:http and node:https, whose connections take TLS options and cost less than those of fetch.
import * as http from 'node:http'
import * as https from 'node:https'
import { hostname } from 'node:os'
import type { TLSSocket } from 'node:tls'
import { NotTrustedError } from './error.js'
import type { Answer, Call, TlsOptions, Transport } from './transport.js'

export const host = (): string => hostname()

export const knowsSockets = true

/** How long an unused connection is kept: less than the two minutes of the server, so that calls seldom meet one that it closes. */
const idleMs = 60_000

export function openTransport(tls: TlsOptions | undefined): Transport {
  const plain = new http.Agent({ keepAlive: true, timeout: idleMs })
  const secure = new https.Agent({ keepAlive: true, timeout: idleMs, ...tls })
  const send = (call: Call) =>
    new Promise<Answer>((resolve, reject) => {
      const isSecure = call.url.startsWith('https:')
      const { body, method, headers, signal, socketPath } = call
      const request = (isSecure ? https : http).request(call.url, { method, headers: { 'user-agent': 'quern-typescript', ...headers }, signal, agent: isSecure ? secure : plain, ...(socketPath === undefined ? {} : { socketPath }) }, (answer) =>
        resolve({
          status: answer.statusCode ?? 0,
          header: (name) => {
            const value = answer.headers[name]
            return Array.isArray(value) ? value[0] : value
          },
          body: answer,
        }))
      request.on('error', (error) => reject(isUntrusted(request, error) ? new NotTrustedError('connect', error) : error))
      if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) request.end(body)
      else void pour(body, request)
    })
  return { send, close: () => [plain, secure].forEach((agent) => agent.destroy()) }
}

/** Whether a connection failed for a certificate: the failed check of the server's certificate shows it, or an alert about ours. */
function isUntrusted({ socket }: http.ClientRequest, error: NodeJS.ErrnoException): boolean {
  return Boolean((socket as TLSSocket | null)?.authorizationError) || /^ERR_SSL_.*ALERT.*(CERTIFICATE|UNKNOWN_CA)/.test(error.code ?? '')
}

/** Writes a body as it comes. An error in it breaks the call off, so that the server takes nothing. */
async function pour(body: AsyncIterable<Uint8Array>, request: http.ClientRequest): Promise<void> {
  try {
    for await (const piece of body) {
      if (request.destroyed) return
      if (!request.write(piece)) {
        await new Promise<void>((go) => {
          const done = () => {
            request.off('drain', done).off('close', done)
            go()
          }
          request.on('drain', done).on('close', done)
        })
      }
    }
    request.end()
  } catch (error) {
    request.destroy(error as Error)
  }
}
