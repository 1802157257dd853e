import { signal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { call, queuePath, valueOf, valueText } from './api'
import { offered, places } from './nav'
import { queueName } from './format'
import { boundTo } from './session'
import { dark, inQueue, link, queue, setTheme, valueLink } from './state'
import { frozen, keys, serves } from './stream'
import type { Consumer, NamedStrategy, Page, Plugin, Queue } from './types'

export const paletteOpen = signal(false)

interface Entry {
  name: string; kind: string; find: string; go: () => void
  /** The beginning that the typed text needs to match this entry, if that is not the name. */
  own?: string
}

const most = 12
/** Values come first, and leave room for other matches. */
const mostValues = 6

/** Everything that has an address, found by typing: pages, submissions, chunks, values, consumers, strategies, plugins, queues. */
export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === 'Escape') paletteOpen.value = false
      if (e.key.toLowerCase() !== 'k' || !(e.ctrlKey || e.metaKey) || e.altKey) return
      e.preventDefault()
      paletteOpen.value = !paletteOpen.value
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
  useLayoutEffect(() => { // before the next key is handled, so that fast typing never meets the previous dialog
    if (paletteOpen.value && !dialog.current?.open) dialog.current?.showModal()
    if (!paletteOpen.value) dialog.current?.close()
  }, [paletteOpen.value])
  // The event of a close comes later than the close. By then the dialog may be open again, and must stay so.
  const closed = () => { if (!dialog.current?.open) paletteOpen.value = false }
  return (
    <dialog ref={dialog} class="palette" aria-label="Go to" onClose={closed} onClick={(e) => { if (e.target === dialog.current) paletteOpen.value = false }}>
      {paletteOpen.value && <Finder />}
    </dialog>
  )
}

function Finder() {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const [named, setNamed] = useState<Entry[]>()
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => { input.current?.focus() }, [])
  useEffect(() => {
    const ended = new AbortController()
    const of = queue.value
    void Promise.all([
      ...(boundTo() || !serves.value ? [] : [call<Page<NamedStrategy>>('GET', `${queuePath(of)}/strategies?limit=1000`, undefined, {}, ended.signal).then((l) => l.items.map((s) => to('strategy', s.name, 'strategies', { text: s.strategy })), () => []),
        call<Page<Consumer>>('GET', `${queuePath(of)}/consumers?limit=1000`, undefined, {}, ended.signal).then((l) => l.items.filter((c) => c.consumer).map((c) => to('consumer', c.consumer, 'consumers/' + encodeURIComponent(c.consumer))), () => [])]),
      ...(!places.some((p) => p.page === 'plugins' && offered(p)) ? [] : [call<Page<Plugin>>('GET', '/v1/plugins?limit=1000', undefined, {}, ended.signal).then((l) => l.items.map((p) => to('plugin', p.name, 'plugins/' + p.name)), () => [])]),
      call<Page<Queue>>('GET', '/v1/queues', undefined, {}, ended.signal).then((l) => l.items.map((q) => ({ name: queueName(q.name), kind: 'queue', find: `queue ${q.name} ${queueName(q.name)}`, go: () => { location.hash = inQueue(q.name) } })), () => []),
    ]).then((all) => { if (!ended.signal.aborted) setNamed(all.flat()) })
    return () => ended.abort()
  }, [])
  const found = matching(text.trim(), named ?? [])
  const place = Math.min(at, found.length - 1)
  const choose = (entry: Entry | undefined) => {
    if (!entry) return
    paletteOpen.value = false
    entry.go()
  }
  const key = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') setAt(Math.min(found.length - 1, place + 1))
    else if (e.key === 'ArrowUp') setAt(Math.max(0, place - 1))
    else if (e.key === 'Enter') choose(found[place])
    else return
    e.preventDefault()
  }
  return (
    <>
      <input ref={input} role="combobox" aria-expanded="true" aria-controls="palette-found" aria-activedescendant={found.length > 0 ? 'palette-' + place : undefined} aria-label="Page, id, value, consumer, strategy or plugin"
        placeholder="Page, submission id, id/chunk, company=acme, consumer, strategy, plugin…" value={text} onInput={(e) => { setText(e.currentTarget.value); setAt(0) }} onKeyDown={key} />
      <ul id="palette-found" role="listbox" aria-label="Found">
        {found.map((f, i) => <li key={f.kind + f.name} id={'palette-' + i} role="option" aria-selected={i === place} onPointerMove={() => setAt(i)} onClick={() => choose(f)}><span>{f.name}</span><small>{f.kind}</small></li>)}
        {found.length === 0 && <li role="option" aria-selected="false" aria-disabled="true"><span>{named ? 'No match. An id opens its submission, KEY=VALUE the page of a value.' : 'Reading…'}</span></li>}
      </ul>
      <p class="note"><kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>Enter</kbd> goes, <kbd>Esc</kbd> closes</p>
    </>
  )
}

const to = (kind: string, name: string, path: string, filters: Record<string, string> = {}): Entry => ({ name, kind, find: `${kind} ${name}`, go: () => { location.hash = link(path, filters) } })

const toValue = (key: string, text: string): Entry => ({ name: `${key}=${text}`, kind: 'value', own: text, find: `value ${key} ${text}`, go: () => { location.hash = valueLink(key, text) } })

/** The entries that match the text: first an address that it spells, then names that begin with it, then names that contain it; values
 * before all others. */
function matching(text: string, named: Entry[]): Entry[] {
  const spelled: Entry[] = []
  const chunk = /^(\d+)\/(\d+)$/.exec(text)
  const meta = /^([\w.-]+)(?:=|\s+)(.+)$/.exec(text)
  if (chunk) spelled.push(to('chunk', text, `submissions/${chunk[1]}/${chunk[2]}`))
  else if (/^\d{4,}$/.test(text)) spelled.push(to('submission', text, 'submissions/' + text))
  else if (meta && (text.includes('=') || (keys.value?.keys ?? []).some((k) => k.key === meta[1]))) spelled.push(toValue(meta[1]!, valueText(valueOf(meta[2]!))), to('submissions with', `${meta[1]}=${meta[2]}`, 'submissions', { ['meta.' + meta[1]]: meta[2]! }))
  const all: Entry[] = [
    ...(text ? (keys.value?.keys ?? []).flatMap((k) => k.top.map((v) => toValue(k.key, valueText(v.value)))) : []),
    ...places.filter(offered).map((p) => ({ ...to('page', p.name, p.page), find: `${p.name} ${p.also}` })),
    { name: frozen.value ? 'Unfreeze view' : 'Freeze view', kind: 'this page', find: 'freeze pause resume', go: () => { frozen.value = !frozen.value } },
    { name: dark.value ? 'Light' : 'Dark', kind: 'this page', find: 'theme light dark', go: () => setTheme(dark.value ? 'light' : 'dark') },
    ...named,
    ...(keys.value?.keys ?? []).map((k) => to('key', k.key, 'keys', { key: k.key })),
  ]
  const want = text.toLowerCase()
  const rank = (e: Entry) => ((e.own ?? e.name).toLowerCase().startsWith(want) ? 0 : e.find.toLowerCase().includes(want) || e.name.toLowerCase().includes(want) ? 1 : 2)
  const once = new Set(spelled.map((e) => e.kind + e.name))
  let values = 0
  const fits = all.filter((e) => !once.has(e.kind + e.name)).map((e) => [rank(e), e] as const).filter(([r]) => r < 2).sort(([a], [b]) => a - b).map(([, e]) => e)
  return [...spelled, ...fits.filter((e) => e.kind !== 'value' || ++values <= mostValues)].slice(0, most)
}
