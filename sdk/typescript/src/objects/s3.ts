// A bucket on S3, or on what speaks like it, with fetch.
import { pause } from '../connection.js'
import { join } from '../bytes.js'
import { type Bucket, type Listed, MissingError, plain } from './bucket.js'
import { type Credentials, sign } from './sign.js'

/** What is longer is uploaded in parts of this. */
const partBytes = 8 << 20
const tries = 5

export interface S3Options {
  /** AWS_REGION or AWS_DEFAULT_REGION unless told, then us-east-1. */
  region?: string
  /** URL of another server that speaks like S3. */
  endpoint?: string
  /** The bucket's name stands in the path, as most servers other than Amazon's want it, and not in the host's name. */
  pathStyle?: boolean
  /** Goes before all keys. */
  prefix?: string
  /** What to sign with. A function is asked before every request, as the credentials of a role end. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN unless told. */
  credentials?: Credentials | (() => Credentials | Promise<Credentials>)
}

/** S3 refused a request. */
export class S3Error extends Error {
  override name = 'S3Error'
  constructor(readonly status: number, readonly code: string, message: string) {
    super(`quern: ${message} (${code || 'status'}, ${status})`)
  }
}

interface Asked {
  query?: Record<string, string>
  body?: Uint8Array
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
}

const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
const nothing = new Uint8Array()

/** A bucket on S3. What is longer than 8 MiB is uploaded in parts. */
export class S3Bucket implements Bucket {
  readonly #bucket: string
  readonly #url: URL
  readonly #region: string
  readonly #prefix: string
  readonly #credentials: S3Options['credentials']

  constructor(bucket: string, options: S3Options = {}) {
    const region = options.region || env['AWS_REGION'] || env['AWS_DEFAULT_REGION'] || 'us-east-1'
    const given = options.endpoint || `https://s3.${region}.amazonaws.com`
    if (!/^https?:\/\/[^/]/.test(given)) throw new TypeError(`quern: the endpoint ${JSON.stringify(given)} is not a URL such as https://storage.example.com`)
    const url = new URL(given)
    if (options.pathStyle) url.pathname = url.pathname.replace(/\/*$/, `/${bucket}/`)
    else url.host = `${bucket}.${url.host}`
    this.#bucket = bucket
    this.#url = url
    this.#region = region
    this.#prefix = options.prefix ?? ''
    this.#credentials = options.credentials
  }

  async read(key: string, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const answer = await this.#ask('GET', this.#prefix + plain(key), { signal })
    return answer.body ?? new Response(nothing).body!
  }

  async write(key: string, pieces: AsyncIterable<Uint8Array>, { ifAbsent, signal }: { ifAbsent: boolean; signal?: AbortSignal | undefined }): Promise<void> {
    const name = this.#prefix + plain(key)
    const headers: Record<string, string> = ifAbsent ? { 'if-none-match': '*' } : {}
    const parts = inParts(pieces)
    try {
      const { value: first = nothing } = await parts.next()
      if (first.length < partBytes) await this.#call('PUT', name, { body: first, headers, signal })
      else await this.#writeParts(name, first, parts, headers, signal)
    } catch (error) {
      if (!(ifAbsent && error instanceof S3Error && error.status === 412)) throw error
    } finally {
      await parts.return(undefined)
    }
  }

  async #writeParts(name: string, first: Uint8Array, rest: AsyncGenerator<Uint8Array>, headers: Record<string, string>, signal?: AbortSignal): Promise<void> {
    const uploadId = textOf(await this.#call('POST', name, { query: { uploads: '' }, signal }), 'UploadId')
    if (!uploadId) throw new Error('quern: the answer has no UploadId: it is not from S3')
    try {
      let list = ''
      let number = 0
      const upload = async (body: Uint8Array) => {
        const answer = await this.#ask('PUT', name, { query: { uploadId, partNumber: String(++number) }, body, signal })
        await answer.text()
        list += `<Part><PartNumber>${number}</PartNumber><ETag>${answer.headers.get('etag')}</ETag></Part>`
      }
      await upload(first)
      for await (const part of rest) await upload(part)
      await this.#call('POST', name, { query: { uploadId }, body: new TextEncoder().encode(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`), headers, signal })
    } catch (error) {
      await this.#call('DELETE', name, { query: { uploadId } }).catch(() => {})
      throw error
    }
  }

  async *list(prefix: string): AsyncGenerator<Listed> {
    const query: Record<string, string> = { 'list-type': '2', prefix: this.#prefix + prefix }
    for (;;) {
      const page = await this.#call('GET', '', { query })
      for (const [, entry] of page.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        yield { key: textOf(entry!, 'Key').slice(this.#prefix.length), modified: new Date(textOf(entry!, 'LastModified')) }
      }
      const token = textOf(page.replace(/<Contents>.*<\/Contents>/s, ''), 'NextContinuationToken')
      if (!token) return
      query['continuation-token'] = token
    }
  }

  async delete(key: string): Promise<void> {
    await this.#call('DELETE', this.#prefix + plain(key)).catch((error) => { if (!(error instanceof MissingError)) throw error })
  }

  /** Makes a request and reads its answer whole. */
  async #call(method: string, name: string, asked: Asked = {}): Promise<string> {
    const answer = await this.#ask(method, name, asked)
    const text = await answer.text()
    if (text.includes('<Error>')) throw refusal(answer.status, text, this.#bucket) // an upload's completion can fail after its status was sent
    return text
  }

  /** Makes a request, again after what passes by. */
  async #ask(method: string, name: string, { query = {}, body = nothing, headers = {}, signal }: Asked): Promise<Response> {
    const path = this.#url.pathname + name.split('/').map(quote).join('/')
    const text = Object.entries(query).map(([key, value]) => `${quote(key)}=${quote(value)}`).sort().join('&')
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted()
      const signed = sign(await this.#who(), this.#region, { method, host: this.#url.host, path, query: text, body, headers }, new Date())
      let error: Error
      try {
        const sent = method === 'GET' || method === 'DELETE' ? {} : { body: body as BodyInit }
        const answer = await fetch(this.#url.origin + path + (text && '?' + text), { method, headers: signed, redirect: 'manual', ...sent, ...(signal ? { signal } : {}) })
        if (answer.ok) return answer
        error = refusal(answer.status, await answer.text(), `s3://${this.#bucket}/${name}`)
      } catch (cause) {
        signal?.throwIfAborted()
        error = new Error(`quern: no answer from ${this.#url.origin}`, { cause })
      }
      if (attempt === tries || !passes(error)) throw error
      await pause(Math.random() * 100 * 2 ** attempt, signal)
    }
  }

  async #who(): Promise<Credentials> {
    if (this.#credentials) return typeof this.#credentials === 'function' ? this.#credentials() : this.#credentials
    const { AWS_ACCESS_KEY_ID: accessKey, AWS_SECRET_ACCESS_KEY: secretKey, AWS_SESSION_TOKEN: session = '' } = env
    if (!accessKey || !secretKey) throw new TypeError('quern: there are no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the bucket its credentials')
    return { accessKey, secretKey, session }
  }
}

/** Cuts pieces into parts of one length; the last is shorter, or empty if there is no other. */
async function* inParts(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, undefined> {
  let waiting: Uint8Array[] = []
  let length = 0
  let count = 0
  for await (let piece of pieces) {
    while (length + piece.length >= partBytes) {
      const rest = partBytes - length
      waiting.push(piece.subarray(0, rest))
      piece = piece.subarray(rest)
      yield join(waiting)
      count++
      waiting = []
      length = 0
    }
    waiting.push(piece)
    length += piece.length
  }
  if (length > 0 || count === 0) yield join(waiting)
  return undefined
}

const passes = (error: Error) =>
  !(error instanceof MissingError) && (!(error instanceof S3Error) || [429, 500, 502, 503, 504].includes(error.status) || error.code === 'ConditionalRequestConflict' || error.code === 'RequestTimeout')

function refusal(status: number, body: string, what: string): Error {
  const message = `${what}: ${textOf(body, 'Message') || 'S3 refused the request'}`
  const refused = new S3Error(status, textOf(body, 'Code'), message)
  return status === 404 ? new MissingError(refused.message, { cause: refused }) : refused
}

/** As signatures have it, which leave alone less than encodeURIComponent does. */
const quote = (text: string) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase())

const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/** The text of an XML element; '' if there is none. */
function textOf(xml: string, name: string): string {
  const found = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? ''
  return found.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (all, decimal, hex, word) => {
    if (word) return named[word] ?? all
    return String.fromCodePoint(decimal ? Number(decimal) : parseInt(hex, 16))
  })
}
