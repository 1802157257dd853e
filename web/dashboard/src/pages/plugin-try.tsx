import { useState } from 'preact/hooks'
import { call, curl, pluginPath, quern } from '../api'
import { amount, exact, queueName } from '../format'
import { useAction } from '../live'
import { ContextField, useContextPairs } from '../context'
import { CopyAs } from '../copy'
import { Empty, Failed } from '../parts'
import { link, queue, refine, route } from '../state'
import type { PluginLive, PluginTried, PluginVersion } from '../types'
import { Histogram, type ScoreBin } from './histogram'
import { tried } from './plugin-stages'

/** Scores the queue's present chunks with a version, and shows what that would change. Nothing is reserved. */
export function Try({ v, active }: { v: PluginVersion; active: boolean }) {
  const q = route.value.query
  const strategy = q.get('strategy') ?? 'OldestFirst'
  const want = Math.max(1, Math.min(1000, Number(q.get('want') ?? 20) || 20))
  const [answer, setAnswer] = useState<PluginTried>()
  const action = useAction()
  const path = `${pluginPath(v.name)}/versions/${v.sha256}/dry-run`
  const context = useContextPairs()
  const body = { queue: queue.value, strategy, want, ...context.body }
  return (
    <>
      <header><h2>Dry run of {v.version}</h2><CopyAs cli={quern('plugin', 'dry-run', v.name, v.sha256.slice(0, 12), '--queue', queue.value, '--strategy', strategy, '--want', want, ...context.flags)} curl={curl('POST', path, body)} /></header>
      <form class="row" onSubmit={(e) => { e.preventDefault(); void action.run(async () => setAnswer(await call<PluginTried>('POST', path, body))) }}>
        <label class="field grow">Candidates in the order of <input class="mono grow" value={strategy} spellcheck={false} onInput={(e) => refine({ strategy: e.currentTarget.value || undefined })} /></label>
        <label class="field">take <input type="number" min="1" max="1000" value={want} onInput={(e) => refine({ want: e.currentTarget.value || undefined })} /></label>
        <ContextField text={context.text} wrong={context.wrong} />
        <button class="main" disabled={action.busy || context.wrong !== undefined}>{action.busy ? 'Scoring…' : 'Score ready chunks'}</button>
      </form>
      {action.problem && <Failed problem={action.problem} />}
      {!answer && !action.problem && <Empty>Scores the candidates of queue {queueName(queue.value)} now: the scores, the chunks that would be taken, and the change. It reserves nothing.</Empty>}
      {answer?.live && <Live of={answer.live} active={active} want={want} />}
      {answer && !answer.live && <p class="foot">{tried(answer.report)}</p>}
    </>
  )
}

function Live({ of, active, want }: { of: PluginLive; active: boolean; want: number }) {
  if (of.rows === 0) return <Empty>No chunk is ready for this strategy.</Empty>
  return (
    <div class="stack foot" role="status">
      <p>{amount(of.rows, 'candidate')}, {exact(of.picks.length)} would be taken{of.skipped > 0 ? `, ${exact(of.skipped)} skipped` : ''}.</p>
      <Histogram bins={binned(of)} taken="would be taken" />
      <Moves name="without the plugin" of={of.submissions} gained={of.gained} lost={of.lost} want={want} />
      {!active && of.active_overlap !== undefined && <Moves name="with the active version" of={of.submissions} gained={of.active_gained ?? []} lost={of.active_lost ?? []} want={want} overlap={of.active_overlap} tau={of.active_tau} />}
    </div>
  )
}

/** The ranges of a dry run, each with the number that would be taken. */
function binned(of: PluginLive): ScoreBin[] {
  const last = of.histogram.length - 1
  return of.histogram.map((b, i) => ({ ...b, taken: of.picks.filter((p) => p.score !== null && p.score >= b.from && (p.score < b.to || (i === last && p.score <= b.to))).length }))
}

/** The submissions whose next chunks only one of the two would take, for both directions. */
function Moves({ name, of, gained, lost, want, overlap, tau }: { name: string; of: string[]; gained: number[]; lost: number[]; want: number; overlap?: number | undefined; tau?: number | undefined }) {
  const rows = (list: number[]) => (list.length === 0 ? <span class="note">none</span> : <>{list.slice(0, 16).map((r) => <a class="chip" key={r} title={`place ${r + 1} of the order before`} href={link('submissions/' + of[r])}>{of[r]}</a>)}{list.length > 16 && <small>and {exact(list.length - 16)} more</small>}</>)
  return (
    <div class="moves">
      <b>Against the order {name}</b>
      <small>{overlap === undefined ? `${exact(gained.length)} of ${exact(want)} change` : `the same in ${(100 * overlap).toFixed(0)} %, order agrees (tau) ${(tau ?? 0).toFixed(2)}`}</small>
      <div><span class="sign">+</span> move forward: the next chunk of {rows(gained)}</div>
      <div><span class="sign">−</span> move back: the next chunk of {rows(lost)}</div>
    </div>
  )
}
