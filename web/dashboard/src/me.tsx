import { signal } from '@preact/signals'
import { who } from './session'

const name = 'quern.me'
const stored = () => { try { return localStorage.getItem(name) ?? '' } catch { return '' } }

/** Who sits here, as said in a form once: it is sent with rules and operations, so that others see whom to ask. */
export const me = signal(stored())

export function setMe(text: string) {
  me.value = text
  try { localStorage.setItem(name, text) } catch { /* private windows keep nothing */ }
}

/** The part of a request that says who asks: the name of the login, which the server knows by itself, else what was said; nothing when no one said so. */
export function asMe(): { actor?: string } {
  const actor = who.value?.name ?? me.value.trim()
  return actor ? { actor } : {}
}

/** The same in an address. */
export const asMeQuery = () => { const { actor } = asMe(); return actor ? '?' + new URLSearchParams({ actor }) : '' }

/** Asks for the name of who sits here, unless the login tells it. */
export function Who({ required }: { required?: boolean }) {
  if (who.value?.name) return <p class="note">It is recorded that <b><bdi>{who.value.name}</bdi></b> did it.</p>
  return <label class="stack tight">Who<input maxLength={128} required={required ?? false} value={me.value} placeholder="your name" onInput={(e) => setMe(e.currentTarget.value)} /></label>
}
