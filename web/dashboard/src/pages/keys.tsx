import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, keyPath, quern, queuePath, valueOf, valuePath, valueText } from '../api'
import { amount, duration, exact, moment, percent, rateOf, rateText, short, shown } from '../format'
import { Heat } from '../heat'
import { write } from '../json'
import { List } from '../list'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Outcome, useEdit, type Version } from '../edit'
import { Count, Empty, Failed, Width, atLimit } from '../parts'
import { names, rules } from '../rules'
import { may } from '../session'
import { link, queue, refine, route, say, valueLink } from '../state'
import { calmNow, divided, keys, stats } from '../stream'
import { Clamp } from '../text'
import type { MetaKey, MetaValue, Page, ValueCount } from '../types'

export function Keys() {
  const name = queue.value
  const q = route.value.query
  const list = useLive<Page<MetaKey>>(`${queuePath(name)}/meta-keys?limit=1000`, 5)
  const all = list.data?.items ?? []
  const key = q.get('key') ?? all[0]?.key
  const frame = keys.value?.keys.find((k) => k.key === key)
  return (
    <>
      <div class="head"><h1>Keys</h1><span>backlog, in flight and limits by the values of meta keys</span></div>
      {list.problem && <div class="w12"><Failed problem={list.problem} again={list.again} /></div>}
      {list.data && all.length === 0 && <div class="card w12"><Empty command={quern('submit', '--queue', queue.value, '--count', 1000, '--template', 'row {index}', '--meta', 'company=acme')}>No open submission has meta, and no value has a limit. A key appears here with the first submission that has it.</Empty></div>}
      {all.length > 0 && <div class="w12 row" role="group" aria-label="Meta keys">{all.map((k) => <button key={k.key} aria-pressed={k.key === key} onClick={() => refine({ key: k.key, find: undefined })}>{k.key}{counted(k.key) && <> <small>{short(k.values)}</small></>}</button>)}</div>}
      {key && frame && frame.top.some((v) => v.in_flight > 0) && keys.value && (
        <section class="card w12">
          <header><h2>In flight, last 10 minutes</h2><small>the busiest {Math.min(8, frame.values)} of {frame.whole ? '' : 'more than '}{exact(frame.values)}</small></header>
          <Heat key={key} frame={frame} at={keys.value.at} rows={8} />
        </section>
      )}
      {key && <Values key={key} of={key} info={all.find((k) => k.key === key)} />}
    </>
  )
}

/** Whether the number of values is that of the key. Over shards, a value counts in each that has it, and a group is in one. */
const counted = (key: string) => divided.value === 0 || key === 'group'

/** The orders of values, the largest first: the server's name, and the label. */
const sorts = [['in_flight', 'in flight'], ['ready', 'ready'], ['waiting', 'waiting'], ['dead', 'dead'], ['done', 'done'], ['oldest', 'longest ready'], ['paused', 'paused'], ['blocked', 'blocked'], ['submissions', 'submissions'], ['weight', 'weight']] as const

function Values({ of, info: known }: { of: string; info: MetaKey | undefined }) {
  const q = route.value.query
  const [sort, sorted] = sorts.find(([name]) => name === q.get('sort')) ?? sorts[0]
  const find = q.get('find') ?? ''
  const most = q.get('show') === 'more' ? 1000 : 100
  const list = useLive<Page<ValueCount>>(find ? '' : `${keyPath(queue.value, of)}/values?sort=${sort}&limit=${most}`, most > 100 ? 10 : 2)
  const one = useLive<ValueCount>(find ? `${keyPath(queue.value, of)}/values/${encodeURIComponent(find)}` : '', 2)
  const [editing, setEditing] = useState('')
  const live = new Map((keys.value?.keys.find((k) => k.key === of)?.top ?? []).map((v) => [valueText(v.value), v]))
  const read = new Map((find ? (one.data ? [one.data] : []) : list.data?.items ?? []).map((v) => [valueText(v.value), v]))

  const rows = [...read].map(([k, v]) => newer(live.get(k), v))
  const info = known && !counted(of) && rows.length < most ? { ...known, values: rows.length } : known // these are all
  const again = () => { list.again(); one.again() }
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Values of <span class="chip">{of}</span></h2><small>{find ? 'one value' : info && rows.length > 0 ? `${exact(Math.min(most, rows.length))} of ${exact(info.values)}, ${sort === 'oldest' ? '' : 'most '}${sorted} first · ${exact(info.values_set)} with settings` : ''}</small></div>
        <div class="row">
          <form class="row" onSubmit={(e) => { e.preventDefault(); refine({ find: new FormData(e.currentTarget).get('find')?.toString().trim() || undefined }) }}>
            <label class="field">Value <input name="find" type="search" placeholder="acme, 123, s:123" key={find} defaultValue={find} /></label><button>Find</button>
          </form>
          <label class="field">Sort <select value={sort} onChange={(e) => refine({ sort: e.currentTarget.value === sorts[0][0] ? undefined : e.currentTarget.value })}>{sorts.map(([name, words]) => <option key={name} value={name}>{words}</option>)}</select></label>
          <CopyAs cli={quern('keys', 'values', of, '--queue', queue.value, ...(sort === sorts[0][0] ? [] : ['--sort', sort]))} curl={curl('GET', `${keyPath(queue.value, of)}/values?sort=${sort}&limit=${most}`)} />
        </div>
      </header>
      {(find ? one.problem : list.problem) && <Failed problem={(find ? one.problem : list.problem)!} again={again} />}
      {find && <p class="row"><button onClick={() => refine({ find: undefined })}>Show all values</button>{one.problem?.code === 'unknown_value' && may('operate') && <Edit of={of} value={valueOf(find)} v={undefined} close={again} />}</p>}
      {rows.length > 0 && (
        <List name={`Values of ${of}`} items={rows} id={(v) => valueText(v.value)} scope={`${of} ${sort} ${find} ${most}`} keys={false} open={(v) => valueLink(of, valueText(v.value))} held={editing !== ''} marked={editing} besides={[editing]}
          columns={[{ name: 'Value' }, { name: 'Ready', right: true }, { name: 'Oldest', right: true, age: true, title: 'since the oldest submission with a ready chunk was inserted' }, { name: 'Waiting', right: true, wide: true, title: 'for a retry or for run_at' }, { name: 'In flight / limit' }, { name: 'At limit for', age: true, title: 'gaps under 5 s are ignored' }, { name: 'Share', right: true, wide: true, title: 'of all chunks in flight in this queue' }, { name: 'Dead', right: true, title: 'of open submissions' }, { name: 'Done', right: true, wide: true, title: 'of open submissions' }, { name: 'Submissions', right: true, wide: true }, { name: 'Weight', right: true }, { name: 'Actions', hidden: true }]}
          cells={(v) => (editing === valueText(v.value) ? [name(of, v), <td colSpan={11}><Edit of={of} value={v.value} v={v} close={(changed) => { setEditing(''); if (changed) again() }} /></td>] : cells(of, v, () => setEditing(valueText(v.value))))} />
      )}
      {!find && info && info.values > rows.length && rows.length > 0 && most === 100 && <p class="foot">{amount(info.values - rows.length, 'more value')}. <button onClick={() => refine({ show: 'more' })}>Show 1,000</button> or find one by its name.</p>}
      {!find && info && most === 1000 && info.values > 1000 && <p class="foot">{info.values === 1001 ? 'The other one' : `The other ${exact(info.values - 1000)}`} {sort === 'oldest' ? (info.values === 1001 ? 'is younger' : 'are younger') : `${info.values === 1001 ? 'has' : 'have'} less ${sorted}`}; find one by its name.</p>}
    </section>
  )
}

/** The newer of the value in the stream and the value that was read, by their settings; if neither is newer, that of the stream. Only a
 * value that was read has all numbers. */
export function newer(streamed: ValueCount | undefined, read: ValueCount): ValueCount {
  return streamed && (read.changed_at ?? '') <= (streamed.changed_at ?? '') ? { ...read, ...streamed } : read
}

/** For how long the oldest ready chunk of a value has been there. */
export function Oldest({ v }: { v: ValueCount }) {
  const now = v.oldest_ready_at && v.ready > 0 ? calmNow.value : 0
  return v.oldest_ready_at && now ? <span title={`inserted ${moment(v.oldest_ready_at)}`}>{duration(Math.max(0, (now - Date.parse(v.oldest_ready_at)) / 1000))}</span> : <span class="note">—</span>
}

const name = (of: string, v: ValueCount) => <td class="mono"><Clamp text={shown(v.value)} href={valueLink(of, valueText(v.value))} /></td>

/** Says where a number comes from that the value does not have itself. */
const byDefault = (own: number | null, all: number | undefined) => (own === null && all !== undefined ? 'the default of the key' : undefined)

function cells(of: string, v: ValueCount, edit: () => void) {
  const share = v.in_flight === 0 ? 0 : percent(v.in_flight, stats.value?.stats.reserved ?? 0) // only a value with chunks in flight needs the total
  const limit = v.limit ?? v.default_limit ?? null
  const rate = v.rate ?? v.default_rate
  return [
    name(of, v), <td class="r"><Ready of={of} v={v} /></td>, <td class="r"><Oldest v={v} /></td>, <td class="r wide"><Count n={v.waiting ?? 0} /></td>,
    <td>
      <div class="gauge">
        <div class={atLimit(v) ? 'bar sat' : 'bar'} aria-hidden="true"><Width of="reserved" share={limit === null ? share : percent(v.in_flight, limit)} /></div>
        <span title={limit === null ? 'no limit' : byDefault(v.limit, v.default_limit)}>{short(v.in_flight)}{limit === null ? '' : ` / ${short(limit)}`}</span>
        {rate && <small title={v.rate ? 'the rate under MaxRate' : 'the rate under MaxRate, the default of the key'}>{rateText(rate)}</small>}
      </div>
    </td>,
    <td><AtLimit v={v} /></td>, <td class="r wide">{share.toFixed(1)} %</td>,
    <td class="r">{v.dead ? <a href={link('dead-letters', { ['meta.' + of]: valueText(v.value) })}><Count n={v.dead} /></a> : 0}</td>, <td class="r wide"><Count n={v.done ?? 0} /></td>, <td class="r wide"><Count n={v.submissions} /></td>,
    <td class="r">{v.weight !== null ? exact(v.weight) : <span class="note" title={byDefault(v.weight, v.default_weight) ?? 'not set, which counts as 1'}>{exact(v.default_weight ?? 1)}</span>}</td>,
    <td class="r"><div class="row end"><Gate scope="operate"><button class="quiet" onClick={edit} aria-label={`Set limit and weight of ${shown(v.value)}`}>Set…</button></Gate></div></td>,
  ]
}

/** The ready chunks of a value, and those that only a rule holds back. Of a value that is held whole it shows their number instead of 0. */
function Ready({ of, v }: { of: string; v: ValueCount }) {
  const held = (v.paused ?? 0) + (v.blocked ?? 0)
  return <div class="row end"><Held of={of} v={v} how="paused" /><Held of={of} v={v} how="blocked" /><Count n={v.ready || held} /></div>
}

/** The chunks of a value that rules hold back: a badge where a rule names the value or holds all of it, else only the share. */
function Held({ of, v, how }: { of: string; v: ValueCount; how: 'paused' | 'blocked' }) {
  const n = v[how] ?? 0
  const all = v.ready + (v.paused ?? 0) + (v.blocked ?? 0)
  const named = (rules.value?.data?.items ?? []).some((r) => r.action === (how === 'paused' ? 'pause' : 'block') && names(r, of, v.value))
  if (n === 0) return null
  const title = `${exact(n)} of ${exact(all)} ready chunks are ${how}`
  const text = n === all ? how : `${percent(n, all) < 0.1 ? '<0.1' : Math.min(99.9, percent(n, all)).toFixed(1)} % ${how}`
  return <a class={named || n === all ? 'badge' : 'note'} href={link('rules')} title={title}>{text}</a>
}

/** For how long a value has been at its limit, by the server's clock. */
export function AtLimit({ v }: { v: ValueCount }) {
  const now = v.saturated_since && keys.value?.at // it changes each second, so a row reads it only if it needs it
  if (v.saturated_since && now) return <span class="badge" title={`since ${moment(v.saturated_since)}`}>{duration(Math.max(1, (Date.parse(now) - Date.parse(v.saturated_since)) / 1000))}</span>
  return v.saturated ? <span class="badge">now</span> : <span class="note">—</span>
}

type Settings = { limit: number | null; weight: number | null; rate: string | null; waiting: number | null; submissions: number | null; bytes: number | null }

const none: Settings = { limit: null, weight: null, rate: null, waiting: null, submissions: null, bytes: null }
/** The settings of a value, apart from its counts, which have some of the same names. */
export const settingsOf = (v: ValueCount): Settings => ({ limit: v.limit, weight: v.weight, rate: v.rate ? rateText(v.rate) : null, waiting: v.quota?.waiting ?? null, submissions: v.quota?.submissions ?? null, bytes: v.quota?.bytes ?? null })
const version = (v: ValueCount): Version => ({ fields: { ...settingsOf(v) }, etag: v.etag })
const body = ({ limit, weight, rate, waiting, submissions, bytes }: Settings) => ({ limit, weight, ...(rate === null ? {} : { rate: rateOf(rate) }), ...(waiting === null && submissions === null && bytes === null ? {} : { quota: { waiting, submissions, bytes } }) })
const empty = (s: Settings) => Object.values(s).every((field) => field === null)

/** The settings of a value, in words. */
export const inWords = ({ limit, weight, rate, waiting, submissions, bytes }: Settings) => `${limit === null ? 'no limit' : 'limit ' + exact(limit)}, weight ${exact(weight ?? 1)}${rate ? ', rate ' + rate : ''}${waiting ? `, at most ${amount(waiting, 'waiting chunk')}` : ''}${submissions ? `, at most ${amount(submissions, 'open submission')}` : ''}${bytes ? `, at most ${amount(bytes, 'byte')}` : ''}`

/** Limit, weight, rate and quota of a value. A value without chunks can have them too: they hold from its first chunk on. */
export function Edit({ of, value, v, close }: { of: string; value: MetaValue; v: ValueCount | undefined; close: (changed: boolean) => void }) {
  const [changes, setChanges] = useState<Partial<Settings>>({})
  const path = valuePath(queue.value, of, value)
  const edit = useEdit({
    now: v && version(v), changes, log: { queue: queue.value, target: `${of}=${write(value)}` },
    read: async () => version(await call<ValueCount>('GET', path)),
    put: async (fields, guard) => {
      const set = { ...none, ...fields } as Settings
      if (!empty(set)) return version(await call<ValueCount>('PUT', path, body(set), guard))
      if (guard['If-Match']) await call('DELETE', path, undefined, guard)
      return undefined
    },
    done: (is, saved, before) => {
      const [was, set] = [before, is].map((v) => ({ ...none, ...v?.fields }) as Settings) as [Settings, Settings]
      setChanges({})
      if (saved) say(`${of}=${shown(value)}: ${inWords(set)}, from the next reservation on`, { text: `${inWords(was)} again`, run: () => (empty(was) ? call('DELETE', path) : call('PUT', path, body(was))) })
      close(true)
    },
  })
  const set = { ...none, ...edit.fields } as Settings
  const { limit, weight, rate, waiting, submissions, bytes } = set
  const number = (text: string) => (text === '' ? null : Number(text))
  return (
    <form class="stack" onSubmit={(e) => { e.preventDefault(); void edit.save() }} onKeyDown={(e) => { if (e.key === 'Escape') close(false) }}>
      <div class="row">
        <label class="field">Limit <input type="number" min="0" max="2147483647" step="1" placeholder="none" value={limit ?? ''} onInput={(e) => setChanges({ ...changes, limit: number(e.currentTarget.value) })} ref={(i) => { if (i && !i.dataset.seen) { i.dataset.seen = '1'; i.focus() } }} /></label>
        <label class="field">Weight <input type="number" min="0.001" max="1000" step="0.001" placeholder="1" value={weight ?? ''} onInput={(e) => setChanges({ ...changes, weight: number(e.currentTarget.value) })} /></label>
        <label class="field">Rate <input type="text" size={8} pattern="[1-9][0-9]*/[1-9][0-9]*(ms|s|m|h|d)" title="a number and a time, as in 50/1m" placeholder="50/1m" value={rate ?? ''} onInput={(e) => setChanges({ ...changes, rate: e.currentTarget.value || null })} /></label>
        <label class="field">Most waiting <input type="number" min="1" max="1000000000000" step="1" placeholder="any" value={waiting ?? ''} onInput={(e) => setChanges({ ...changes, waiting: number(e.currentTarget.value) })} /></label>
        <label class="field">Most submissions <input type="number" min="1" max="1000000000000" step="1" placeholder="any" value={submissions ?? ''} onInput={(e) => setChanges({ ...changes, submissions: number(e.currentTarget.value) })} /></label>
        <label class="field">Most bytes <input type="number" min="1" max="1000000000000" step="1" placeholder="any" value={bytes ?? ''} onInput={(e) => setChanges({ ...changes, bytes: number(e.currentTarget.value) })} /></label>
        <button class="main" disabled={edit.busy}>Save</button>
        <button type="button" onClick={() => close(false)}>Leave as it is</button>
        <CopyAs cli={quern('keys', 'set', of, valueText(value), '--queue', queue.value, '--limit', limit ?? 'none', ...(weight === null ? [] : ['--weight', weight]), ...(rate === null ? [] : ['--rate', rate]), ...(waiting === null ? [] : ['--most-waiting', waiting]), ...(submissions === null ? [] : ['--most-submissions', submissions]), ...(bytes === null ? [] : ['--most-bytes', bytes]))} curl={curl('PUT', path, body(set))} />
        <small>Leave a field empty to unset it. The limit holds for every strategy. The weight is the share under Fair. The rate takes the place of the number in MaxRate. The server refuses inserts that would exceed the most waiting chunks, open submissions or bytes of contents.</small>
      </div>
      <Outcome edit={edit} />
    </form>
  )
}
