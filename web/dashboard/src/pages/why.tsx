import { useState } from 'preact/hooks'
import { call, curl, quern, queuePath } from '../api'
import { amount, clamped, duration, exact, moment, percent, short, shown, visible } from '../format'
import { useAction, useLive } from '../live'
import { CopyAs } from '../copy'
import { Failed, Unscored, Width } from '../parts'
import { queue } from '../state'
import { Sentence } from '../text'
import type { StrategiesInUse, Why as Answer, WhyBranch } from '../types'

/** Asks why one chunk is not handed out to a strategy, and draws the blocks in its way. */
export function Why({ id, index }: { id: string; index: string }) {
  const used = useLive<StrategiesInUse>(`${queuePath(queue.value)}/strategies/in-use`, 0)
  const [typed, setText] = useState<string>()
  const items = used.data?.items ?? [] // the list has its place before it is read, so that nothing below moves under a click
  const text = typed ?? items[0]?.strategy ?? 'Random'
  const [answer, setAnswer] = useState<Answer>()
  const action = useAction()
  const path = `/v1/submissions/${id}/chunks/${index}/why`
  const ask = () => action.run(async () => setAnswer(await call<Answer>('POST', path, { strategy: text })))
  return (
    <>
      <header class="row"><h2>Why does it wait?</h2></header>
      <form class="stack" onSubmit={(e) => { e.preventDefault(); void ask() }}>
        <label class="stack tight">A strategy of the last hour
          <select value={text} disabled={items.length === 0} onChange={(e) => setText(e.currentTarget.value)}>
            {!items.some((u) => u.strategy === text) && <option value={text}>{items.length > 0 ? 'another, below' : used.data ? 'none was used' : 'reading…'}</option>}
            {items.map((u) => <option key={u.strategy} value={u.strategy}>{clamped(visible(u.strategy), 80)} · {short(u.chunks_per_second)} chunks/s</option>)}
          </select>
        </label>
        <label class="sr" for="why-text">Strategy of the consumer</label>
        {/* The focus fixes the text: otherwise a strategy that arrives later would replace the text, and the selection with it. */}
        <textarea id="why-text" rows={2} spellcheck={false} value={text} onFocus={() => setText(text)} onInput={(e) => setText(e.currentTarget.value)} />
        <div class="row"><button class="main" disabled={action.busy}>Ask why</button><CopyAs cli={quern('why', id, index, '--strategy', text)} curl={curl('POST', path, { strategy: text })} /></div>
      </form>
      {action.problem && <Failed problem={action.problem} />}
      {answer && (
        <div class="stack foot" aria-live="polite">
          <p>The chunk is <b>{answer.state}</b>. {standing(answer)}</p>
          <Unscored list={answer.warnings} />
          {answer.restart_grace_until && <p>The server restarted: until {moment(answer.restart_grace_until)} it hands out nothing that a limit counts.</p>}
          {answer.branches.map((b) => <Obstacle key={b.branch} b={b} />)}
        </div>
      )}
    </>
  )
}

function standing({ standing: s }: Answer): string {
  if (!s) return 'No branch of this strategy would hand it out now.'
  const among = s.among ? ` It is drawn from ${s.at_least ? 'at least ' : 'about '}${amount(s.among, 'chunk', 'chunks', short)}.` : ''
  const wait = s.wait_ms !== undefined ? ` At ${short(s.per_second)}/s of the last minute that is about ${duration(s.wait_ms / 1000)}.` : ''
  return `Branch ${s.branch} admits it: ${s.at_least ? 'at least ' : 'about '}${amount(s.ahead, 'chunk comes', 'chunks come')} before it.${among}${wait}`
}

function Obstacle({ b }: { b: WhyBranch }) {
  const open = b.obstacle === 'none' || b.obstacle === 'turn'
  const held = ['limit', 'value_limit', 'rate', 'reserved', 'waiting', 'restart_grace', 'not_yet_due', 'after', 'hidden', 'alternative'].includes(b.obstacle)
  return (
    <div class={`branch ${open ? 'open' : held ? 'held' : 'shut'}`}>
      <div class="row"><b>Branch {b.branch}</b><span class="chip">{b.obstacle.replaceAll('_', ' ')}</span><code class="mono">{b.path}</code></div>
      <p><Sentence text={b.detail} /></p>
      {b.in_flight !== undefined && b.max !== undefined && (
        <div class="gauge"><div class={b.in_flight >= b.max ? 'bar sat' : 'bar'} aria-hidden="true"><Width of="reserved" share={percent(b.in_flight, b.max)} /></div><span>{exact(b.in_flight)} / {exact(b.max)}</span></div>
      )}
      {b.until && !b.detail.includes(b.until) && <small>until {moment(b.until)}{b.consumer ? `, held by ${b.consumer}` : ''}</small>}
      {(b.tenants ?? []).map((t) => <small key={t.key}>Fair over {t.key}: {t.value === undefined ? 'no value' : shown(t.value)} is {t.state}, weight {exact(t.weight)}, share {percent(t.share, 1).toFixed(1)} %, owed {t.lag.toFixed(2)}{t.before ? `, about ${amount(t.before, 'comes', 'come')} before it` : ''}</small>)}
    </div>
  )
}
