import { curl, quern, queuePath } from '../api'
import { exact, moment } from '../format'
import { List, Table } from '../list'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Count, Empty, Failed } from '../parts'
import { link } from '../state'
import type { Chunk, DeadGroups, Page, Submission } from '../types'
import { text } from './chunk'

interface Group { error: string; state: string; chunks: Chunk[] }

/** The failures: dead chunks by the kind of their error, and chunks that wait for another attempt by its text. */
export function Failures({ s }: { s: Submission }) {
  const groups = useLive<DeadGroups>(s.dead > 0 && s.state !== 'failed' && s.state !== 'cancelled' ? `${queuePath(s.queue)}/dead-letters/groups?submission=${s.id}` : '', 4)
  const list = useLive<Page<Chunk>>(s.dead + s.waiting > 0 ? `/v1/submissions/${s.id}/chunks?state=dead,waiting&limit=200` : '', 4)
  const waiting = new Map<string, Group>()
  for (const c of list.data?.items ?? []) {
    if (!c.error || (c.state === 'dead' && groups.data)) continue
    const g = waiting.get(c.state + c.error) ?? { error: c.error, state: c.state, chunks: [] }
    waiting.set(c.state + c.error, { ...g, chunks: [...g.chunks, c] })
  }
  const rest = [...waiting.values()].sort((a, b) => b.chunks.length - a.chunks.length)
  const dead = groups.data?.items ?? []
  if (dead.length === 0 && rest.length === 0) return null
  return (
    <section class="card w12 half">
      <header><h2>Failures</h2><small>{s.waiting > 0 && list.data ? `those that wait: of the first ${exact(list.data.items.length)}${list.data.next ? ', there are more' : ''}` : ''}</small></header>
      {(groups.problem ?? list.problem) && <Failed problem={(groups.problem ?? list.problem)!} again={() => { groups.again(); list.again() }} />}
      <Table name="Failures" columns={[{ name: 'Error' }, { name: 'Chunks are' }, { name: 'Chunks', right: true }, { name: 'Last' }, { name: 'Such as' }]}
        lines={[
          ...dead.map((g) => ({ id: g.fingerprint, cells: () => [<td class="wrap error">{g.pattern || 'no error reported'}</td>, <td>dead</td>, <td class="r"><Count n={g.count} /></td>, <td class="note">{g.last_died_at ? moment(g.last_died_at) : ''}</td>, <td><a href={link('dead-letters', { submission: s.id, fingerprint: g.fingerprint })}>inspect and redrive</a></td>] })),
          ...rest.map((g) => ({ id: g.state + g.error, cells: () => [<td class="wrap error">{g.error}</td>, <td>{g.state === 'waiting' ? 'waiting for a retry' : g.state}</td>, <td class="r">{exact(g.chunks.length)}</td>, <td />, <td><div class="row">{g.chunks.slice(0, 4).map((c) => <a key={c.index} class="mono" href={link(`submissions/${s.id}/${c.index}`)}>{c.index}</a>)}</div></td>] })),
        ]} />
    </section>
  )
}

/** The first outputs, and how to get them all. */
export function Outputs({ s }: { s: Submission }) {
  const path = `/v1/submissions/${s.id}/outputs`
  const list = useLive<Page<Chunk>>(s.done > 0 ? `/v1/submissions/${s.id}/chunks?state=done&limit=10` : '', 5)
  const some = list.data?.items.filter((c) => c.output !== undefined) ?? []
  return (
    <section class="card w12 half">
      <header><div class="row"><h2>Outputs</h2><small>{some.length > 0 ? 'of the first ten finished chunks' : ''}</small></div><div class="row"><a href={path} target="_blank" rel="noreferrer">All as JSON lines</a><CopyAs cli={quern('outputs', s.id)} curl={curl('GET', path)} /></div></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {s.done > 0 && !list.data && !list.problem && <p class="note">Reading…</p>}
      {some.length === 0 && (list.data || s.done === 0) && <Empty>{s.done === 0 ? (s.state === 'open' ? 'No chunk is finished yet.' : 'No chunk was finished.') : 'The first finished chunks have no output.'}</Empty>}
      {some.length > 0 && <List name="Outputs" items={some} id={(c) => String(c.index)} scope={s.id} keys={false} columns={[{ name: 'Chunk', right: true }, { name: 'Output' }]}
        cells={(c) => [<td class="r"><a class="mono" href={link(`submissions/${s.id}/${c.index}`)}>{c.index}</a></td>, <td class="cut mono">{text(c.output)}</td>]} />}
    </section>
  )
}
