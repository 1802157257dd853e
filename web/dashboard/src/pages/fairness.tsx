import { useRef } from 'preact/hooks'
import { curl, quern, queuePath, valueText } from '../api'
import { amount, duration, exact, keyName, percent, shown } from '../format'
import { List, Table } from '../list'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Empty, Failed, Mark, Tile } from '../parts'
import { link, queue, refine, route, valueLink } from '../state'
import { Clamp, Sentence } from '../text'
import type { LagClass, Ledger, LedgerTenant, LedgerTenants, Page } from '../types'

const sorts = { received: 'received most', behind: 'owed most', ahead: 'furthest ahead' } as const

export function Fairness() {
  const q = route.value.query
  const base = `${queuePath(queue.value)}/ledgers`
  const list = useLive<Page<Ledger>>(base, 5)
  const all = list.data?.items ?? []
  const first = useRef('') // it stays while the page is open, even if another ledger grows
  if (!all.some((l) => l.id === first.current)) first.current = busiest(all)?.id ?? ''
  const id = q.get('ledger') ?? (first.current || undefined)
  return (
    <>
      <div class="head"><h1>Fairness</h1><span>the fair share of each tenant, and the share that it received</span>
        <div class="act"><CopyAs cli={quern('ledgers', '--queue', queue.value)} curl={curl('GET', base)} /></div>
      </div>
      {list.problem && <div class="w12"><Failed problem={list.problem} again={list.again} /></div>}
      {list.data && all.length === 0 && <div class="card w12"><Empty command={quern('reserve', '--queue', queue.value, '--strategy', 'Fair("company", Random)')}>No strategy in use has Fair. A ledger appears when a consumer reserves with such a strategy.</Empty></div>}
      {all.length > 0 && (
        <section class="card w12">
          <header><h2>Ledgers</h2><small>one per Fair block in use, since the first reserve with it</small></header>
          <div class="ledgers" role="group" aria-label="Ledgers">{all.map((l) => (
            <button key={l.id} aria-pressed={l.id === id} onClick={() => refine({ ledger: l.id })}>
              <b>{l.depth > 0 ? '↳ ' : ''}{keyName(l.key)}</b><code><Sentence text={l.branch} /></code>
              <span class="note">{amount(l.active, 'competes', 'compete')}, {exact(l.blocked)} at limits, {amount(l.owing, 'owes', 'owe')}{l.places > 1 ? `, in ${exact(l.places)} places` : ''} · {l.cost === 'time' ? 'seconds held' : 'chunks'} are shared</span>
            </button>
          ))}</div>
        </section>
      )}
      {id && <OneLedger key={id} id={id} base={base} />}
    </>
  )
}

/** The ledger with the most tenants. A strategy that was used only once also has one, with a single tenant. */
const busiest = (all: Ledger[]) => [...all].sort((a, b) => b.active + b.blocked - a.active - a.blocked)[0]

/** How many readings are kept for the chunks received lately: about a minute, whatever the pace. */
const kept = 32

interface Reading { at: number; all: LedgerTenants; of: Map<string, LedgerTenant> }

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
    history.current = [...history.current, { at, all: of, of: new Map(of.items.map((t) => [keyOf(t), t])) }].slice(-kept)
  }
  if (read.problem) return <div class="w12"><Failed problem={read.problem} again={read.again} /></div>
  if (!of) return <p class="note w12">Reading…</p>
  const unit = of.ledger.cost === 'time' ? 's' : 'chunks'
  const first = history.current[0]
  const known = of.lately_since ? Date.parse(of.lately_since) : undefined // the server's ten minutes, once it has a reading
  const lately = known ? sums(of.items, (t) => t.lately, of.lately) : since(of, first)
  const scale = [0.01, 0.1, 1, 10, 20, 50].find((most) => [...lately.of.values()].every((t) => percent(t.received, lately.received) <= most && percent(t.entitled, lately.entitled) <= most)) ?? 100
  const seconds = known ? (at - known) / 1000 : first ? (at - first.at) / 1000 : 0
  return (
    <>
      <section class="card w12 says" aria-label="How fair it is"><p><b>{of.sentence}</b></p></section>
      <Tile name="Tenants" value={exact(of.tenants)}>{of.whole ? 'all looked at' : 'there are more'}</Tile>
      <Tile name="Furthest behind" value={signed(of.most_behind)} of="ready">{unit} owed to one tenant</Tile>
      <Tile name="Furthest ahead" value={signed(of.most_ahead)} of="reserved">{unit} that one owes</Tile>
      <Tile name="Sum of lags" value={signed(of.lag)} of={Math.abs(of.lag) < 0.5 ? 'done' : 'dead'}>{Math.abs(of.lag) < 0.5 ? 'the books agree' : 'read during a reserve'}</Tile>
      <Tile name="Received" value={exact(Math.round(of.received))}>{unit} by those here now</Tile>
      <Tile name="Seen for" value={seconds > 0 ? duration(seconds) : '—'}>{known ? 'by the server: what the bars compare' : 'by this page: what the bars compare'}</Tile>
      <Lags of={of} unit={unit} />
      <Furthest name="Owed most" sort="behind" id={id} base={base} of={of} />
      <Furthest name="Ahead most" sort="ahead" id={id} base={base} of={of} />
      <section class="card w12">
        <header>
          <div class="row"><h2>Tenants of <span class="chip">{keyName(of.ledger.key)}</span></h2><small>{exact(of.items.length)} of {exact(of.tenants)}</small></div>
          <div class="row">
            <span class="seg" role="group" aria-label="Order">{Object.entries(sorts).map(([name, text]) => <button key={name} aria-pressed={sort === name} onClick={() => refine({ sort: name === 'received' ? undefined : name })}>{text}</button>)}</span>
            <CopyAs cli={quern('ledgers', id, '--queue', queue.value, ...(sort === 'received' ? [] : ['--sort', sort]))} curl={curl('GET', path)} />
          </div>
        </header>
        <div class="legend foot"><span><Mark of="done" />received, of what all tenants were handed out in {seconds > 0 ? `the last ${duration(seconds)}` : 'the measured time'}</span><span><i class="tick" aria-hidden="true" />entitled to of it</span><span>a full bar is {scale} %</span><span>lag: + is behind, − is ahead</span></div>
        <List name="Shares by tenant" items={of.items} id={keyOf} scope={id + sort}
          columns={[{ name: 'Tenant' }, { name: 'State' }, { name: 'Weight', right: true }, { name: 'Received against entitled' }, { name: 'Received', right: true }, { name: 'Entitled', right: true }, { name: 'Now', right: true, title: 'the share that its weight gives it of what is handed out now' }, { name: 'Lag' }]}
          cells={(t) => cells(of.ledger.key, t, lately, scale)} open={(t) => (t.value === undefined ? link('keys', { key: of.ledger.key }) : valueLink(of.ledger.key, valueText(t.value)))} />
      </section>
    </>
  )
}

/** How tenants are spread over their distance from their due: most of all should be in the middle. */
function Lags({ of, unit }: { of: LedgerTenants; unit: string }) {
  const most = Math.max(1, ...of.lags.map((c) => c.tenants))
  const range = (c: LagClass) => (c.from === undefined ? `${signed(c.to!)} or less` : c.to === undefined ? `above ${signed(c.from)}` : `${signed(c.from)} to ${signed(c.to)}`)
  const middle = (of.lags.length - 1) / 2
  return (
    <section class="card w4">
      <header><h2>Distance from the fair share</h2><small>tenants by lag, in {unit}</small></header>
      <figure class="hist">
        <div class="bars" role="img" aria-label={`Lags of ${amount(of.tenants, 'tenant')}; the table below has the numbers.`}>
          {of.lags.map((c, i) => <div key={i} class="col" title={`${range(c)}: ${amount(c.tenants, 'tenant')}`}><i class={i < middle ? 'reserved' : i > middle ? 'ready' : 'done'} style={{ height: c.tenants > 0 ? `max(3px, ${(100 * c.tenants) / most}%)` : '0' }} /></div>)}
        </div>
        <figcaption class="legend"><span>ahead</span><span class="mid"><span><Mark of="done" />even</span></span><span>owed</span></figcaption>
        <details><summary>Lags as a table</summary>
          <div class="scroll" tabIndex={0} role="region" aria-label="Lags as a table">
            <table><thead><tr><th>Lag</th><th class="r">Tenants</th></tr></thead><tbody>{of.lags.map((c, i) => <tr key={i}><td class="mono">{range(c)}</td><td class="r">{exact(c.tenants)}</td></tr>)}</tbody></table>
          </div>
        </details>
      </figure>
    </section>
  )
}

/** The five tenants that are furthest from their due to one side. */
function Furthest({ name, sort, id, base, of }: { name: string; sort: 'behind' | 'ahead'; id: string; base: string; of: LedgerTenants }) {
  const read = useLive<LedgerTenants>(`${base}/${encodeURIComponent(id)}?sort=${sort}&limit=5`, 4)
  const items = (read.data?.items ?? []).filter((t) => (sort === 'behind' ? t.lag > 0.005 : t.lag < -0.005))
  return (
    <section class="card w4">
      <header><h2>{name}</h2><button class="quiet" onClick={() => refine({ sort })}>all</button></header>
      {read.problem && <Failed problem={read.problem} again={read.again} />}
      {read.data && items.length === 0 && <p class="note">{sort === 'behind' ? 'No tenant is behind.' : 'No tenant is ahead.'}</p>}
      {items.length > 0 && <Table name={name} columns={[{ name: 'Tenant' }, { name: 'State' }, { name: 'Lag', right: true }]}
        lines={items.map((t) => ({ id: keyOf(t), cells: () => [nameOf(of.ledger.key, t), state(t), <td class="r mono">{signed(t.lag)}</td>] }))} />}
    </section>
  )
}

export const signed = (n: number) => (Math.abs(n) < 0.005 ? '0' : `${n > 0 ? '+' : '−'}${Math.abs(n).toFixed(2)}`)
/** Among ten thousand tenants, a fair share is a hundredth of a percent. */
export const share = (n: number) => `${n > 0 && n < 0.1 ? (n < 0.001 ? '<0.001' : n.toFixed(3)) : n.toFixed(1)} %`

interface Lately { received: number; entitled: number; of: Map<string, { received: number; entitled: number }> }

/** The chunks that each tenant received and was entitled to since a reading of this page. A tenant that was forgotten meanwhile, and came
 * back, begins at 0. */
function since(now: LedgerTenants, first: Reading | undefined): Lately {
  return sums(now.items, (t) => {
    const was = first?.of.get(keyOf(t))
    return !was || t.received < was.received ? undefined : { received: t.received - was.received, entitled: Math.max(0, t.entitled - was.entitled) }
  }, first && { received: now.received - first.all.received, entitled: now.entitled - first.all.entitled })
}

type Amounts = { received: number; entitled: number } | undefined

/** The parts of the listed tenants, and the sums of all tenants. Even where some tenants were forgotten, the sums are no less than the sums
 * of the parts. */
function sums(now: LedgerTenant[], part: (t: LedgerTenant) => Amounts, all: Amounts): Lately {
  const lately: Lately = { received: 0, entitled: 0, of: new Map() }
  for (const t of now) {
    const p = part(t)
    if (!p) continue
    lately.received += p.received
    lately.entitled += p.entitled
    lately.of.set(keyOf(t), p)
  }
  lately.received = Math.max(lately.received, all?.received ?? 0)
  lately.entitled = Math.max(lately.entitled, all?.entitled ?? 0)
  return lately
}

const nameOf = (key: string, t: LedgerTenant) => <td class="mono">{(t.around ?? []).map((a) => <span class="note">{a.value === undefined ? 'no value' : <Clamp text={shown(a.value)} most={14} />} / </span>)}{t.value === undefined ? <span class="note">no value</span> : <Clamp text={shown(t.value)} {...(key === '$submission' ? {} : { href: valueLink(key, valueText(t.value)) })} />}</td>
const state = (t: LedgerTenant) => <td><span class="state"><Mark of={t.state === 'active' ? 'done' : t.state === 'blocked' ? 'dead' : 'waiting'} />{t.state === 'blocked' ? 'held back' : t.state}</span></td>

function cells(key: string, t: LedgerTenant, lately: Lately, scale: number) {
  const part = lately.of.get(keyOf(t))
  const known = part !== undefined && lately.received >= 1 && lately.entitled > 0
  const got = known ? percent(part.received, lately.received) : 0
  const due = known ? percent(part.entitled, lately.entitled) : 0
  const lag = Math.max(-3, Math.min(3, t.lag))
  return [
    nameOf(key, t), state(t),
    <td class="r">{exact(t.weight)}</td>,
    <td><div class="shares" role="img" aria-label={known ? `received ${share(got)}, entitled to ${share(due)}` : 'too short to measure'}><div class="bar"><i class="done" style={{ width: `${(100 * got) / scale}%` }} /></div>{known && <i class="tick" style={{ left: `${(100 * Math.max(0, due)) / scale}%` }} />}</div></td>,
    <td class="r">{known ? share(got) : '—'}</td>, <td class="r">{known ? share(due) : '—'}</td>, <td class="r">{t.state === 'active' ? share(100 * t.share) : '—'}</td>,
    <td><div class="lag"><div class="axis" aria-hidden="true"><i class={t.lag >= 0 ? 'ready' : 'reserved'} style={t.lag >= 0 ? { left: '50%', width: `${(50 * lag) / 3}%` } : { right: '50%', width: `${(-50 * lag) / 3}%` }} /></div><span>{signed(t.lag)}</span></div></td>,
  ]
}
