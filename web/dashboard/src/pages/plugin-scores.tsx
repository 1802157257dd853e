import { curl, quern } from '../api'
import { amount, duration, exact, short } from '../format'
import { write } from '../json'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Empty, Failed } from '../parts'
import { queue, refine, route } from '../state'
import { stats } from '../stream'
import type { Page, PluginScores } from '../types'
import { Histogram } from './histogram'

const idOf = (s: PluginScores) => s.sha256.slice(0, 12) + (s.uses.length === 0 ? ' ' + write(s.config) : '')

/** How reservations are scored: the last candidates of a sample by their scores, and those that were taken. */
export function Scores({ name, path, version }: { name: string; path: string; version: string | undefined }) {
  const list = useLive<Page<PluginScores>>(`${path}/scores`, 2)
  const all = list.data?.items ?? []
  const wanted = route.value.query.get('scores')
  const s = all.find((one) => idOf(one) === wanted) ?? all.find((one) => one.sha256 === version) ?? all[0]
  const idle = !s || (s.rows === 0 && s.batches === 0 && !s.uses.some((u) => u !== 'previous'))
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const ago = (iso: string) => duration(Math.max(0, now - Date.parse(iso)) / 1000)
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Scores of live traffic</h2>{s?.last_at && now > 0 && <small>{exact(s.windows)} of {amount(s.batches, 'batch', 'batches', short)} sampled, the last {ago(s.last_at)} ago</small>}</div>
        <CopyAs cli={quern('plugin', 'scores', name)} curl={curl('GET', `${path}/scores`)} />
      </header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {all.length > 1 && (
        <div class="row foot seg" role="group" aria-label="Which version">
          {all.map((one) => <button key={idOf(one)} aria-pressed={one === s} onClick={() => refine({ scores: idOf(one) })}><span class="mono">{one.version}</span> {one.uses.length > 0 ? one.uses.join(', ') : 'asked for by a strategy'}</button>)}
        </div>
      )}
      {list.data && idle && <Empty command={quern('plugin', 'activate', name, version?.slice(0, 12) ?? 'VERSION')}>No version is in use, so none scores. Activate one: it scores from the next reservation on.</Empty>}
      {s && !idle && s.rows === 0 && <Empty command={quern('reserve', '--queue', queue.value, '--strategy', `OrElse(Plugin("${name}", OldestFirst), OldestFirst)`)}>{s.version} has scored nothing yet. It scores when a consumer reserves with a strategy that names it.</Empty>}
      {s && s.rows > 0 && (
        <div class="stack">
          <Histogram bins={s.distribution} taken="something was taken" />
          <Numbers s={s} />
        </div>
      )}
      {s && s.rows === 0 && Object.keys(s.faults).length > 0 && <Faults s={s} />}
    </section>
  )
}

function Numbers({ s }: { s: PluginScores }) {
  const configured = write(s.config)
  return (
    <>
      <p>
        The last <b>{exact(s.rows)}</b> {s.rows === 1 ? 'candidate that was' : 'candidates that were'} sampled: {s.uses.includes('shadow') ? 'a shadow decides nothing, so it took no chunk' : <>something was taken of <b>{exact(s.taken)}</b></>}, <b>{exact(s.skipped)}</b> {s.skipped === 1 ? 'was' : 'were'} skipped.
        {configured !== '{}' && <> Configured as <span class="chip">{configured}</span></>}
      </p>
      <Faults s={s} />
    </>
  )
}

const kinds: Record<string, string> = {
  trap: 'trapped', fuel: 'ran out of fuel', deadline: 'took too long', depth: 'called too deep', status: 'said it failed', exit: 'ended itself', unwritten: 'wrote no score', init: 'did not start', stopped: 'were stopped',
}

/** The faults of this version, by kind: in all its batches, not only in the sampled ones. */
function Faults({ s }: { s: PluginScores }) {
  const all = Object.entries(s.faults).sort(([, a], [, b]) => b - a)
  if (all.length === 0) return <p class="note">Of {amount(s.batches, 'batch', 'batches')} since it was opened, none failed.</p>
  const most = Math.max(...all.map(([, n]) => n))
  return (
    <div class="stack">
      <div class="faults">{all.map(([kind, n]) => <div class="gauge" key={kind}><div class="bar" aria-hidden="true"><i class="dead" style={{ width: `${(100 * n) / most}%` }} /></div><span><b>{exact(n)}</b> {kinds[kind] ?? kind}</span></div>)}</div>
      {s.last_fault && <p class="problem"><b>The last one</b>{s.last_fault}</p>}
    </div>
  )
}
