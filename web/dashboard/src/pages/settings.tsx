import { curl, queuePath, shell } from '../api'
import { duration, moment } from '../format'
import { useLive } from '../live'
import { places } from '../nav'
import { CopyAs, Failed, Mark } from '../parts'
import { queue, setTheme, theme, type Theme } from '../state'
import type { Queue } from '../types'

interface Readiness { ready: boolean; checks: { name: string; ok: boolean; detail?: string }[] }

export function Settings() {
  const of = useLive<Queue>(queuePath(queue.value), 10)
  const ready = useLive<Readiness>('/readyz?verbose', 5)
  const version = useLive<{ version: string; revision?: string; go: string }>('/version', 0)
  return (
    <>
      <div class="head"><h1>Settings</h1><span>as they are in effect</span></div>
      <section class="card w6">
        <header><h2>Queue {queue.value}</h2><CopyAs cli={shell('quern', 'queue', 'get', queue.value)} curl={curl('GET', queuePath(queue.value))} /></header>
        {of.problem && <Failed problem={of.problem} again={of.again} />}
        {of.data && <dl class="facts"><dt>created</dt><dd>{moment(of.data.created_at)}</dd>{Object.entries(of.data.settings).map(([name, value]) => <><dt><code>{name}</code></dt><dd>{say(name, value)}</dd></>)}</dl>}
      </section>
      <section class="card w6">
        <header><h2>Server</h2></header>
        {ready.problem && <Failed problem={ready.problem} again={ready.again} />}
        {version.problem && <Failed problem={version.problem} again={version.again} />}
        <dl class="facts">
          {version.data && <><dt>version</dt><dd>{version.data.version}</dd><dt>revision</dt><dd class="mono">{version.data.revision ?? 'not known'}</dd><dt>built with</dt><dd>{version.data.go}</dd></>}
          {ready.data?.checks.map((c) => <><dt>{c.name}</dt><dd><Mark of={c.ok ? 'done' : 'dead'} /> {c.detail}</dd></>)}
          <dt>reference</dt><dd><a href="/docs">operations</a>, <a href="/openapi.json">OpenAPI document</a>, <a href="/metrics">metrics</a></dd>
        </dl>
      </section>
      <section class="card w6">
        <header><h2>This page</h2></header>
        <dl class="facts">
          <dt>theme</dt><dd><span class="seg" role="group" aria-label="Theme">{(['system', 'light', 'dark'] as Theme[]).map((t) => <button key={t} aria-pressed={theme.value === t} onClick={() => setTheme(t)}>{t}</button>)}</span></dd>
          <dt>keyboard</dt>
          <dd class="stack">
            <span><kbd>Ctrl</kbd> <kbd>K</kbd> goes anywhere, <kbd>/</kbd> to the filter, <kbd>p</kbd> pause, <kbd>d</kbd> dark or light, <kbd>?</kbd> here</span>
            <span>in lists <kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> chooses, <kbd>⇧x</kbd> up to here, <kbd>Enter</kbd> opens, <kbd>n</kbd> shows new ones</span>
            <span class="shortcuts"><span><kbd>g</kbd> then</span>{places.map((p) => <span key={p.page}><kbd>{p.key}</kbd> {p.name.toLowerCase()}</span>)}</span>
          </dd>
        </dl>
      </section>
    </>
  )
}

function say(name: string, value: unknown): string {
  if (typeof value === 'number' && name.endsWith('_ms')) return duration(value / 1000)
  if (typeof value === 'number' && name.endsWith('_seconds')) return value === 0 ? 'for ever' : duration(value)
  if (value && typeof value === 'object' && 'base_ms' in value) {
    const b = value as { base_ms: number; factor: number; cap_ms: number }
    return b.base_ms === 0 ? 'at once' : `at most ${duration(b.base_ms / 1000)}, times ${b.factor} from try to try, up to ${duration(b.cap_ms / 1000)}`
  }
  return String(value)
}
