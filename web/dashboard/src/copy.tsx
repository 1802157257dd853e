import { clamped } from './format'
import { say } from './state'

async function copy(text: string, said = ': ' + clamped(text, 80)) {
  try {
    await navigator.clipboard.writeText(text)
  } catch { // plain HTTP on a name that is not localhost has no clipboard
    const area = document.createElement('textarea')
    area.value = text
    document.body.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
  }
  say('Copied' + said)
}

export const Copy = ({ text, name }: { text: string; name: string }) => <button class="quiet low" title={text} onClick={() => copy(text)}>{name}</button>

/** The same for a text that screen readers must not read aloud. */
export const CopySecret = ({ text, name }: { text: string; name: string }) => <button class="quiet" onClick={() => copy(text, '')}>{name}</button>

/** Beside a text that is not shown whole. */
export const CopyMark = ({ text }: { text: string }) => <button class="copy" type="button" aria-label="Copy all of it" title="Copy all of it" onClick={() => copy(text)} />

/** The page's act, as commands for a shell. */
export const CopyAs = ({ curl, cli }: { curl: string; cli?: string }) => <span class="row">{cli && <Copy text={cli} name="Copy CLI" />}<Copy text={curl} name="Copy curl" /></span>
