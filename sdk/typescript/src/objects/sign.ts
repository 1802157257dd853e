// Signatures of version 4, with which S3 knows who asks.
import { createHash, createHmac } from 'node:crypto'

/** What requests are signed with. session is that of a role, which is for some hours. */
export interface Credentials {
  accessKey: string
  secretKey: string
  session?: string
}

export interface Signable {
  method: string
  host: string
  /** Path and query as they are sent, the query in order. */
  path: string
  query: string
  body: Uint8Array
  headers: Readonly<Record<string, string>>
}

const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex')

/** The headers of a request with its signature; host is signed, and the sender's to write. */
export function sign({ accessKey, secretKey, session }: Credentials, region: string, request: Signable, at: Date): Record<string, string> {
  const time = at.toISOString().replace(/[-:]|\.\d+/g, '')
  const payload = sha256(request.body)
  const headers: Record<string, string> = { ...request.headers, 'x-amz-date': time, 'x-amz-content-sha256': payload, ...(session ? { 'x-amz-security-token': session } : {}) }
  const listed = Object.entries({ host: request.host, ...headers })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/\s+/g, ' ')] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const names = listed.map(([name]) => name).join(';')
  const canonical = [request.method, request.path, request.query, ...listed.map(([name, value]) => `${name}:${value}`), '', names, payload].join('\n')
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`
  const parts = [...scope.split('/'), ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n')]
  const signature = parts.reduce((key, part) => createHmac('sha256', key).update(part).digest(), Buffer.from('AWS4' + secretKey))
  return { ...headers, authorization: `AWS4-HMAC-SHA256 Credential=${accessKey}/${scope}, SignedHeaders=${names}, Signature=${signature.toString('hex')}` }
}
