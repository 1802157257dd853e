import { signal } from '@preact/signals'
import type { Whoami } from './types'

/** The identity that the server sees in this page's login; null until the server answered. */
export const who = signal<Whoami | null>(null)

const meKey = 'quern.me'
const stored = () => { try { return localStorage.getItem(meKey) ?? '' } catch { return '' } }

/** The reader's name, as given in a form once. It goes with every change, so that others see whom to ask. */
export const me = signal(stored())

export function setMe(text: string) {
  me.value = text
  try { localStorage.setItem(meKey, text) } catch { /* private windows keep nothing */ }
}

const header = 'Quern-On-Behalf-Of'
const mostBytes = 128

/** The name that is sent with a change; '' when the login has one, or the reader gave none. */
export function named(): string {
  if (who.value?.name) return ''
  let name = me.value.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '').trim()
  while (new TextEncoder().encode(name).length > mostBytes) name = [...name].slice(0, -1).join('')
  return name
}

/** The same as a header. Headers are bytes, so each character of the header is one byte of UTF-8. */
export function namedHeader(): Record<string, string> {
  const name = named()
  return name ? { [header]: String.fromCharCode(...new TextEncoder().encode(name)) } : {}
}

/** Whether the server wants a token before it answers: no one is logged in, or the session has ended. */
export const locked = signal(false)

/** Grows when a login begins and when it ends: it is odd while one is under way. */
let logins = 0

/** Runs a login. A request from before it that is refused now does not end the page. */
export async function enter(login: () => Promise<Whoami>) {
  logins++
  try {
    who.value = await login()
    locked.value = false
  } finally { logins++ }
}

/** Called when a request was refused for lack of a login: the page asks for a token if the server still knows no identity, and no login
 * came in between. */
export async function doubt() {
  const at = logins
  if (at % 2 === 1) return
  const over = await fetch('/v1/whoami').then((r) => r.status === 401, () => false)
  if (over && at === logins) lock()
}

/** Forgets who was logged in, with all that was shown to them: the page asks for a token. */
export function lock() {
  who.value = null
  locked.value = true
}

export const scopes = ['produce', 'consume', 'read', 'metrics', 'operate', 'plugins', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** Whether the login has one of the scopes. It only decides what the page shows: the server checks every call. */
export const may = (...any: Scope[]) => !who.value || who.value.scopes.some((s) => s === 'admin' || any.includes(s as Scope))

/** The value of a meta key that the token is bound to, if it is: the token then sees only the value's submissions, and no numbers of a
 * whole queue. */
export const boundTo = () => who.value?.meta

/** Why something cannot be done here; undefined when it can. */
export const lacks = (...any: Scope[]) => (may(...any) ? undefined : `This needs the scope ${any.join(' or ')}, which ${who.value?.name ?? 'the token'} does not have.`)
