// The interface of transports, which carry calls: node:http and node:https in Node, fetch in Deno and browsers. package.json
// chooses one, as #transport.

/** One try of a call. */
export interface Call {
  method: string
  url: string
  /** Path of a Unix socket to call, in the place of the URL's host. */
  socketPath: string | undefined
  headers: Record<string, string>
  body: string | Uint8Array | AsyncIterable<Uint8Array> | undefined
  signal: AbortSignal
}

/** The answer to one try. A body that breaks off throws; a caller that does not read it to its end aborts the call's signal. */
export interface Answer {
  status: number
  header(name: string): string | undefined
  body: AsyncIterable<Uint8Array>
}

/** Carries calls. An error means that there is no answer; a NotTrustedError means that a certificate is the cause. */
export interface Transport {
  send(call: Call): Promise<Answer>
  /** Closes connections that are not in use. */
  close(): void
}

/** How connections to https addresses are secured. Browsers have only their own settings. */
export interface TlsOptions {
  /** Authorities to trust instead of the runtime's, as PEM. */
  ca?: string
  /** Certificate to show, as PEM, with its key. */
  cert?: string
  key?: string
  /** Name that the server's certificate must have, if it is not that of the address. Node only. */
  servername?: string
}
