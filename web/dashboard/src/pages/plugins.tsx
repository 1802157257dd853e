import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { Problem, curl, quern } from '../api'
import { exact, moment } from '../format'
import { List } from '../list'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Empty, Failed, Mark } from '../parts'
import { link } from '../state'
import { Clamp } from '../text'
import type { Page, Plugin, PluginUse, PluginVersion } from '../types'
import { Drop } from './plugin-drop'
import { Stages } from './plugin-stages'

const marks: Record<string, string> = { active: 'done', inactive: 'zero', half_open: 'waiting', throttled: 'waiting', open: 'dead', quarantined: 'dead', held: 'skipped', starting: 'waiting' }

/** Whether a plugin scores, or the reason why not: in words, with a mark. */
export const PluginState = ({ of }: { of: string }) => <span class="state"><Mark of={marks[of] ?? 'zero'} />{of === 'open' ? 'breaker open' : of.replaceAll('_', ' ')}</span>

export const use = (u: PluginUse | undefined) => (u ? <span class="mono" title={u.sha256}><Clamp text={u.version} most={20} /> <span class="note">{u.sha256.slice(0, 8)}</span></span> : <span class="note">—</span>)

export function Plugins() {
  const list = useLive<Page<Plugin>>('/v1/plugins?limit=1000', 3)
  const [came, setCame] = useState<PluginVersion>()
  const [refused, setRefused] = useState<Problem>()
  return (
    <>
      <div class="head"><h1>Plugins</h1><span>modules that score candidates, for all queues of this server</span>
        <div class="act"><CopyAs cli={quern('plugin', 'list')} curl={curl('GET', '/v1/plugins')} /></div>
      </div>
      <Gate scope="plugins">
        <section class="card w5">
          <header><h2>Upload a version</h2></header>
          <Drop came={(v) => { setCame(v); setRefused(undefined); list.again() }} refused={(p) => { setRefused(p); setCame(undefined) }} />
        </section>
        <section class="card w7">
          <header><h2>Steps</h2>{came && <a href={link('plugins/' + came.name, { version: came.sha256.slice(0, 12) })}>Open {came.name} {came.version}</a>}</header>
          <Stages version={came} refused={refused} />
        </section>
      </Gate>
      <section class="card w12">
        <header><h2>Uploaded</h2><small>{list.data ? exact(list.data.items.length) : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!list.data && !list.problem && <p class="note">Reading…</p>}
        {list.data?.items.length === 0 && <Empty command={quern('plugin', 'push', 'deadline-first.wasm', '--activate')}>No plugins. A strategy names one as Plugin("name", …). The plugin orders the candidates, in a sandbox with a budget.</Empty>}
        {list.data && list.data.items.length > 0 && (
          <List name="Plugins" items={list.data.items} id={(p) => p.name} scope="" open={(p) => link('plugins/' + p.name)}
            columns={[{ name: 'Plugin' }, { name: 'State' }, { name: 'Active' }, { name: 'Canary' }, { name: 'Shadow' }, { name: 'Versions', right: true }, { name: 'Changed' }]}
            cells={(p) => [
              <td><a class="mono" href={link('plugins/' + p.name)}>{p.name}</a></td>, <td><PluginState of={p.state} /></td>, <td>{use(p.active)}</td>,
              <td>{use(p.canary)}{p.canary && <span> {p.canary_percent} %</span>}</td>, <td>{use(p.shadow)}</td>, <td class="r">{exact(p.versions)}</td>, <td class="note">{p.changed_at ? moment(p.changed_at) : ''}</td>,
            ]} />
        )}
      </section>
    </>
  )
}
