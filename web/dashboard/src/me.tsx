import { me, setMe, who } from './session'

/** Asks for the reader's name, unless the login has one. */
export function Who({ required }: { required?: boolean }) {
  if (who.value?.name) return <p class="note">It is recorded that <b><bdi>{who.value.name}</bdi></b> did it.</p>
  return <label class="stack tight">Who<input maxLength={128} required={required ?? false} value={me.value} placeholder="your name" onInput={(e) => setMe(e.currentTarget.value)} /></label>
}
