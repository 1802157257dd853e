import { useState } from 'preact/hooks'
import { call, curl, pluginPath } from '../api'
import { useAction } from '../live'
import { Copy } from '../copy'
import { Failed } from '../parts'
import { say } from '../state'
import type { Plugin } from '../types'

/** What an operator may set for a plugin; empty fields are the server's defaults. */
export function PluginSettingsForm({ p, again }: { p: Plugin; again: () => void }) {
  const action = useAction()
  const [edited, setEdited] = useState<Record<string, string>>({})
  const now: Record<string, string> = {
    hold: p.settings.hold ?? '', cpu_share: p.settings.cpu_share ? String(p.settings.cpu_share) : '', record_every: p.settings.record_every ? String(p.settings.record_every) : '', log_level: String(p.settings.log_level ?? 0), ...edited,
  }
  const body = { hold: now.hold!, cpu_share: Number(now.cpu_share), record_every: Number(now.record_every), log_level: Number(now.log_level) }
  const path = pluginPath(p.name) + '/settings'
  const set = (name: string) => (e: { currentTarget: HTMLInputElement | HTMLSelectElement }) => setEdited({ ...edited, [name]: e.currentTarget.value })
  const save = (e: SubmitEvent) => {
    e.preventDefault()
    void action.run(async () => {
      await call('PUT', path, body, { 'If-Match': p.etag })
      say(`${p.name}: settings hold from now on`)
      setEdited({})
      again()
    })
  }
  return (
    <form class="stack" onSubmit={save}>
      <dl class="facts form">
        <dt><label for="hold">Breaker</label></dt><dd><select id="hold" value={now.hold} onChange={set('hold')}><option value="">opens after faults</option><option value="open">held out of use</option><option value="closed">never opens</option></select></dd>
        <dt><label for="cpu">Processor, of one core</label></dt><dd><input id="cpu" type="number" min="0" max="64" step="0.01" placeholder="0.25" value={now.cpu_share} onInput={set('cpu_share')} /> <span class="note">over 10 s; above it is throttled</span></dd>
        <dt><label for="every">Record one batch of</label></dt><dd><input id="every" type="number" min="0" step="1" placeholder="10000" value={now.record_every} onInput={set('record_every')} /></dd>
        <dt><label for="level">Keep log lines from</label></dt><dd><select id="level" value={now.log_level} onChange={set('log_level')}>{['debug', 'info', 'warn', 'error'].map((l, i) => <option key={l} value={String(i)}>{l}</option>)}</select></dd>
      </dl>
      <div class="row"><button class="main" disabled={action.busy || Object.keys(edited).length === 0}>Save</button><Copy text={curl('PUT', path, body)} name="Copy curl" /></div>
      {action.problem && <Failed problem={action.problem} />}
    </form>
  )
}
