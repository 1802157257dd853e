import './app.css'
import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import { computed } from '@preact/signals'
import { Login, Me, NotToLook, useWho } from './access'
import { answering, quern, valueText } from './api'
import { keepPlaces } from './back'
import { amount, duration, exact, moment, queueName, short } from './format'
import { useAction, useLive } from './live'
import { offered, places } from './nav'
import { Palette, paletteOpen } from './palette'
import { Empty, Failed, Mark, MetaChips, damagedOf } from './parts'
import { Activity } from './pages/activity'
import { DeadLetters } from './pages/dead'
import { Failing } from './pages/failing'
import { Fairness } from './pages/fairness'
import { Chunk } from './pages/chunk'
import { Consumer, Consumers } from './pages/consumers'
import { Keys } from './pages/keys'
import { Nodes } from './pages/nodes'
import { Operations } from './pages/operations'
import { Overview } from './pages/overview'
import { Plugin } from './pages/plugin'
import { Plugins } from './pages/plugins'
import { Quarantine } from './pages/quarantine'
import { Queues } from './pages/queues'
import { Reservations } from './pages/reservations'
import { Rules } from './pages/rules'
import { Schedules } from './pages/schedules'
import { Settings } from './pages/settings'
import { OwnShards, ShardsLine } from './pages/shards'
import { Strategies } from './pages/strategies'
import { Submission } from './pages/submission'
import { Submissions } from './pages/submissions'
import { Tokens } from './pages/tokens'
import { Value } from './pages/value'
import { RulesLine, rules } from './rules'
import { boundTo, locked, may, who } from './session'
import { dark, inQueue, link, queue, route, say, setTheme, toast } from './state'
import { age, aside, divided, follow, frozen, keys, known, missing, serves, stats } from './stream'
import type { Page, Queue } from './types'

/** The page, once the identity of the login is known. */
function Root() {
  useWho()
  return locked.value ? <Login /> : who.value ? <App /> : <div aria-busy="true" />
}

/** Whether the list of pages has the numbers beside their names, which make it wider. */
const begun = computed(() => stats.value !== null && rules.value?.data !== undefined)

function App() {
  const { page, rest } = route.value
  const title = places.find((p) => p.page === page)?.name ?? 'Not found'
  useEffect(() => { document.title = `${title} · ${queueName(queue.value)} · Quern` }, [title, queue.value])
  useEffect(() => document.getElementById('main')?.focus({ preventScroll: true }), [page, rest])
  useEffect(() => {
    const one = document.querySelector('nav [aria-current]')
    if (!one) return
    const [at, all] = [one.getBoundingClientRect(), one.parentElement!.getBoundingClientRect()]
    one.parentElement!.scrollBy(at.left + at.width / 2 - all.left - all.width / 2, 0) // only the list of pages is scrolled, and not the page
  }, [page, begun.value])
  useShortcuts()
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus() }}>Skip to the page</a>
      <header class="whole">
        <a class="brand" href={link('overview')}>
          <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" aria-hidden="true"><ellipse cx="12" cy="15.5" rx="9" ry="4.5" /><path d="M3 11.5c0 2.5 4 4.5 9 4.5s9-2 9-4.5S17 7 12 7s-9 2-9 4.5Z" /><circle cx="12" cy="11.3" r="1.6" /><path d="M18.5 9V4.5" /></svg>Quern
        </a>
        <Top />
      </header>
      <nav aria-label="Pages">
        {places.map((p) => (
          !offered(p) ? null : <>
            {p.section && <div class="sec">{p.section}</div>}
            <a href={link(p.page)} aria-current={page === p.page ? 'page' : undefined}>{p.name}<Badge of={p.page} /></a>
          </>
        ))}
      </nav>
      <main id="main" tabIndex={-1}><Main page={page} rest={rest} /></main>
      <Palette />
      <Toast />
    </div>
  )
}

/** The pages that show one value in all shards of a queue. For a token that is bound to it, the others are of one shard. */
const ownOverShards = ['submissions', 'reservations', 'failing', 'dead-letters', 'rules']

/** The page of the address, or a message in its place. */
function Main({ page, rest }: { page: string; rest: string }) {
  if (!may('read') && page !== 'tokens' && page !== 'activity') return <NotToLook />
  if (places.find((p) => p.page === page)?.whole !== true) {
    if (!known.value) return null
    if (missing.value) return <NoQueue name={missing.value} page={page} />
    if (aside.value) return <Quarantine name={queue.value} why={aside.value} />
    if (divided.value > 0 && boundTo() && !ownOverShards.includes(page)) return <OwnShards key={queue.value} of={queue.value} page={page} />
    if (divided.value > 0) return <><Stale />{!boundTo() && <ShardsLine key={queue.value} of={queue.value} />}<Shown page={page} rest={rest} /></>
  }
  return <><Stale />{serves.value && <RulesLine key={queue.value} />}<Shown page={page} rest={rest} /></>
}

/** The act of a moment ago, with its undo where there is one. */
function Toast() {
  const action = useAction()
  const now = toast.value
  if (!now) return null
  const { undo } = now
  const back = () => void action.run(async () => {
    await undo!.run()
    rules.value?.again()
    say(`${undo!.text}: done`)
  })
  return (
    <div class="toast" role="status">
      <span>{now.text}</span>{' '}
      {undo && <button disabled={action.busy} title={undo.text} aria-label={`Undo: ${undo.text}`} onClick={back}>Undo</button>}
      {action.problem && <p>{action.problem.title} {action.problem.detail}</p>}
    </div>
  )
}

function Shown({ page, rest }: { page: string; rest: string }) {
  const of = queue.value
  const [id = '', index] = rest.split('/')
  const bound = Object.entries(boundTo() ?? {})[0]
  if (bound && !places.some((p) => p.page === page && offered(p)) && !(page === 'keys' && index !== undefined)) return <div class="card w12"><h1 class="sr">Not for this token</h1><Empty>The token {who.value?.name} is bound to <MetaChips meta={boundTo()} />, and this page would show more. <a href={link('overview')}>Overview</a></Empty></div>
  switch (page) {
    case 'overview': return bound ? <Value key={of} name={bound[0]} text={valueText(bound[1])} /> : <Overview key={of} />
    case 'queues': return <Queues />
    case 'submissions': return index !== undefined ? <Chunk key={rest} id={id} index={index} /> : id ? <Submission key={id} id={id} /> : <Submissions key={of} />
    case 'consumers': return rest ? <Consumer key={rest} name={rest} /> : <Consumers key={of} />
    case 'reservations': return <Reservations key={of} />
    case 'keys': return rest.includes('/') ? <Value key={of + rest} name={rest.slice(0, rest.indexOf('/'))} text={rest.slice(rest.indexOf('/') + 1)} /> : <Keys key={of} />
    case 'fairness': return <Fairness key={of} />
    case 'strategies': return <Strategies key={of} />
    case 'plugins': return rest ? <Plugin key={rest} name={rest} /> : <Plugins />
    case 'rules': return <Rules key={of} />
    case 'schedules': return <Schedules key={of} />
    case 'failing': return <Failing key={of} />
    case 'dead-letters': return <DeadLetters key={of} />
    case 'operations': return <Operations key={of} />
    case 'nodes': return <Nodes />
    case 'activity': return <Activity />
    case 'tokens': return <Tokens />
    case 'settings': return <Settings key={of} />
    default: return <div class="card w12"><h1 class="sr">No such page</h1><Empty>There is no page “{page}”. <a href={link('overview')}>Overview</a></Empty></div>
  }
}

/** In the place of a page whose queue does not exist. The page comes when someone creates the queue. */
function NoQueue({ name, page }: { name: string; page: string }) {
  const list = useLive<Page<Queue>>('/v1/queues', 0)
  return (
    <section class="card w12">
      <h1 class="sr">No such queue</h1>
      <Empty command={quern('queue', 'put', name)}>There is no queue “{queueName(name)}”. {list.data && list.data.items.length > 0 && <>Existing queues: {list.data.items.map((q) => <span key={q.name}><a href={inQueue(q.name, page)}>{queueName(q.name)}</a> </span>)}</>}</Empty>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
    </section>
  )
}

function Badge({ of }: { of: string }) {
  const now = stats.value?.stats
  if (of === 'submissions' && now) return <span class="n">{short(now.submissions_open)}</span>
  if (of === 'rules' && serves.value && rules.value?.data?.items.length) return <span class="n">{short(rules.value.data.items.length)}</span>
  if (of === 'reservations' && now && now.reserved > 0) return <span class="n">{short(now.reserved)}</span>
  if (of === 'consumers' && now && now.consumers_attached > 0) return <span class="n" title="attached">{short(now.consumers_attached)}</span>
  if (of === 'failing' && now && now.retrying > 0) return <span class="n">{short(now.retrying)}</span>
  if (of === 'dead-letters' && now && now.dead_letters > 0) return <span class="n">{short(now.dead_letters)}</span>
  if (of === 'keys' && keys.value) return <span class="n">{short(keys.value.keys.length + keys.value.left)}</span>
  return null
}

/** How many queues a selector has. With more there is a page, and the palette finds them by name. */
const mostNamed = 20

function Top() {
  const list = useLive<Page<Queue>>('/v1/queues', 15)
  const names = [...new Set([queue.value, ...(list.data?.items.map((q) => q.name) ?? [])])].sort()
  const damaged = new Set(damagedOf(list.data?.items ?? []))
  const [one] = damaged
  const few = names.length <= mostNamed
  return (
    <div class="top">
      <label class="field">queue <select value={queue.value} onChange={(e) => { location.hash = e.currentTarget.value === '' ? link('queues') : inQueue(e.currentTarget.value) }}>
        {names.filter((n) => few || n === queue.value).map((n) => <option key={n} value={n}>{queueName(n)}{damaged.has(n) && ' (in quarantine)'}</option>)}
        {!few && <option value="">all {amount(names.length, 'queue')}…</option>}
      </select></label>
      {one !== undefined && one !== queue.value && <a class="chip warn" href={inQueue(one)}><Mark of="dead" />{damaged.size === 1 ? `“${queueName(one)}” is in quarantine` : `${exact(damaged.size)} queues are in quarantine`}</a>}
      <button class="find" onClick={() => { paletteOpen.value = true }}><span>Go to a page, an id, a value…</span><kbd>Ctrl K</kbd></button>
      <div class="live">
        <Liveness />
        <button aria-pressed={frozen.value} onClick={() => { frozen.value = !frozen.value }}>Freeze view</button>
        <Me />
        <button onClick={() => setTheme(dark.value ? 'light' : 'dark')} aria-label={dark.value ? 'Switch to light' : 'Switch to dark'}>{dark.value ? 'Light' : 'Dark'}</button>
      </div>
    </div>
  )
}

/** Shown above all numbers while they are stale; the numbers are dimmed. */
function Stale() {
  const seconds = age.value
  if (frozen.value || !seconds || !stats.value) return null
  const node = answering.value
  return <div class="banner"><Mark of="dead" /><span><b>{node ? `The node ${node} is gone: no news from it` : 'No news from the server'} for {duration(Math.round(seconds))}.</b> The numbers below are from {moment(stats.value.at)}.{node && ' The page continues when a node answers at this address again.'}</span></div>
}

/** Whether the numbers are live. Nothing on the page may look live when it is not. */
function Liveness() {
  const seconds = age.value
  const state = frozen.value ? 'frozen' : boundTo() ? 'bound' : missing.value ? 'missing' : aside.value ? 'aside' : divided.value ? 'divided' : seconds === null ? 'connecting' : seconds > 0 ? 'stale' : 'live'
  useEffect(() => { document.documentElement.dataset.live = state }, [state])
  return (
    <>
      <span class={`dot ${state}`} aria-hidden="true" />
      <span role="status" data-state={state}>{state === 'bound' ? <>only <MetaChips meta={boundTo()} /></> : state === 'connecting' ? 'connecting…' : state === 'missing' ? 'no such queue' : state === 'aside' ? 'in quarantine' : state === 'divided' ? amount(divided.value, 'shard') : state}</span>
      {state === 'stale' && <span>last update {Math.round(seconds!)} s ago</span>}
    </>
  )
}

function useShortcuts() {
  useEffect(() => {
    let leader = -Infinity // when g was pressed: by the time of the key events, because a busy page handles them later
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]') || (e.target instanceof HTMLElement && e.target.matches('input:not([type=checkbox]), select, textarea'))) return
      const target = e.timeStamp - leader < 1500 ? places.find((p) => p.key === e.key && offered(p)) : undefined
      leader = e.key === 'g' ? e.timeStamp : -Infinity
      const filter = e.key === '/' ? document.querySelector<HTMLElement>('main input:not([type=checkbox]):not([type=file]), main select') : null
      if (target) location.hash = link(target.page)
      else if (e.key === 'p') frozen.value = !frozen.value
      else if (e.key === 'd') setTheme(dark.value ? 'light' : 'dark')
      else if (e.key === '?') location.hash = link('settings')
      else if (filter) filter.focus()
      else return
      e.preventDefault()
      e.stopImmediatePropagation()
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
}

follow()
keepPlaces()
render(<Root />, document.getElementById('app')!)
