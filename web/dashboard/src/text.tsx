import { options } from 'preact'
import { clamped, local, visible } from './format'
import { CopyMark } from './copy'

/** All rendered text goes through here, so that a client's text cannot reverse or hide the text beside it. Copied and sent texts stay as
 * they are. */
const before = options.vnode
options.vnode = (node) => {
  const { type, props } = node as { type: unknown; props: unknown }
  if (typeof props === 'string') (node as { props: unknown }).props = visible(props)
  else if (typeof type === 'string') {
    const named = props as Record<string, unknown>
    for (const name of ['title', 'aria-label']) if (typeof named[name] === 'string') named[name] = visible(named[name])
  }
  before?.(node)
}

/** The room that a name has in a table. */
export const nameLength = 28

/** A name or another text of a client: isolated from the text beside it, and without its middle when it is long. Then its title has all of
 * it, and a button copies it. */
export function Clamp({ text, most = nameLength, href }: { text: string; most?: number; href?: string }) {
  const whole = visible(text)
  const part = clamped(whole, most)
  const cut = part !== whole
  const name = <bdi title={cut ? whole : undefined}>{part}</bdi>
  return <>{href === undefined ? name : <a class="mono" href={href}>{name}</a>}{cut && <CopyMark text={text} />}</>
}

/** Text that is read from right to left, with digits and spaces inside it. */
const fromTheRight = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff](?:[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\d_ -]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff])?)/

/** A sentence in which long names stand without their middles, times are the reader's, and no name turns around the numbers beside it. */
export function Sentence({ text }: { text: string }) {
  const part = local(text).replace(/\S{41,}/g, (name) => clamped(visible(name), 40))
  return <span title={part === text ? undefined : text}>{part.split(fromTheRight).map((piece, i) => (i % 2 ? <bdi key={i}>{piece}</bdi> : piece))}</span>
}

/** The room that an error has in a row. */
const lineLength = 120

/** A text of many words: its beginning, and all of it once it is opened. */
export function Expand({ text }: { text: string }) {
  const part = text.length > lineLength ? text.slice(0, lineLength).replace(/\s+\S*$/, '') + '…' : text.replaceAll(/\s*\n\s*/g, ' ')
  if (part === text) return <bdi>{text}</bdi>
  return <details class="expand"><summary><bdi>{part}</bdi></summary><pre class="wrap" tabIndex={0}>{text}</pre></details>
}
