import { signal } from '@preact/signals'

const name = 'quern.me'
const stored = () => { try { return localStorage.getItem(name) ?? '' } catch { return '' } }

/** Who sits here, as said in a form once: it is sent with rules and operations, so that others see whom to ask. */
export const me = signal(stored())

export function setMe(text: string) {
  me.value = text
  try { localStorage.setItem(name, text) } catch { /* private windows keep nothing */ }
}

/** The part of a request that says who asks; nothing when nobody said so. */
export const asMe = (): { actor?: string } => (me.value.trim() ? { actor: me.value.trim() } : {})

export const Who = ({ required }: { required?: boolean }) => <label class="stack tight">Who<input maxLength={128} required={required ?? false} value={me.value} placeholder="your name" onInput={(e) => setMe(e.currentTarget.value)} /></label>
