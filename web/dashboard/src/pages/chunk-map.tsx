import { curl, quern } from '../api'
import { exact } from '../format'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Failed, Mark, chunkStates } from '../parts'
import { link, refine, route } from '../state'
import type { ChunkMap as Of, Submission } from '../types'

/** Where the chunks stand, from the first to the last: a cell is one chunk or, of a large submission, a stretch that opens. */
export function ChunkMap({ s }: { s: Submission }) {
  const q = route.value.query
  const from = Number(q.get('from') ?? 0)
  const to = Number(q.get('to') ?? 0)
  const path = `/v1/submissions/${s.id}/map?cells=500${from > 0 ? `&from=${from}` : ''}${to > 0 ? `&to=${to}` : ''}`
  // A large map is read less often: the server looks at every chunk for it.
  const span = (to || s.chunks) - from
  const map = useLive<Of>(path, s.state !== 'open' ? 0 : Math.max(2, Math.min(30, Math.round(span / 40_000))))
  const m = map.data
  const open = (i: number) => (m!.each === 1 ? link(`submissions/${s.id}/${m!.from + i}`) : link('submissions/' + s.id, { from: String(m!.from + i * m!.each), to: String(Math.min(m!.to, m!.from + (i + 1) * m!.each)) }))
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Chunks</h2><small>{m ? `${exact(m.from)} to ${exact(m.to - 1)} of ${exact(m.chunks)}; a cell is ${m.each === 1 ? 'one chunk' : `${exact(m.each)} chunks${m.every > 1 ? `, of which one in ${exact(m.every)} is looked at` : ''}: click one to see them`}` : ''}</small></div>
        <div class="row">
          {(from > 0 || to > 0) && <button onClick={() => refine({ from: undefined, to: undefined })}>All chunks</button>}
          <form class="row" onSubmit={(e) => { e.preventDefault(); const index = new FormData(e.currentTarget).get('index')?.toString(); if (index) location.hash = link(`submissions/${s.id}/${index}`) }}>
            <label class="field">Index <input name="index" type="number" min="0" max={s.chunks - 1} required /></label><button>Open</button>
          </form>
          <CopyAs cli={quern('map', s.id, ...(from > 0 ? ['--from', from] : []), ...(to > 0 ? ['--to', to] : []))} curl={curl('GET', path)} />
        </div>
      </header>
      {map.problem && <Failed problem={map.problem} again={map.again} />}
      {m && <div class={m.each === 1 ? 'map' : 'map parts'}>{m.done.map((_, i) => <Cell key={i} m={m} i={i} href={open(i)} />)}</div>}
      <div class="legend foot map-legend">{chunkStates.map((of) => named(of, m)).map((of) => <span key={of}><Mark of={of} />{of}</span>)}</div>
    </section>
  )
}

/** A rule covers a whole submission, so all its ready chunks are paused or blocked. */
const named = (of: (typeof chunkStates)[number], m: Of | undefined) => (of === 'ready' ? m?.ruling ?? of : of)

function Cell({ m, i, href }: { m: Of; i: number; href: string }) {
  const first = m.from + i * m.each
  const counts = chunkStates.map((of) => [named(of, m), m[of][i] ?? 0] as const).filter(([, n]) => n > 0)
  if (m.each === 1) {
    const state = counts[0]?.[0] ?? 'ready'
    return <a class={state} href={href} title={`${first}: ${state}`} aria-label={`Chunk ${first}, ${state}`} />
  }
  const last = Math.min(m.to, first + m.each) - 1
  const text = (m.every > 1 ? `of each ${exact(m.every)} one is looked at, ` : '') + counts.map(([of, n]) => `${exact(n)} ${of}`).join(', ')
  return <a href={href} title={`${exact(first)} to ${exact(last)}: ${text}`} aria-label={`Chunks ${first} to ${last}: ${text}`}>{counts.map(([of, n]) => <i key={of} class={of} style={{ flexGrow: n }} />)}</a>
}
