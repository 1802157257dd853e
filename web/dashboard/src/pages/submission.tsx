import { useEffect, useState } from 'preact/hooks'
import { call, curl, shell } from '../api'
import { exact, moment, percent } from '../format'
import { useAction, useLive } from '../live'
import { CopyAs, Count, Empty, Failed, Mark, MetaChips, Progress, State, chunkStates } from '../parts'
import { link, refine, route, say } from '../state'
import type { Chunk, Page, Submission as Sub } from '../types'
import { Cancel } from './submissions'
import { Why } from './why'

export function Submission({ id }: { id: string }) {
  const sub = useLive<Sub>(`/v1/submissions/${encodeURIComponent(id)}`, 1)
  const s = sub.data
  return (
    <>
      <div class="head">
        <h1>Submission</h1><span class="mono">{id}</span>{s && <State of={s.state} />}
        <div class="act">{s?.state === 'open' && <Cancel s={s} done={sub.again} />}<CopyAs cli={shell('quern', 'get', id)} curl={curl('GET', '/v1/submissions/' + id)} /></div>
      </div>
      {sub.problem && <div class="w12"><Failed problem={sub.problem} again={sub.again} /></div>}
      {s && (
        <>
          <section class="card w5"><header><h2>Facts</h2></header><Facts s={s} again={sub.again} /></section>
          <section class="card w7">
            <header><h2>Progress</h2><small>{percent(s.done, s.chunks).toFixed(1)} % of {exact(s.chunks)} chunks done</small></header>
            <Progress s={s} />
            <div class="legend foot">{chunkStates.map((of) => <span key={of}><Mark of={of} />{of} <b><Count n={s[of] ?? 0} /></b></span>)}</div>
            <p class="foot row">
              {s.failure && <span class="badge">failed</span>}{s.failure}
              <a href={`/v1/submissions/${id}/outputs`} target="_blank" rel="noreferrer">Outputs as JSON lines</a>
              <CopyAs cli={shell('quern', 'outputs', id)} curl={curl('GET', `/v1/submissions/${id}/outputs`)} />
            </p>
          </section>
          <Failures s={s} />
          <ChunkMap s={s} />
          <ChunkPanel s={s} />
        </>
      )}
    </>
  )
}

function Facts({ s, again }: { s: Sub; again: () => void }) {
  return (
    <dl class="facts">
      <dt>Queue</dt><dd>{s.queue}</dd>
      <dt>Meta</dt><dd>{s.meta ? <MetaChips meta={s.meta} /> : 'none'}</dd>
      <dt>Content</dt><dd>{s.prefix !== undefined ? <code>{s.prefix}{'{index}'}</code> : s.template !== undefined ? <code>{s.template}</code> : 'inline'}</dd>
      <dt>Created</dt><dd>{moment(s.created_at)}</dd>
      {s.finished_at && <><dt>Ended</dt><dd>{moment(s.finished_at)}</dd></>}
      {s.run_at && <><dt>Runs at</dt><dd>{moment(s.run_at)}</dd></>}
      {s.dead_deadline && <><dt>Expires at</dt><dd>{moment(s.dead_deadline)}</dd></>}
      {s.group && <><dt>Group</dt><dd>{s.group}</dd></>}
      <dt>Priority</dt><dd>{s.state === 'open' ? <Priority s={s} again={again} /> : s.priority ?? 0}</dd>
    </dl>
  )
}

function Priority({ s, again }: { s: Sub; again: () => void }) {
  const action = useAction()
  const [text, setText] = useState('')
  const save = (e: SubmitEvent) => {
    e.preventDefault()
    void action.run(async () => {
      await call('PATCH', '/v1/submissions/' + s.id, { priority: Number(text) })
      say(`Priority ${text}, from the next reservation on`)
      setText('')
      again()
    })
  }
  return (
    <form class="row" onSubmit={save}>
      <b>{s.priority ?? 0}</b>
      <input type="number" step="1" aria-label="New priority" value={text} onInput={(e) => setText(e.currentTarget.value)} required />
      <button disabled={action.busy}>Change</button>
      {action.problem && <Failed problem={action.problem} />}
    </form>
  )
}

/** What went wrong, grouped by the words of the error, among the first chunks that are dead or wait for another try. */
function Failures({ s }: { s: Sub }) {
  const none = s.dead === 0 && s.waiting === 0
  const list = useLive<Page<Chunk>>(none ? '' : `/v1/submissions/${s.id}/chunks?state=dead,waiting&limit=200`, 5)
  const groups = new Map<string, Chunk[]>()
  for (const c of list.data?.items ?? []) if (c.error) groups.set(c.error, [...(groups.get(c.error) ?? []), c])
  if (none || (list.data && groups.size === 0)) return null
  return (
    <section class="card w12">
      <header><h2>Failures</h2><small>by error, of {exact(list.data?.items.length ?? 0)} chunks that are dead or wait{list.data?.next ? ' (the first ones)' : ''}</small></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      <div class="scroll" tabIndex={0} role="region" aria-label="Failures"><table>
        <thead><tr><th>Error</th><th class="r">Chunks</th><th>Such as</th></tr></thead>
        <tbody>{[...groups].sort((a, b) => b[1].length - a[1].length).map(([error, chunks]) => (
          <tr key={error}><td class="wrap">{error}</td><td class="r">{exact(chunks.length)}</td>
            <td>{chunks.slice(0, 5).map((c) => <button key={c.index} class="quiet mono" onClick={() => refine({ chunk: String(c.index) })}>{c.index}</button>)}</td></tr>
        ))}</tbody>
      </table></div>
    </section>
  )
}

/** One cell for each chunk, a page of them at a time, in the order of the index. */
function ChunkMap({ s }: { s: Sub }) {
  const [back, setBack] = useState<string[]>([])
  const q = route.value.query
  const cursor = back.at(-1) ?? ''
  const state = q.get('state') ?? ''
  const chosen = q.get('chunk')
  useEffect(() => setBack([]), [state, s.id])
  const params = new URLSearchParams({ limit: '500', ...(state ? { state } : {}), ...(cursor ? { cursor } : {}) })
  const list = useLive<Page<Chunk>>(`/v1/submissions/${s.id}/chunks?${params}`, s.state === 'open' ? 3 : 0)
  const items = list.data?.items ?? []
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Chunks</h2><small>{items.length > 0 ? `${exact(items[0]!.index)} to ${exact(items.at(-1)!.index)} of ${exact(s.chunks)}, each cell one chunk` : ''}</small></div>
        <div class="row">
          <label class="field">State <select value={state} onChange={(e) => refine({ state: e.currentTarget.value || undefined })}><option value="">all</option>{chunkStates.map((of) => <option key={of}>{of}</option>)}</select></label>
          <form class="row" onSubmit={(e) => { e.preventDefault(); refine({ chunk: new FormData(e.currentTarget).get('index')?.toString() || undefined }) }}>
            <label class="field">Index <input name="index" type="number" min="0" max={s.chunks - 1} required /></label><button>Open</button>
          </form>
          <button disabled={back.length === 0} onClick={() => setBack(back.slice(0, -1))}>Back</button>
          <button disabled={!list.data?.next} onClick={() => setBack([...back, list.data!.next!])}>Next</button>
        </div>
      </header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {list.data && items.length === 0 && <Empty>{list.data.next ? `None of the chunks looked at is ${state}; go on with Next.` : `No chunk is ${state || 'here'}.`}</Empty>}
      <div class="map">{items.map((c) => <button key={c.index} class={c.state} aria-pressed={String(c.index) === chosen} title={`${c.index}: ${c.state}`} aria-label={`Chunk ${c.index}, ${c.state}`} onClick={() => refine({ chunk: String(c.index) })} />)}</div>
      <div class="legend foot map-legend">{chunkStates.map((of) => <span key={of}><Mark of={of} />{of}</span>)}</div>
    </section>
  )
}

function ChunkPanel({ s }: { s: Sub }) {
  const index = route.value.query.get('chunk')
  const chunk = useLive<Chunk>(index === null ? '' : `/v1/submissions/${s.id}/chunks/${encodeURIComponent(index)}`, 1)
  if (index === null) return <section class="card w12"><Empty>Choose a chunk above to see where it stands and why it is not handed out.</Empty></section>
  const c = chunk.data
  return (
    <>
      <section class="card w5">
        <header><h2>Chunk {index}</h2><a href={link('submissions/' + s.id)}>close</a></header>
        {chunk.problem && <Failed problem={chunk.problem} again={chunk.again} />}
        {c && (
          <dl class="facts">
            <dt>State</dt><dd><State of={c.state} /></dd>
            <dt>Attempts</dt><dd>{c.attempts} ended</dd>
            {c.consumer && <><dt>Consumer</dt><dd>{c.consumer}</dd></>}
            {c.deadline && <><dt>Deadline</dt><dd>{moment(c.deadline)}</dd></>}
            {c.not_before && <><dt>Not before</dt><dd>{moment(c.not_before)}</dd></>}
            {c.error && <><dt>Last error</dt><dd>{c.error}</dd></>}
          </dl>
        )}
      </section>
      <section class="card w7"><Why key={`${s.id}/${index}`} id={s.id} index={index} /></section>
    </>
  )
}
