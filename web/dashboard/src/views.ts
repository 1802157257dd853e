import { signal } from '@preact/signals'
import { read, write } from './json'

/** A list with its filters under a name, kept in this browser. */
export interface View { name: string; queue: string; query: string }

const key = 'quern.views'
const most = 50

function stored(): View[] {
  try {
    const list = read<unknown>(localStorage.getItem(key) ?? '[]')
    return Array.isArray(list) ? list.filter((v: Partial<View> | null): v is View => typeof v?.name === 'string' && typeof v.queue === 'string' && typeof v.query === 'string') : []
  } catch { return [] }
}

export const views = signal(stored())

function keep(list: View[]) {
  views.value = list
  try { localStorage.setItem(key, write(list)) } catch { /* private windows keep nothing */ }
}

/** Keeps a view in the place of that with its name and queue, if there is one; of too many the oldest goes. */
export const saveView = (v: View) => keep([...views.value.filter((old) => old.name !== v.name || old.queue !== v.queue), v].slice(-most))
export const dropView = (v: View) => keep(views.value.filter((old) => old !== v))
