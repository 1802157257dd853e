// Where calls go: to the addresses of a client, and to owners of queues that answers name.
import { NotTrustedError, OverloadedError, QuernError, UnavailableError } from './error.js'
import { knowsSockets } from '#transport'

export interface Address {
  base: string
  socketPath?: string
}

const maxQueues = 256 // whose owners are remembered
const maxNodes = 64 // that are not trusted; a cluster has no more
const maxUrl = 2048 // of an owner

/** Whether another try does not help: the call was refused for good, or a certificate is not trusted. */
export const isFinal = (error: unknown): boolean =>
  error instanceof NotTrustedError || (error instanceof QuernError && !(error instanceof OverloadedError || error instanceof UnavailableError))

export class Addresses {
  readonly #given: Address[]
  readonly #direct: boolean
  readonly #owners = new Map<string, Address>() // by the name of a queue, as paths spell it
  readonly #distrusted = new Map<string, true>() // by base
  #at = 0 // which of the given addresses calls go to

  constructor(given: string | readonly string[], direct: boolean) {
    this.#given = shuffled([given].flat().map(checkAddress))
    this.#direct = direct
    if (this.#given.length === 0) throw new TypeError('quern: there is no address: name at least one, such as http://127.0.0.1:7700')
  }

  /** How many other addresses a call may try before it pauses. */
  get others(): number {
    return this.#given.length - (this.#direct ? 0 : 1)
  }

  /** Where a call goes now. */
  of(path: string): Address {
    return this.#owners.get(queueOf(path)) ?? this.#given[this.#at]!
  }

  /**
   * Sends the next calls elsewhere, if the error shows that this address does not serve, and says whether they go elsewhere. A server that is only
   * busy would be as busy by another way. An owner that is not trusted is called no more.
   */
  leave(path: string, address: Address, error: unknown): boolean {
    const distrusted = error instanceof NotTrustedError && !this.#given.includes(address)
    if (!distrusted && (isFinal(error) || error instanceof OverloadedError)) return false
    if (distrusted) put(this.#distrusted, maxNodes, address.base, true)
    const queue = queueOf(path)
    if (this.#owners.get(queue) === address) return this.#owners.delete(queue)
    if (this.#given[this.#at] === address) this.#at = (this.#at + 1) % this.#given.length
    return distrusted || this.#given.length > 1
  }

  /**
   * Remembers the owner that an answer from an address names, and returns it if calls may go there. A token goes only to the client's own
   * addresses, and to others of the same scheme: an answer over https never leads to a call without TLS, and an answer from a socket never
   * leads into the network.
   */
  heard(path: string, from: Address, status: number, url: string | undefined): Address | undefined {
    if (!url || url.length > maxUrl || (!this.#direct && status !== 421)) return undefined
    let owner: Address
    try {
      owner = checkAddress(url)
    } catch {
      return undefined
    }
    const known = [...this.#given, from, this.#owners.get(queueOf(path))].find((one) => one?.base === owner.base && one.socketPath === owner.socketPath)
    const foreign = !known && (from.socketPath !== undefined || owner.socketPath !== undefined || schemeOf(owner) !== schemeOf(from))
    if (foreign || this.#distrusted.has(owner.base)) return undefined
    owner = known ?? owner
    const queue = queueOf(path)
    if (this.#direct && queue) put(this.#owners, maxQueues, queue, owner)
    return owner
  }
}

const schemeOf = ({ base }: Address) => base.slice(0, base.indexOf(':'))

/** Adds to a map of bounded size, in the place of its oldest entry when it is full. */
function put<V>(into: Map<string, V>, most: number, key: string, value: V): void {
  if (!into.has(key) && into.size >= most) into.delete(into.keys().next().value!)
  into.set(key, value)
}

/** The queue that a path is about, as the path spells it; '' if there is none. */
const queueOf = (path: string): string => /^\/v1\/queues\/([^/?]+)/.exec(path)?.[1] ?? ''

/** A list in an order that is drawn, so that clients spread. */
function shuffled<T>(list: T[]): T[] {
  for (let i = list.length - 1; i > 0; i--) {
    const other = Math.floor(Math.random() * (i + 1))
    ;[list[i], list[other]] = [list[other]!, list[i]!]
  }
  return list
}

function checkAddress(address: string): Address {
  if (address.startsWith('unix:')) {
    const socketPath = address.slice('unix:'.length).replace(/^\/\//, '')
    if (!knowsSockets) throw new TypeError('quern: this runtime cannot call a Unix socket: Node can')
    if (!socketPath) throw new TypeError(`quern: ${JSON.stringify(address)} is not an address of a server: write the path of the socket behind unix:`)
    return { base: 'http://localhost', socketPath }
  }
  let url: URL
  try {
    url = new URL(address)
  } catch {
    throw new TypeError(`quern: ${JSON.stringify(address)} is not an address of a server: write it as http://host:port, https://host:port or unix:PATH`)
  }
  if (!/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) throw new TypeError(`quern: ${JSON.stringify(address)} is not an address of a server: write it as http://host:port, https://host:port or unix:PATH`)
  return { base: (url.origin + url.pathname).replace(/\/+$/, '') }
}
