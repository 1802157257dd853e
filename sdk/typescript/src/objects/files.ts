// A bucket of files, for Node and Deno.
import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, open, readdir, realpath, rename, rm, rmdir, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { Readable } from 'node:stream'
import { plain } from './content.js'
import type { Bucket, Listed } from './store.js'

/** Beside an object that sdk/objects wrote in Go: its type and sum. */
const attributes = '.attrs'
/** Begins the name of a file that is being written. */
const unfinished = '.quern-unfinished-'
/** How often a folder is made again after another process removed it. */
const maxFolders = 10

/** Objects as files below a folder, which it creates if necessary. */
export class FileBucket implements Bucket {
  readonly #root: string

  constructor(folder: string) {
    this.#root = resolve(folder)
  }

  async get(key: string, signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const path = await this.#path(key)
    await stat(path) // fails here, and not when it is read
    return Readable.toWeb(createReadStream(path, signal ? { signal } : {})) as ReadableStream<Uint8Array>
  }

  async put(key: string, pieces: AsyncIterable<Uint8Array>, { ifAbsent }: { ifAbsent: boolean }): Promise<void> {
    const path = await this.#path(key)
    if (ifAbsent && (await stat(path).catch(() => undefined))) return
    const name = join(dirname(path), unfinished + randomBytes(8).toString('hex'))
    const file = await begin(name)
    try {
      try {
        for await (const piece of pieces) await file.writeFile(piece)
        await file.sync() // an object is on the disk before the queue has its key
      } finally {
        await file.close()
      }
      if (!ifAbsent) await rename(name, path)
      else await link(name, path).catch((error) => { if (error.code !== 'EEXIST') throw error })
    } finally {
      await rm(name, { force: true })
    }
  }

  async *list(prefix: string): AsyncGenerator<Listed> {
    const folders = [prefix.slice(0, prefix.lastIndexOf('/') + 1)]
    for (let folder; (folder = folders.pop()) !== undefined;) {
      for (const entry of await readdir(join(this.#root, folder), { withFileTypes: true }).catch(() => [])) {
        const key = folder + entry.name
        if (entry.isDirectory()) folders.push(key + '/')
        if (!entry.isFile() || !key.startsWith(prefix) || reserved(entry.name)) continue
        const about = await stat(join(this.#root, key)).catch(() => undefined)
        if (about) yield { key, modified: about.mtime }
      }
    }
  }

  async delete(key: string): Promise<void> {
    const path = await this.#path(key)
    await rm(path, { force: true })
    await rm(path + attributes, { force: true })
    await rmdir(dirname(path)).catch(() => {}) // others are in it, or it is gone
  }

  async #path(key: string): Promise<string> {
    const path = join(this.#root, ...plain(key).split('/'))
    if (reserved(basename(path))) throw new TypeError(`quern: the key ${JSON.stringify(key)} is a name that the bucket uses itself`)
    const real = await realpath(path).catch(() => undefined) // undefined: there is none yet
    const root = real && (await realpath(this.#root))
    if (real && root && !real.startsWith(root.endsWith(sep) ? root : root + sep)) throw new TypeError(`quern: the key ${JSON.stringify(key)} leads out of the bucket, by a link`)
    return path
  }
}

const reserved = (name: string) => name.startsWith(unfinished) || name.endsWith(attributes)

/** Makes a new file. A folder that another removes, as the last object left it, is made again. */
async function begin(name: string) {
  for (let attempt = 0; ; attempt++) {
    await mkdir(dirname(name), { recursive: true })
    try {
      return await open(name, 'wx')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === maxFolders) throw error
    }
  }
}
