import { curl, pluginPath, quern } from '../api'
import { amount, exact, moment } from '../format'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Empty, Failed } from '../parts'
import { refine, route } from '../state'
import type { PluginLogs } from '../types'

/** By their numbers in settings. */
export const levels = ['debug', 'info', 'warn', 'error']

/** The plugin's log, the newest line at the top; the server keeps a thousand lines. */
export function Logs({ name, dropped }: { name: string; dropped: number }) {
  const least = levels.indexOf(route.value.query.get('level') ?? 'debug')
  const path = pluginPath(name) + '/logs'
  const list = useLive<PluginLogs>(`${path}?limit=1000`, 3)
  const lines = (list.data?.lines ?? []).filter((l) => levels.indexOf(l.level) >= least).slice(-200).reverse()
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Log</h2><small>{list.data ? `${amount(list.data.lines.length, 'line')} kept${dropped > 0 ? `, ${exact(dropped)} dropped over the limits` : ''}${list.data.missing ? `, without those of ${list.data.missing.join(', ')}` : ''}` : ''}</small></div>
        <div class="row">
          <label class="field">From level <select value={levels[least]} onChange={(e) => refine({ level: e.currentTarget.value === 'debug' ? undefined : e.currentTarget.value })}>{levels.map((l) => <option key={l}>{l}</option>)}</select></label>
          <CopyAs cli={quern('plugin', 'logs', name)} curl={curl('GET', path)} />
        </div>
      </header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {list.data && lines.length === 0 && <Empty>{list.data.lines.length === 0 ? 'No log lines since the server started.' : 'No lines of this level or above.'}</Empty>}
      {lines.length > 0 && (
        <div class="log" tabIndex={0} role="log" aria-label="Log" aria-live="off">
          {lines.map((l) => <div key={`${l.node} ${l.number}`} class={'line ' + l.level}><time>{moment(l.time)}</time><b>{l.level}</b><span class="note">{l.version}{l.node && ` ${l.node}`}</span><span>{l.text}</span></div>)}
        </div>
      )}
    </section>
  )
}
