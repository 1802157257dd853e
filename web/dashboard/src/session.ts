import { signal } from '@preact/signals'
import type { Whoami } from './types'

/** Who the server takes this page for; null until it said so. */
export const who = signal<Whoami | null>(null)

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
export const lacks = (...any: Scope[]) => (may(...any) ? undefined : `This takes the scope ${any.join(' or ')}, which ${who.value?.name ?? 'the token'} does not have.`)
