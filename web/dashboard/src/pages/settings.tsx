import { curl, quern, queuePath } from '../api'
import { Table } from '../list'
import { useLive } from '../live'
import { grouped, queueName } from '../format'
import { places } from '../nav'
import { CopyAs } from '../copy'
import { Failed, Mark } from '../parts'
import { queue, setTheme, theme, type Theme } from '../state'
import type { Queue } from '../types'
import { QueueSettings } from './queue-settings'

interface Readiness { ready: boolean; checks: { name: string; ok: boolean; detail?: string }[] }
interface Option { option: string; value: string; source: string; default: string; limit: string; help: string }

export function Settings() {
  const of = useLive<Queue>(queuePath(queue.value), 10)
  return (
    <>
      <div class="head"><h1>Settings</h1><span>the values in effect</span></div>
      <section class="card w6">
        <header><h2>Queue {queueName(queue.value)}</h2><CopyAs cli={quern('queue', 'get', queue.value)} curl={curl('GET', queuePath(queue.value))} /></header>
        {of.problem && <Failed problem={of.problem} again={of.again} />}
        {of.data?.warnings?.map((text) => <p class="note" role="status"><Mark of="waiting" /> {text}</p>)}
        {of.data && <QueueSettings q={of.data} again={of.again} />}
      </section>
      <div class="w6 stack start">
        <Server />
        <ThisPage />
      </div>
      <Options />
    </>
  )
}

function Server() {
  const ready = useLive<Readiness>('/readyz?verbose', 5)
  const version = useLive<{ version: string; revision?: string; go: string }>('/version', 0)
  return (
    <section class="card">
      <header><h2>About this server</h2></header>
      {ready.problem && <Failed problem={ready.problem} again={ready.again} />}
      {version.problem && <Failed problem={version.problem} again={version.again} />}
      <dl class="facts">
        {version.data && <><dt>version</dt><dd>{version.data.version}</dd><dt>revision</dt><dd class="mono">{version.data.revision ?? 'not known'}</dd><dt>built with</dt><dd>{version.data.go}</dd></>}
        {ready.data?.checks.map((c) => <><dt>{queueName(c.name)}</dt><dd><Mark of={c.ok ? 'done' : 'dead'} /> {c.detail}</dd></>)}
        <dt>reference</dt><dd><a href="/docs/operations">operations</a>, <a href="/openapi.json">OpenAPI document</a>, <a href="/metrics">metrics</a></dd>
      </dl>
    </section>
  )
}

function ThisPage() {
  return (
    <section class="card">
      <header><h2>This page</h2></header>
      <dl class="facts">
        <dt>theme</dt><dd><span class="seg" role="group" aria-label="Theme">{(['system', 'light', 'dark'] as Theme[]).map((t) => <button key={t} aria-pressed={theme.value === t} onClick={() => setTheme(t)}>{t}</button>)}</span></dd>
        <dt>keyboard</dt>
        <dd class="stack">
          <span><kbd>Ctrl</kbd> <kbd>K</kbd> goes anywhere, <kbd>/</kbd> goes to the filter, <kbd>p</kbd> freezes the view, <kbd>d</kbd> switches dark and light, <kbd>?</kbd> opens this page</span>
          <span>in lists, <kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> selects, <kbd>⇧x</kbd> selects up to here, <kbd>Enter</kbd> opens, <kbd>n</kbd> shows new ones</span>
          <span class="shortcuts"><span><kbd>g</kbd> then</span>{places.map((p) => <span key={p.page}><kbd>{p.key}</kbd> {p.name.toLowerCase()}</span>)}</span>
        </dd>
      </dl>
    </section>
  )
}

/** The server's options: a change of one takes a restart. */
function Options() {
  const list = useLive<{ options: Option[] }>('/v1/config', 0)
  return (
    <section class="card w12">
      <header><div class="row"><h2>Options of the server</h2><small>set at the start by flags, QUERN_ variables or a file; to change one, restart the server</small></div><CopyAs cli={quern('config', 'show', '--running')} curl={curl('GET', '/v1/config')} /></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {list.data && (
        <Table name="Options of the server" columns={[{ name: 'Option' }, { name: 'Value' }, { name: 'From' }, { name: 'What it does' }, { name: 'Allowed values' }]}
          lines={list.data.options.map((o) => ({
            id: o.option, cells: () => [
              <td class="mono">{o.option}</td>,
              <td class="mono">{o.value === '' ? <span class="note">none</span> : o.source === 'default' ? o.value : <b>{o.value}</b>}</td>,
              <td>{o.source === 'default' ? <span class="note">default</span> : <span title={`the default is ${o.default || 'none'}`}>{o.source}</span>}</td>,
              <td class="wrap">{grouped(o.help)}</td>, <td class="wrap note">{grouped(o.limit)}</td>,
            ],
          }))} />
      )}
    </section>
  )
}
