import { useState } from 'preact/hooks'
import { call, curl, pluginPath, quern } from '../api'
import { useAction } from '../live'
import { CopyAs } from '../copy'
import { Failed } from '../parts'
import { pluginSettings } from '../settings'
import { say } from '../state'
import type { Plugin } from '../types'
import { levels } from './plugin-logs'
import { Entry, wrongAt } from './setting-entry'

/** What an operator may set for a plugin, as the server declares it. An answer is without what is not set: 0, or no text. */
export function PluginSettingsForm({ p, again }: { p: Plugin; again: () => void }) {
  const action = useAction()
  const [edited, setEdited] = useState<Record<string, unknown>>({})
  const set: Record<string, unknown> = { ...p.settings }
  const body = Object.fromEntries(pluginSettings.map(({ name, choices }) => [name, edited[name] ?? set[name] ?? (choices ? '' : 0)]))
  const path = pluginPath(p.name) + '/settings'
  const save = (e: SubmitEvent) => {
    e.preventDefault()
    void action.run(async () => {
      await call('PUT', path, body, { 'If-Match': p.etag })
      say(`${p.name}: settings saved, in effect now`)
      setEdited({})
      again()
    })
  }
  const known = pluginSettings.some(({ name }) => wrongAt(action.problem, '/' + name).length > 0)
  return (
    <form class="stack" aria-label={`Settings of ${p.name}`} onSubmit={save}>
      <dl class="facts form settings">
        {pluginSettings.map(({ name }) => <Entry key={name} name={name} value={body[name]} set={(value) => setEdited({ ...edited, [name]: value })} wrong={wrongAt(action.problem, '/' + name)} />)}
      </dl>
      <div class="row"><button class="main" disabled={action.busy || Object.keys(edited).length === 0}>Save</button><CopyAs cli={quern('plugin', 'settings', p.name, ...Object.entries(edited).flatMap(flag))} curl={curl('PUT', path, body)} /></div>
      {action.problem && !known && <Failed problem={action.problem} />}
    </form>
  )
}

/** The flag that `quern plugin settings` has for a setting: two of them have names for their values. */
const flag = ([name, value]: [string, unknown]) => ['--' + name.replaceAll('_', '-'), name === 'hold' ? String(value || 'auto') : name === 'log_level' ? levels[Number(value)] ?? String(value) : String(value)]
