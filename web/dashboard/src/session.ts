import { signal } from '@preact/signals'
import type { Whoami } from './types'

/** Who the server takes this page for; null until it said so. */
export const who = signal<Whoami | null>(null)

const meKey = 'quern.me'
const stored = () => { try { return localStorage.getItem(meKey) ?? '' } catch { return '' } }

/** Who sits here, as said in a form once: it goes with all that is changed, so that others see whom to ask. */
export const me = signal(stored())

export function setMe(text: string) {
  me.value = text
  try { localStorage.setItem(meKey, text) } catch { /* private windows keep nothing */ }
}

const header = 'Quern-On-Behalf-Of'
const mostBytes = 128

/** The name that a change is sent with; none when the login tells it, or no one said one. */
export function named(): string {
  if (who.value?.name) return ''
  let name = me.value.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '').trim()
  while (new TextEncoder().encode(name).length > mostBytes) name = [...name].slice(0, -1).join('')
  return name
}

/** The same as a header. Headers are bytes: those of UTF-8 stand one in a character. */
export function namedHeader(): Record<string, string> {
  const name = named()
  return name ? { [header]: String.fromCharCode(...new TextEncoder().encode(name)) } : {}
}

/** Whether the server wants a token before it says anything: no one is logged in, or the session has ended. */
export const locked = signal(false)

/** Grows when a login begins and when it ends: it is odd while one is under way. */
let logins = 0

/** Runs what ends in a login. What was asked before it, and is refused now, does not end the page. */
export async function enter(login: () => Promise<Whoami>) {
  logins++
  try {
    who.value = await login()
    locked.value = false
  } finally { logins++ }
}

/** Hears that a request was refused for want of a login: the page is over if the server still does not know who it is, and no login came in between. */
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

/** Whether one of the scopes is there. It only decides what is shown: the server looks for itself. */
export const may = (...any: Scope[]) => !who.value || who.value.scopes.some((s) => s === 'admin' || any.includes(s as Scope))

/** What the token is bound to, when that is one value of a meta key: it sees its submissions, and no number of a whole queue. */
export const boundTo = () => who.value?.meta

/** Why something cannot be done here; undefined when it can. */
export const lacks = (...any: Scope[]) => (may(...any) ? undefined : `This needs the scope ${any.join(' or ')}, which ${who.value?.name ?? 'the token'} does not have.`)
