import './app.css'
import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import { short } from './format'
import { useLive } from './live'
import { Empty } from './parts'
import { Keys } from './pages/keys'
import { Overview } from './pages/overview'
import { Settings } from './pages/settings'
import { Strategies } from './pages/strategies'
import { Submission } from './pages/submission'
import { Submissions } from './pages/submissions'
import { dark, link, queue, route, setTheme, toast } from './state'
import { age, follow, keys, paused, stats } from './stream'
import type { Page, Queue } from './types'

const pages = [
  { page: 'overview', name: 'Overview', key: 'o' },
  { page: 'submissions', name: 'Submissions', key: 's' },
  { page: 'keys', name: 'Keys', key: 'k' },
  { page: 'strategies', name: 'Strategies', key: 't', section: 'Decide' },
  { page: 'settings', name: 'Settings', key: 'e', section: 'Operate' },
]

function App() {
  const { page, rest } = route.value
  const title = pages.find((p) => p.page === page)?.name ?? 'Not found'
  useEffect(() => { document.title = `${title} · ${queue.value} · Quern` }, [title, queue.value])
  useEffect(() => document.getElementById('main')?.focus({ preventScroll: true }), [page, rest])
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
        {pages.map((p) => (
          <>
            {p.section && <div class="sec">{p.section}</div>}
            <a href={link(p.page)} aria-current={page === p.page ? 'page' : undefined}>{p.name}<Badge of={p.page} /></a>
          </>
        ))}
      </nav>
      <main id="main" tabIndex={-1}>
        {page === 'overview' ? <Overview key={queue.value} />
          : page === 'submissions' ? (rest ? <Submission key={rest} id={rest} /> : <Submissions key={queue.value} />)
          : page === 'keys' ? <Keys key={queue.value} />
          : page === 'strategies' ? <Strategies key={queue.value} />
          : page === 'settings' ? <Settings key={queue.value} />
          : <div class="card w12"><Empty>There is no page “{page}”. <a href={link('overview')}>Overview</a></Empty></div>}
      </main>
      {toast.value && <div class="toast" role="status">{toast.value}</div>}
    </div>
  )
}

function Badge({ of }: { of: string }) {
  if (of === 'submissions' && stats.value) return <span class="n">{short(stats.value.stats.submissions_open)}</span>
  if (of === 'keys' && keys.value) return <span class="n">{short(keys.value.keys.length + keys.value.left)}</span>
  return null
}

function Top() {
  const list = useLive<Page<Queue>>('/v1/queues', 15)
  const names = [...new Set([queue.value, ...(list.data?.items.map((q) => q.name) ?? [])])].sort()
  return (
    <div class="top">
      <label class="field">queue <select value={queue.value} onChange={(e) => { location.hash = e.currentTarget.value === 'default' ? '#/overview' : `#/overview?queue=${encodeURIComponent(e.currentTarget.value)}` }}>{names.map((n) => <option key={n}>{n}</option>)}</select></label>
      <div class="live">
        <Liveness />
        <button aria-pressed={paused.value} onClick={() => { paused.value = !paused.value }}>{paused.value ? 'Resume' : 'Pause'}</button>
        <button onClick={() => setTheme(dark.value ? 'light' : 'dark')} aria-label={dark.value ? 'Switch to light' : 'Switch to dark'}>{dark.value ? 'Light' : 'Dark'}</button>
      </div>
    </div>
  )
}

/** Whether the numbers are those of now. Nothing on the page may look live when it is not. */
function Liveness() {
  const seconds = age.value
  const state = paused.value ? 'paused' : seconds === null ? 'connecting' : seconds > 3 ? 'stale' : 'live'
  return (
    <>
      <span class={`dot ${state}`} aria-hidden="true" />
      <span role="status" data-state={state}>{state === 'paused' ? 'paused' : state === 'connecting' ? 'connecting…' : state}</span>
      {state === 'stale' && <span>last update {Math.round(seconds!)} s ago</span>}
    </>
  )
}

function useShortcuts() {
  useEffect(() => {
    let leader = 0
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || (e.target instanceof HTMLElement && e.target.matches('input, select, textarea'))) return
      const target = performance.now() - leader < 1500 ? pages.find((p) => p.key === e.key) : undefined
      leader = e.key === 'g' ? performance.now() : 0
      if (target) {
        e.stopImmediatePropagation()
        location.hash = link(target.page)
      } else if (e.key === 'p') paused.value = !paused.value
      else if (e.key === 'd') setTheme(dark.value ? 'light' : 'dark')
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
}

follow()
render(<App />, document.getElementById('app')!)
