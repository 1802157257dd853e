// Submissions whose contents and outputs are objects.
import { createHash, randomBytes } from 'node:crypto'
import type { Chunk } from '../chunk.js'
import type { Client, InsertOptions } from '../client.js'
import type { Insert } from '../insert.js'
import { drawKey } from '../connection.js'
import type { Submission } from '../generated/types.js'
import type { CallOptions } from '../pages.js'
import type { WorkOptions } from '../work.js'
import { type Content, piecesOf, plain } from './content.js'

/** An object that a bucket lists. */
export interface Listed {
  key: string
  modified: Date
}

/** Objects by their keys. Several calls may run at once. */
export interface Bucket {
  /** Stores a whole object, or nothing if the pieces throw. With ifAbsent, an existing object stays as it is; that is no error. */
  put(key: string, pieces: AsyncIterable<Uint8Array>, options: { ifAbsent: boolean; signal?: AbortSignal | undefined }): Promise<void>
  /** Opens an object, or throws if there is none. */
  get(key: string, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>>
  /** The objects whose keys begin with prefix, in any order. */
  list(prefix: string): AsyncIterable<Listed>
  /** Removes an object. It is no error if there is none. */
  delete(key: string): Promise<void>
}

/**
 * A handler: it does the work of one chunk, and reads its content like an answer of fetch: content.text(), .json(), .arrayBuffer(), or
 * .body, a stream. The returned content becomes an object, and the chunk's output is its key; without one there is no output.
 */
export type ObjectHandler = (chunk: Chunk, content: Response) => Promise<Content | null | undefined | void> | Content | null | undefined | void

const contents = 'quern/contents/'
const outputs = 'quern/outputs/'
/** Of the hash that names a folder of contents, in bytes. */
const idBytes = 16
const mostChunks = 2 ** 32 - 1

/** A server, and the bucket with the objects of its submissions. If you use sweep, no two servers may share a bucket and prefix. */
export class Store {
  readonly #parallel: number

  /** parallel: how many objects to upload or remove at once; 8 by default. */
  constructor(readonly client: Client, readonly bucket: Bucket, options: { parallel?: number } = {}) {
    this.#parallel = options.parallel ?? 8
  }

  /** Opens an object, such as a chunk's output: its text() and body read it. */
  async open(key: string, signal?: AbortSignal): Promise<Response> {
    return new Response((await this.bucket.get(plain(key), signal)) as BodyInit)
  }

  /**
   * Uploads one object per chunk, and inserts when all are there.
   *
   * The key is the idempotency key; by default it is random. You can repeat a call that was interrupted with its key: it keeps the
   * uploaded objects, uploads the rest, and inserts one submission. This works for a day, as long as the server remembers the key. If an
   * upload fails and the key was random, submit removes the uploaded objects. After a failed insert they stay, because the server may
   * have inserted the submission; sweep removes them if it has not.
   */
  async submit(queue: string, work: Omit<Insert, 'chunks'>, all: Iterable<Content> | AsyncIterable<Content>, options: InsertOptions = {}): Promise<Submission> {
    const key = options.key ?? drawKey()
    const prefix = contentsOf(queue, key)
    let count = 0
    try {
      await this.#each(all, (content) => {
        if (count === mostChunks) throw new TypeError(`quern: there are more than ${mostChunks} chunks, the most that a submission has`)
        return this.bucket.put(prefix + count++, piecesOf(content), { ifAbsent: true, signal: options.signal })
      }, options.signal)
      if (count === 0) throw new TypeError('quern: there are no contents; a submission has at least one chunk')
    } catch (error) {
      if (options.key === undefined) await this.#removeFolder(prefix).catch(() => {})
      throw error
    }
    return this.client.insert(queue, { ...work, chunks: { count, prefix } }, { ...options, key })
  }

  /**
   * Works like the client's work, for a handler that reads and writes objects. If a chunk has no key, the handler reads the content of
   * the reservation in the same way. If the object cannot be opened, the attempt fails. Each attempt writes an object of its own, so a
   * consumer that lost its chunk cannot replace the output that counts.
   */
  work(options: WorkOptions, handler: ObjectHandler): Promise<void> {
    return this.client.work(options, async (chunk) => {
      const content = chunk.key === undefined ? new Response(chunk.bytes as BodyInit) : await this.open(chunk.key, chunk.signal)
      try {
        const output = await handler(chunk, content)
        if (output === undefined || output === null) return
        const key = `${outputs}${chunk.submission}/${chunk.index}-${randomBytes(13).toString('hex')}`
        await this.bucket.put(key, piecesOf(output), { ifAbsent: false, signal: chunk.signal })
        return key
      } finally {
        if (!content.bodyUsed) await content.body?.cancel().catch(() => {})
      }
    })
  }

  /**
   * Removes the objects of one submission: the contents that submit uploaded, and all outputs. Attempts that still run fail, and so do
   * the submission's dead letters in other queues, which have only the key.
   */
  async remove(submission: Pick<Submission, 'id' | 'prefix'>): Promise<void> {
    for (const folder of foldersOf(submission)) await this.#removeFolder(folder)
  }

  /**
   * Removes the objects of submissions that the server does not have: those whose retention is over, that went with their queue, or that
   * were never inserted. It removes a submission's objects when the last of them is older than the given time, which must be longer than
   * any submit takes: a day is usual. It asks for all submissions of all queues, so its access token must see them all. It returns the
   * number of removed folders.
   */
  async sweep(olderThanMs: number, options: CallOptions = {}): Promise<number> {
    // Folders first, submissions second: this sees a submission that is inserted meanwhile.
    const old = await this.#oldFolders(Date.now() - olderThanMs)
    const who = await this.client.whoami(options)
    if (who.queues?.length || Object.keys(who.meta ?? {}).length) {
      throw new Error(`quern: nothing was removed: the access token ${JSON.stringify(who.name)} sees only some submissions; use one without a restriction`)
    }
    if (old.size === 0) return 0
    for await (const queue of this.client.listQueues(options)) {
      for await (const submission of this.client.listSubmissions(queue.name, { limit: 1000, ...options })) foldersOf(submission).forEach((folder) => old.delete(folder))
    }
    for (const folder of old) await this.#removeFolder(folder)
    return old.size
  }

  async #oldFolders(before: number): Promise<Set<string>> {
    const old = new Set<string>()
    const young = new Set([''])
    for (const root of [contents, outputs]) {
      for await (const { key, modified } of this.bucket.list(root)) (modified.getTime() < before ? old : young).add(folderOf(key))
    }
    young.forEach((folder) => old.delete(folder))
    return old
  }

  #removeFolder(folder: string): Promise<void> {
    return this.#each(this.bucket.list(folder), ({ key }) => this.bucket.delete(key))
  }

  /** Calls act for each item, a bounded number at once, until one call fails; ends when no call is under way any more. */
  async #each<T>(all: Iterable<T> | AsyncIterable<T>, act: (one: T) => Promise<void>, signal?: AbortSignal): Promise<void> {
    const running = new Set<Promise<void>>()
    const failed: unknown[] = []
    try {
      for await (const one of all) {
        signal?.throwIfAborted()
        const task = act(one).catch((error) => void failed.push(error)).finally(() => running.delete(task))
        running.add(task)
        if (running.size >= this.#parallel) await Promise.race(running)
        if (failed.length > 0) break
      }
    } finally {
      await Promise.all(running)
    }
    if (failed.length > 0) throw failed[0]
  }
}

/** The folder of a submission's contents. Its name comes from the key, because the insert names the folder before there is an id. A second
 * call with the key also finds the objects of the first. */
const contentsOf = (queue: string, key: string) => `${contents}${createHash('sha256').update(`${queue}\0${key}`).digest('hex').slice(0, 2 * idBytes)}/`

/** The folders with the objects of a submission. */
function foldersOf({ id, prefix = '' }: Pick<Submission, 'id' | 'prefix'>): string[] {
  const folder = folderOf(prefix)
  return folder !== '' && folder === prefix ? [`${outputs}${id}/`, folder] : [`${outputs}${id}/`]
}

/** The folder of a submission that a key is below; '' if no store made it. */
const folderOf = (key: string) => /^quern\/(?:contents\/[0-9a-f]{32}|outputs\/[^/]+)\//.exec(key)?.[0] ?? ''
