import { useState } from 'preact/hooks'
import { call, curl, pluginPath, quern } from '../api'
import { CopyAs } from '../copy'
import { Outcome, useEdit, type Version } from '../edit'
import { pluginSettings, said } from '../settings'
import { say } from '../state'
import type { Plugin } from '../types'
import { levels } from './plugin-logs'
import { Entry, wrongAt } from './setting-entry'

/** The settings of a plugin, as the server declares them. Answers leave out settings that are 0 or an empty text. */
export function PluginSettingsForm({ p, again }: { p: Plugin; again: () => void }) {
  const [edited, setEdited] = useState<Record<string, unknown>>({})
  const path = pluginPath(p.name) + '/settings'
  const edit = useEdit({
    now: version(p), changes: edited, log: { target: 'plugin ' + p.name }, said,
    read: async () => version(await call<Plugin>('GET', pluginPath(p.name))),
    put: async (fields, guard) => version(await call<Plugin>('PUT', path, fields, guard)),
    done: (_, saved) => {
      if (saved) say(`${p.name}: settings saved, in effect now`)
      setEdited({})
      again()
    },
  })
  const body = edit.fields
  const known = pluginSettings.some(({ name }) => wrongAt(edit.problem, '/' + name).length > 0)
  return (
    <form class="stack" aria-label={`Settings of ${p.name}`} onSubmit={(e) => { e.preventDefault(); void edit.save() }}>
      <dl class="facts form settings">
        {pluginSettings.map(({ name }) => <Entry key={name} name={name} value={body[name]} set={(value) => setEdited({ ...edited, [name]: value })} problem={edit.problem} pointer={'/' + name} />)}
      </dl>
      <div class="row"><button class="main" disabled={edit.busy || Object.keys(edited).length === 0}>Save</button><CopyAs cli={quern('plugin', 'settings', p.name, ...Object.entries(edited).flatMap(flag))} curl={curl('PUT', path, body)} /></div>
      {!known && <Outcome edit={edit} />}
    </form>
  )
}

const version = (p: Plugin): Version => {
  const set: Record<string, unknown> = { ...p.settings }
  return { etag: p.etag, fields: Object.fromEntries(pluginSettings.map(({ name, choices }) => [name, set[name] ?? (choices ? '' : 0)])) }
}

/** The flag that `quern plugin settings` has for a setting: two of them have names for their values. */
const flag = ([name, value]: [string, unknown]) => ['--' + name.replaceAll('_', '-'), name === 'hold' ? String(value || 'auto') : name === 'log_level' ? levels[Number(value)] ?? String(value) : String(value)]
