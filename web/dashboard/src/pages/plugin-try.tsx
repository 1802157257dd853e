import { useState } from 'preact/hooks'
import { call, curl, shell } from '../api'
import { exact } from '../format'
import { useAction } from '../live'
import { CopyAs, Empty, Failed, Mark } from '../parts'
import { queue, refine, route } from '../state'
import type { PluginLive, PluginTried, PluginVersion } from '../types'
import { tried } from './plugin-stages'

/** Scores what the queue holds now with a version, and says what that would change. Nothing is reserved. */
export function Try({ v, active }: { v: PluginVersion; active: boolean }) {
  const q = route.value.query
  const strategy = q.get('strategy') ?? 'OldestFirst'
  const want = Math.max(1, Math.min(1000, Number(q.get('want') ?? 20) || 20))
  const [answer, setAnswer] = useState<PluginTried>()
  const action = useAction()
  const path = `/v1/plugins/${encodeURIComponent(v.name)}/versions/${v.sha256}/dry-run`
  const body = { queue: queue.value, strategy, want }
  return (
    <>
      <header><h2>Dry run of {v.version}</h2><CopyAs cli={shell('quern', 'plugin', 'dry-run', v.name, v.sha256.slice(0, 12), '--queue', queue.value, '--strategy', strategy, '--want', want)} curl={curl('POST', path, body)} /></header>
      <form class="row" onSubmit={(e) => { e.preventDefault(); void action.run(async () => setAnswer(await call<PluginTried>('POST', path, body))) }}>
        <label class="field grow">Candidates in the order of <input class="mono grow" value={strategy} spellcheck={false} onInput={(e) => refine({ strategy: e.currentTarget.value || undefined })} /></label>
        <label class="field">take <input type="number" min="1" max="1000" value={want} onInput={(e) => refine({ want: e.currentTarget.value || undefined })} /></label>
        <button class="main" disabled={action.busy}>{action.busy ? 'Scoring…' : 'Score what is ready'}</button>
      </form>
      {action.problem && <Failed problem={action.problem} />}
      {!answer && !action.problem && <Empty>Scores the candidates of queue {queue.value} as they are now: the spread of the scores, what would be taken, and what that changes. Nothing is reserved.</Empty>}
      {answer?.live && <Live of={answer.live} active={active} want={want} />}
      {answer && !answer.live && <p class="foot">{tried(answer.report)}</p>}
    </>
  )
}

function Live({ of, active, want }: { of: PluginLive; active: boolean; want: number }) {
  if (of.rows === 0) return <Empty>Nothing is ready for this strategy, so there is nothing to score.</Empty>
  return (
    <div class="stack foot" role="status">
      <p>{exact(of.rows)} candidates, {exact(of.picks.length)} would be taken{of.skipped > 0 ? `, ${exact(of.skipped)} skipped` : ''}.</p>
      <Histogram of={of} />
      <Moves name="without the plugin" gained={of.gained} lost={of.lost} want={want} />
      {!active && of.active_overlap !== undefined && <Moves name="with the active version" gained={of.active_gained ?? []} lost={of.active_lost ?? []} want={want} overlap={of.active_overlap} tau={of.active_tau} />}
    </div>
  )
}

/** How the scores are spread: a column for each range, its upper part what would be taken. */
export function Histogram({ of }: { of: PluginLive }) {
  const most = Math.max(1, ...of.histogram.map((b) => b.count))
  const last = of.histogram.length - 1
  const taken = of.histogram.map((b, i) => of.picks.filter((p) => p.score !== null && p.score >= b.from && (p.score < b.to || (i === last && p.score <= b.to))).length)
  const text = (n: number) => (Math.abs(n) >= 1e6 || (n !== 0 && Math.abs(n) < 0.01) ? n.toExponential(1) : String(Math.round(n * 100) / 100))
  if (last < 0) return null
  return (
    <figure class="hist">
      <div class="bars" role="img" aria-label={`Scores from ${text(of.histogram[0]!.from)} to ${text(of.histogram[last]!.to)}; the fullest range has ${exact(most)} candidates. The table below has the numbers.`}>
        {of.histogram.map((b, i) => (
          <div key={i} class="col" title={`${text(b.from)} to ${text(b.to)}: ${exact(b.count)} candidates, ${exact(taken[i]!)} taken`}>
            <i class="rest" style={{ height: `${(100 * Math.max(0, b.count - taken[i]!)) / most}%` }} />
            {taken[i]! > 0 && <i class="took" style={{ height: `max(3px, ${(100 * Math.min(b.count, taken[i]!)) / most}%)` }} />}
          </div>
        ))}
      </div>
      <figcaption class="legend"><span class="mono">{text(of.histogram[0]!.from)}</span><span class="mid"><span><Mark of="ready" />candidates</span><span><Mark of="took" />would be taken</span></span><span class="mono">{text(of.histogram[last]!.to)}</span></figcaption>
      <details><summary>Scores as a table</summary>
        <table><thead><tr><th>From</th><th>To</th><th class="r">Candidates</th><th class="r">Taken</th></tr></thead>
          <tbody>{of.histogram.map((b, i) => <tr key={i}><td class="mono">{text(b.from)}</td><td class="mono">{text(b.to)}</td><td class="r">{exact(b.count)}</td><td class="r">{exact(taken[i]!)}</td></tr>)}</tbody></table>
      </details>
    </figure>
  )
}

/** What is taken now and would not be otherwise, and the reverse; a row is a place in the order before. */
function Moves({ name, gained, lost, want, overlap, tau }: { name: string; gained: number[]; lost: number[]; want: number; overlap?: number | undefined; tau?: number | undefined }) {
  const rows = (list: number[]) => (list.length === 0 ? <span class="note">none</span> : <>{list.slice(0, 16).map((r) => <span class="chip" key={r}>{r + 1}</span>)}{list.length > 16 && <small>and {exact(list.length - 16)} more</small>}</>)
  return (
    <div class="moves">
      <b>Against the order {name}</b>
      <small>{overlap === undefined ? `${exact(gained.length)} of ${exact(want)} change` : `the same in ${(100 * overlap).toFixed(0)} %, order agrees (tau) ${(tau ?? 0).toFixed(2)}`}</small>
      <div><span class="sign">+</span> come forward, from place {rows(gained)}</div>
      <div><span class="sign">−</span> are put off, from place {rows(lost)}</div>
    </div>
  )
}
