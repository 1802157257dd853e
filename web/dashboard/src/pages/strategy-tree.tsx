import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Problem, call, valueOf, valueText } from '../api'
import { asSent, blockName, fromJSON, innerPointer, orders, replace, retype, swap, toJSON, wrap, wrappers, type Block } from '../blocks'
import { grouped } from '../format'
import { read, write } from '../json'
import { refine } from '../state'
import { keys } from '../stream'
import type { MetaValue, Valid } from '../types'

interface Said { pointer: string; kind?: string; detail: string; wrong: boolean }

interface Editing { root: Block; said: Said[]; change: (path: number[], by: Block | null) => void; plugins: string[] }

/**
 * The blocks of a strategy, each in its place, with its fields to fill in. A change is written into the text as soon as the server
 * finds it valid; until then its errors stand at their blocks, and the text stays as it was. `valid` is about exactly this text, or still
 * undefined.
 */
export function StrategyTree({ text, valid, path, plugins }: { text: string; valid: Valid | undefined; path: string; plugins: string[] }) {
  const [root, setRoot] = useState<Block>()
  const [wrong, setWrong] = useState<Said[]>([])
  const written = useRef('') // the text that came from here
  const asking = useRef<AbortController | null>(null)
  // Both effects compare the text with `written` at the same moment: after the next frame either may have changed.
  useLayoutEffect(() => { // the text was edited: an unfinished change in the tree is dropped
    if (text === written.current) return
    asking.current?.abort()
    asking.current = null
    written.current = ''
  }, [text])
  useLayoutEffect(() => {
    if (!valid || asking.current || valid.strategy === written.current) return
    setRoot(fromJSON(valid.tree))
    setWrong([])
  }, [valid])
  useEffect(() => () => asking.current?.abort(), [])
  if (!root) return <p class="note">The blocks show here once the text is valid.</p>

  const change = (place: number[], by: Block | null) => {
    const next = replace(root, place, by)
    setRoot(next)
    asking.current?.abort()
    const mine = asking.current = new AbortController()
    call<Valid>('POST', `${path}/validate`, { strategy: toJSON(next) }, {}, mine.signal).then((v) => {
      if (mine.signal.aborted) return
      asking.current = null
      written.current = v.strategy
      setWrong([])
      refine({ text: v.strategy })
    }).catch((p: Problem) => {
      if (mine.signal.aborted) return
      asking.current = null
      setWrong(p.errors?.length ? p.errors.map((e) => ({ ...e, wrong: true })) : [{ pointer: '/strategy', detail: p.detail, wrong: true }])
    })
  }
  const same = valid !== undefined && (written.current === valid.strategy || valid.strategy === text)
  const warned = same && wrong.length === 0 ? valid.warnings.map((w) => ({ ...w, pointer: asSent(w.pointer), wrong: false })) : []
  return (
    <div class="blocks" role="group" aria-label="Blocks">
      <datalist id="block-keys">{keys.value?.keys.map((k) => <option key={k.key} value={k.key} />)}</datalist>
      <datalist id="block-tenants"><option value="$submission" />{keys.value?.keys.map((k) => <option key={k.key} value={k.key} />)}</datalist>
      <datalist id="block-plugins">{plugins.map((p) => <option key={p} value={p} />)}</datalist>
      {wrong.length > 0 && <p class="note">The text stays as it is until the blocks are valid.</p>}
      <Node b={root} at="/strategy" path={[]} of={{ root, said: [...wrong, ...warned], change, plugins }} />
    </div>
  )
}

/** One block: its type, its fields, the actions on it, its errors and warnings, and its inner blocks. */
function Node({ b, at, path, of, siblings }: { b: Block; at: string; path: number[]; of: Editing; siblings?: { n: number; move: (by: number) => void } }) {
  const key = keys.value?.keys[0]?.key ?? 'key'
  const name = blockName(b.type)
  const where = path.length === 0 ? 'the strategy' : path.map((i) => i + 1).join('.')
  const inside = b.inner.map((_, n) => innerPointer(b, at, n))
  const said = of.said.filter((s) => (s.pointer === at || s.pointer.startsWith(at + '/')) && !inside.some((p) => s.pointer === p || s.pointer.startsWith(p + '/')))
  const i = path.at(-1) ?? 0
  return (
    <div class="block">
      <div class="row" data-wrong={said.some((s) => s.wrong) || undefined}>
        <select class="mono" value={b.type} aria-label={`Block ${where}`} onChange={(e) => of.change(path, retype(b, e.currentTarget.value, key))}>
          <optgroup label="Orders">{orders.map((t) => <option key={t} value={t}>{blockName(t)}</option>)}</optgroup>
          <optgroup label="Around others">{wrappers.map((t) => <option key={t} value={t}>{blockName(t)}</option>)}</optgroup>
        </select>
        <Fields b={b} set={(fields) => of.change(path, { ...b, ...fields })} />
        <span class="row tools">
          <select class="quiet" value="" aria-label={`Put a block around ${name} (${where})`} onChange={(e) => { const t = e.currentTarget.value; e.currentTarget.value = ''; if (t) of.change(path, wrap(t, b, key)) }}>
            <option value="">Wrap</option>
            {wrappers.map((t) => <option key={t} value={t}>{blockName(t)}</option>)}
          </select>
          {b.type === 'or_else' && <button class="quiet" title="add an alternative" aria-label={`Add an alternative to ${name} (${where})`} onClick={() => of.change(path, { ...b, inner: [...b.inner, { type: 'oldest_first', inner: [] }] })}>Add</button>}
          {siblings && <>
            <button class="quiet" disabled={i === 0} aria-label={`${name} (${where}) earlier`} title="ask it earlier" onClick={() => siblings.move(-1)}>↑</button>
            <button class="quiet" disabled={i === siblings.n - 1} aria-label={`${name} (${where}) later`} title="ask it later" onClick={() => siblings.move(1)}>↓</button>
          </>}
          {(siblings || b.inner.length > 0) && <button class="quiet" aria-label={`Remove ${name} (${where})`} onClick={() => of.change(path, null)}>Remove</button>}
        </span>
      </div>
      {said.map((s) => <p key={s.pointer + s.detail} class={s.wrong ? 'problem' : 'warned'} role={s.wrong ? 'alert' : undefined}>{s.pointer === at ? '' : <code>{s.pointer.slice(at.length + 1)} </code>}{s.kind && <b>{s.kind.replaceAll('_', ' ')} </b>}{grouped(s.detail)}</p>)}
      {b.inner.length > 0 && (
        <div class="within">
          {b.inner.map((one, n) => (
            <div key={n}>
              {b.type === 'or_else' && <small>{n === 0 ? 'first ask' : 'for the remaining chunks'}</small>}
              <Node b={one} at={inside[n]!} path={[...path, n]} of={of} {...(b.type === 'or_else' ? { siblings: { n: b.inner.length, move: (by: number) => of.change(path, swap(b, n, n + by)) } } : {})} />
            </div>
          ))}
        </div>
      )}
    </div>
  )
}

function Fields({ b, set }: { b: Block; set: (fields: Partial<Block>) => void }) {
  const whole = (text: string) => (text === '' ? null : Number(text))
  const number = (name: 'max' | 'burst' | 'window' | 'explore', label: string, low: number, high: number, optional: boolean) => (
    <label class="field">{label} <input type="number" min={low} max={high} value={b[name] ?? ''} placeholder={!optional ? '' : name === 'max' ? 'fewest first' : 'usual'}
      onInput={(e) => { const n = whole(e.currentTarget.value); if (n === null && optional) { const { [name]: _, ...rest } = b; set({ ...rest, [name]: undefined }) } else set({ [name]: n }) }} /></label>
  )
  return (
    <>
      {b.type === 'max_rate' && <>
        <label class="field">key <input class="mono" list="block-keys" value={b.meta_field ?? ''} placeholder="all chunks" spellcheck={false} size={12} onInput={(e) => set(e.currentTarget.value ? { meta_field: e.currentTarget.value } : { meta_field: undefined, missing: undefined })} /></label>
        {number('max', 'at most', 1, 2147483647, false)}
        <label class="field">per <input class="mono" value={b.per ?? ''} placeholder="1m" spellcheck={false} size={6} title="a whole number with ms, s, m, h or d" onInput={(e) => set({ per: e.currentTarget.value })} /></label>
        {number('burst', 'burst', 1, 2147483647, true)}
      </>}
      {b.type !== 'max_rate' && b.meta_field !== undefined && <label class="field">key <input class="mono" list={b.type === 'fair' ? 'block-tenants' : 'block-keys'} value={b.meta_field} spellcheck={false} size={12} onInput={(e) => set({ meta_field: e.currentTarget.value })} /></label>}
      {b.values !== undefined && <Json label={b.type === 'except' ? 'is none of' : 'is one of'} of={b.values} empty="[]" what={'a JSON list: 7 is the integer, "7" the text'} set={(values) => set({ values: values ?? [] })} />}
      {b.type === 'select_only' && <Value of={b.value ?? ''} set={(value) => set({ value })} />}
      {b.type === 'max_simultaneous' && <label class="field">at most <input class="mono" value={b.max ?? ''} size={6} spellcheck={false} title="a number, or a share of the chunks in flight, as in 20%"
        onInput={(e) => { const text = e.currentTarget.value.trim(); set({ max: /^\d+$/.test(text) ? Number(text) : text || null }) }} /></label>}
      {b.type === 'prefer_distinct' && number('max', 'last from', 1, 2147483647, true)}
      {(b.type === 'max_simultaneous' || b.type === 'prefer_distinct' || (b.type === 'max_rate' && b.meta_field !== undefined)) && <label class="field">without the key <select value={b.missing ?? 'unlimited'} onChange={(e) => set({ missing: e.currentTarget.value === 'unlimited' ? undefined : e.currentTarget.value })}><option value="unlimited">unlimited</option><option value="one">as one value</option><option value="never">never</option></select></label>}
      {b.type === 'fair' && <label class="field">share out <select value={b.cost ?? 'chunk'} onChange={(e) => set({ cost: e.currentTarget.value === 'chunk' ? undefined : e.currentTarget.value })}><option value="chunk">chunks</option><option value="time">time held</option></select></label>}
      {b.type === 'plugin' && <>
        <label class="field">name <input class="mono" list="block-plugins" value={b.name ?? ''} spellcheck={false} size={14} onInput={(e) => set({ name: e.currentTarget.value })} /></label>
        <label class="field">version <input class="mono" value={b.version ?? ''} placeholder="active" spellcheck={false} size={8} onInput={(e) => set({ version: e.currentTarget.value || undefined })} /></label>
        {number('window', 'window', 16, 4096, true)}{number('explore', 'explore', 0, 1024, true)}
        <Json label="config" of={b.config} empty="{}" what="a JSON object" set={(config) => set({ config })} />
      </>}
      {b.type === 'score' && <>
        <label class="field grow">score <input class="mono grow" value={b.expression ?? ''} spellcheck={false} onInput={(e) => set({ expression: e.currentTarget.value })} /></label>
        {number('window', 'window', 16, 4096, true)}{number('explore', 'explore', 0, 1024, true)}
      </>}
    </>
  )
}

/** A meta value, as it is typed: an empty field is the empty text, and becomes no `s:` under the reader's hands. */
function Value({ of, set }: { of: MetaValue; set: (v: MetaValue) => void }) {
  const [text, setText] = useState(of === '' ? '' : valueText(of))
  const shown = valueOf(text) === of || valueText(valueOf(text)) === valueText(of) ? text : valueText(of)
  return <label class="field">is <input class="mono" value={shown} spellcheck={false} size={12} title="7 is the integer, s:7 the text" onInput={(e) => { setText(e.currentTarget.value); set(valueOf(e.currentTarget.value)) }} /></label>
}

/** A field that holds JSON. Text that is not JSON yet stays in the field and nowhere else. */
function Json({ label, of, empty, what, set }: { label: string; of: unknown; empty: string; what: string; set: (value: unknown) => void }) {
  const [text, setText] = useState(of === undefined ? '' : write(of))
  const [bad, setBad] = useState(false)
  const input = (now: string) => {
    setText(now)
    try {
      const value: unknown = now.trim() === '' ? undefined : read(now)
      setBad(false)
      set(value)
    } catch { setBad(true) }
  }
  return <label class="field grow">{label} <input class="mono grow" value={text} placeholder={empty} spellcheck={false} aria-invalid={bad} title={bad ? 'not JSON yet' : what} onInput={(e) => input(e.currentTarget.value)} /></label>
}
