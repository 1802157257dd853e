import { computed, signal } from '@preact/signals'
import type { Scope } from './session'

/** Where the reader is: #/page/rest?filters. Everything that a page filters by stands in it, so that a link shows the same. */
export interface Route { page: string; rest: string; query: URLSearchParams }

/** Decodes a part of the address. Text that is not escaped, because someone typed it, stays as it is. */
const decoded = (text: string) => { try { return decodeURIComponent(text) } catch { return text } }

function parse(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2)
  const [page = '', ...rest] = path.split('/')
  return { page: page || 'overview', rest: rest.map(decoded).join('/'), query: new URLSearchParams(query) }
}

export const route = signal<Route>(parse())
addEventListener('hashchange', () => { route.value = parse() })

export const queue = computed(() => route.value.query.get('queue') ?? 'default')

/** The address of a page with filters; the queue stays, empty filters are left out. */
export function link(path: string, filters: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams()
  if (queue.value !== 'default') q.set('queue', queue.value)
  for (const [name, value] of Object.entries(filters)) {
    if (value) q.set(name, value)
    else q.delete(name)
  }
  const text = q.toString()
  return `#/${path}${text ? '?' + text : ''}`
}

/** The address of the page of a value of a meta key; text is as in paths. */
export const valueLink = (key: string, text: string) => link(`keys/${encodeURIComponent(key)}/${encodeURIComponent(text)}`)

/** The address of a page of another queue. */
export const inQueue = (name: string, page = 'overview') => `#/${page}${name === 'default' ? '' : `?queue=${encodeURIComponent(name)}`}`

/** The address of this page with other filters; undefined ones are left out. */
export function here(changes: Record<string, string | undefined>): string {
  const q = new URLSearchParams(route.value.query)
  for (const [name, value] of Object.entries(changes)) value ? q.set(name, value) : q.delete(name)
  const path = location.hash.replace(/^#\/?/, '').split('?', 1)[0]
  const text = q.toString()
  return `#/${path}${text ? '?' + text : ''}`
}

/** Changes filters of the page without leaving a step in the history. */
export function refine(changes: Record<string, string | undefined>) {
  history.replaceState(history.state, '', here(changes))
  route.value = parse()
}

export type Theme = 'system' | 'light' | 'dark'
const stored = () => { try { return localStorage.getItem('quern.theme') } catch { return null } }
const prefersDark = matchMedia('(prefers-color-scheme: dark)')
export const theme = signal<Theme>((stored() as Theme | null) ?? 'system')
const systemDark = signal(prefersDark.matches)
prefersDark.addEventListener('change', (e) => { systemDark.value = e.matches })
export const dark = computed(() => (theme.value === 'system' ? systemDark.value : theme.value === 'dark'))
dark.subscribe((on) => { document.documentElement.dataset.theme = on ? 'dark' : 'light' })

export function setTheme(t: Theme) {
  theme.value = t
  try { localStorage.setItem('quern.theme', t) } catch { /* private windows keep nothing */ }
}

/** An act that takes a change back. */
export interface Undo {
  /** The act, in words. */
  text: string
  run: () => Promise<unknown>
  /** The scope that the act needs, if it is not operate. */
  scope?: Scope
}

export const toast = signal<{ text: string; undo?: Undo | undefined } | null>(null)
let toastTimer = 0

/** Shows what was done, for a moment; longer where it can be taken back. */
export function say(text: string, undo?: Undo) {
  toast.value = { text, undo }
  clearTimeout(toastTimer)
  toastTimer = setTimeout(() => { toast.value = null }, undo ? 15_000 : 4000) as unknown as number
}
