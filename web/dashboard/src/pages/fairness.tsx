import { useRef } from 'preact/hooks'
import { curl, quern, queuePath, valueText } from '../api'
import { clamped, exact, percent, shown, visible } from '../format'
import { List } from '../list'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Empty, Failed, Mark, Tile } from '../parts'
import { link, queue, refine, route, valueLink } from '../state'
import { Clamp } from '../text'
import type { Ledger, LedgerTenant, LedgerTenants, Page } from '../types'

const sorts = { received: 'received most', behind: 'owed most', ahead: 'furthest ahead' } as const

export function Fairness() {
  const q = route.value.query
  const base = `${queuePath(queue.value)}/ledgers`
  const list = useLive<Page<Ledger>>(base, 5)
  const all = list.data?.items ?? []
  const id = q.get('ledger') ?? all[0]?.id
  return (
    <>
      <div class="head"><h1>Fairness</h1><span>what each tenant of a Fair block was entitled to, and what it received</span>
        <div class="act"><CopyAs cli={quern('ledgers', '--queue', queue.value)} curl={curl('GET', base)} /></div>
      </div>
      {list.problem && <div class="w12"><Failed problem={list.problem} again={list.again} /></div>}
      {list.data && all.length === 0 && <div class="card w12"><Empty command={quern('reserve', '--queue', queue.value, '--strategy', 'Fair("company", Random)')}>No strategy in use here shares fairly. A ledger shows the moment that a consumer reserves by one with Fair.</Empty></div>}
      {all.length > 0 && (
        <section class="card w12">
          <header><h2>Ledgers</h2><small>one for each Fair block in use, since a consumer first asked by it</small></header>
          <div class="ledgers" role="group" aria-label="Ledgers">{all.map((l) => (
            <button key={l.id} aria-pressed={l.id === id} onClick={() => refine({ ledger: l.id })}>
              <b>{l.depth > 0 ? '↳ ' : ''}{l.key === '$submission' ? 'submission' : l.key}</b><code title={l.branch}>{clamped(visible(l.branch), 96)}</code>
              <span class="note">{exact(l.active)} compete, {exact(l.blocked)} at limits, {exact(l.owing)} owe{l.places > 1 ? `, in ${exact(l.places)} places` : ''} · {l.cost === 'time' ? 'seconds held' : 'chunks'} are shared</span>
            </button>
          ))}</div>
        </section>
      )}
      {id && <OneLedger key={id} id={id} base={base} />}
    </>
  )
}

/** How many readings are kept to say what was received lately: about a minute, whatever the pace. */
const kept = 32

interface Reading { at: number; of: Map<string, LedgerTenant> }

const keyOf = (t: LedgerTenant) => [...(t.around ?? []).map((a) => (a.value === undefined ? '' : valueText(a.value))), t.value === undefined ? '-' : '=' + valueText(t.value)].join(' / ')

function OneLedger({ id, base }: { id: string; base: string }) {
  const q = route.value.query
  const sort = (q.get('sort') ?? 'received') as keyof typeof sorts
  const path = `${base}/${encodeURIComponent(id)}?sort=${sort}&limit=100`
  const read = useLive<LedgerTenants>(path, 2)
  const history = useRef<Reading[]>([])
  const of = read.data
  const at = of ? Date.parse(of.at) : 0
  if (of && history.current.at(-1)?.at !== at) {
    history.current = [...history.current, { at, of: new Map(of.items.map((t) => [keyOf(t), t])) }].slice(-kept)
  }
  if (read.problem) return <div class="w12"><Failed problem={read.problem} again={read.again} /></div>
  if (!of) return <p class="note w12">Reading…</p>
  const unit = of.ledger.cost === 'time' ? 's' : 'chunks'
  const first = history.current[0]
  const lately = since(of.items, first)
  const scale = [10, 20, 50].find((most) => [...lately.of.values()].every((t) => percent(t.received, lately.received) <= most && percent(t.entitled, lately.entitled) <= most)) ?? 100
  const seconds = first ? (at - first.at) / 1000 : 0
  return (
    <>
      <Tile name="Tenants" value={exact(of.tenants)}>{of.whole ? 'all looked at' : 'there are more'}</Tile>
      <Tile name="Furthest behind" value={signed(of.most_behind)} of="ready">{unit} owed to one tenant</Tile>
      <Tile name="Furthest ahead" value={signed(of.most_ahead)} of="reserved">{unit} that one owes</Tile>
      <Tile name="Sum of lags" value={signed(of.lag)} of={Math.abs(of.lag) < 0.5 ? 'done' : 'dead'}>{Math.abs(of.lag) < 0.5 ? 'the books agree' : 'read while reserving'}</Tile>
      <Tile name="Received" value={exact(Math.round(of.received))}>{unit} by those here now</Tile>
      <Tile name="Seen for" value={seconds > 0 ? `${Math.round(seconds)} s` : '—'}>what the bars compare</Tile>
      <section class="card w12">
        <header>
          <div class="row"><h2>Tenants of <span class="chip">{of.ledger.key}</span></h2><small>{exact(of.items.length)} of {exact(of.tenants)}</small></div>
          <div class="row">
            <span class="seg" role="group" aria-label="Order">{Object.entries(sorts).map(([name, text]) => <button key={name} aria-pressed={sort === name} onClick={() => refine({ sort: name === 'received' ? undefined : name })}>{text}</button>)}</span>
            <CopyAs cli={quern('ledgers', id, '--queue', queue.value, ...(sort === 'received' ? [] : ['--sort', sort]))} curl={curl('GET', path)} />
          </div>
        </header>
        <div class="legend foot"><span><Mark of="done" />received, of what those listed were handed out while this page looked</span><span><i class="tick" aria-hidden="true" />entitled to of it</span><span>a full bar is {scale} %</span><span>lag: + is owed, − is ahead</span></div>
        <List name="Shares by tenant" items={of.items} id={keyOf} scope={id + sort}
          columns={[{ name: 'Tenant' }, { name: 'State' }, { name: 'Weight', right: true }, { name: 'Received against entitled' }, { name: 'Received', right: true }, { name: 'Entitled', right: true }, { name: 'Now', right: true, title: 'the share that its weight gives it of what is handed out now' }, { name: 'Lag' }]}
          cells={(t) => cells(of.ledger.key, t, lately, scale)} open={(t) => (t.value === undefined ? link('keys', { key: of.ledger.key }) : valueLink(of.ledger.key, valueText(t.value)))} />
      </section>
    </>
  )
}

export const signed = (n: number) => (Math.abs(n) < 0.005 ? '0' : `${n > 0 ? '+' : '−'}${Math.abs(n).toFixed(2)}`)
const share = (n: number) => `${n.toFixed(1)} %`

interface Lately { received: number; entitled: number; of: Map<string, { received: number; entitled: number }> }

/** What each tenant got and was entitled to since a reading. One that was forgotten meanwhile, and came back, begins at nothing. */
function since(now: LedgerTenant[], first: Reading | undefined): Lately {
  const lately: Lately = { received: 0, entitled: 0, of: new Map() }
  for (const t of now) {
    const was = first?.of.get(keyOf(t))
    if (!was || t.received < was.received) continue
    const part = { received: t.received - was.received, entitled: Math.max(0, t.entitled - was.entitled) }
    lately.received += part.received
    lately.entitled += part.entitled
    lately.of.set(keyOf(t), part)
  }
  return lately
}

function cells(key: string, t: LedgerTenant, lately: Lately, scale: number) {
  const part = lately.of.get(keyOf(t))
  const known = part !== undefined && lately.received >= 1 && lately.entitled > 0
  const got = known ? percent(part.received, lately.received) : 0
  const due = known ? percent(part.entitled, lately.entitled) : 0
  const lag = Math.max(-3, Math.min(3, t.lag))
  return [
    <td class="mono">{(t.around ?? []).map((a) => <span class="note">{a.value === undefined ? 'no value' : <Clamp text={shown(a.value)} most={14} />} / </span>)}{t.value === undefined ? <span class="note">no value</span> : <Clamp text={shown(t.value)} {...(key === '$submission' ? {} : { href: valueLink(key, valueText(t.value)) })} />}</td>,
    <td><span class="state"><Mark of={t.state === 'active' ? 'done' : t.state === 'blocked' ? 'dead' : 'waiting'} />{t.state === 'blocked' ? 'held back' : t.state}</span></td>,
    <td class="r">{t.weight}</td>,
    <td><div class="shares" role="img" aria-label={known ? `received ${share(got)}, entitled to ${share(due)}` : 'not seen for long enough'}><div class="bar"><i class="done" style={{ width: `${(100 * got) / scale}%` }} /></div>{known && <i class="tick" style={{ left: `${(100 * Math.max(0, due)) / scale}%` }} />}</div></td>,
    <td class="r">{known ? share(got) : '—'}</td>, <td class="r">{known ? share(due) : '—'}</td>, <td class="r">{t.state === 'active' ? share(100 * t.share) : '—'}</td>,
    <td><div class="lag"><div class="axis" aria-hidden="true"><i class={t.lag >= 0 ? 'ready' : 'reserved'} style={t.lag >= 0 ? { left: '50%', width: `${(50 * lag) / 3}%` } : { right: '50%', width: `${(-50 * lag) / 3}%` }} /></div><span>{signed(t.lag)}</span></div></td>,
  ]
}
