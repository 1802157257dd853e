import { exact, short } from '../format'
import { List } from '../list'
import { useLive } from '../live'
import { Count, Empty, Failed, Mark } from '../parts'
import { inQueue, refine, route } from '../state'
import { Clamp, Sentence } from '../text'
import type { Page, Queue } from '../types'

/** All queues that the token may see: those that need someone first, then those with most work. */
export function Queues() {
  const list = useLive<Page<Queue>>('/v1/queues', 3)
  const find = route.value.query.get('find') ?? ''
  const all = list.data?.items ?? []
  const items = all.filter((q) => q.name.toLowerCase().includes(find.toLowerCase())).sort((a, b) => alarming(b) - alarming(a) || (b.now?.waiting ?? 0) - (a.now?.waiting ?? 0) || (a.name < b.name ? -1 : 1))
  const alarms = all.filter((q) => alarming(q) > 0).length
  return (
    <>
      <div class="head"><h1>All queues</h1><span>{list.data && `${exact(all.length)} ${all.length === 1 ? 'queue' : 'queues'}, ${alarms === 0 ? 'none needs you' : `${exact(alarms)} ${alarms === 1 ? 'needs' : 'need'} a look`}`}</span></div>
      <section class="card w12">
        <form class="row" onSubmit={(e) => e.preventDefault()}><label class="field">Name <input type="search" value={find} placeholder="part of a name" onInput={(e) => refine({ find: e.currentTarget.value || undefined })} /></label></form>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {list.data && items.length === 0 && <Empty>No queue has “{find}” in its name.</Empty>}
        {items.length > 0 && (
          <List name="All queues" items={items} id={(q) => q.name} scope={find} open={(q) => inQueue(q.name)}
            columns={[{ name: 'Queue' }, { name: 'What waits for what' }, { name: 'Done, 10 min' }, { name: 'Waiting', right: true }, { name: 'In flight', right: true }, { name: 'Dead letters', right: true }]}
            cells={(q) => [
              <td><Clamp text={q.name} href={inQueue(q.name)} /></td>,
              <td class="wrap">{[...(q.quarantined ? ['in quarantine'] : []), ...(q.now?.alarms ?? [])].map((a) => <span key={a} class="badge"><Mark of="dead" /><Sentence text={a} /></span>)} {q.sentence ? <Sentence text={q.sentence} /> : q.quarantined ? q.quarantined.reason : <span class="note">another node serves it, or the token sees one value</span>}</td>,
              <td>{q.now && <Spark of={q.now.done_rates} now={q.now.done_per_second} />}</td>,
              <td class="r">{q.now ? <Count n={q.now.waiting} /> : '—'}</td>,
              <td class="r">{q.now ? <Count n={q.now.reserved} /> : '—'}</td>,
              <td class="r">{q.now ? q.now.dead_letters > 0 ? <a href={inQueue(q.name, 'dead-letters')}><Count n={q.now.dead_letters} /></a> : 0 : '—'}</td>,
            ]} />
        )}
      </section>
    </>
  )
}

const alarming = (q: Queue) => (q.quarantined ? 1 : 0) + (q.now?.alarms.length ?? 0)

/** How many chunks were done a second, as a line, and how many now. */
function Spark({ of, now }: { of: number[]; now: number }) {
  const most = Math.max(...of, now, 1e-9)
  const points = of.map((v, i) => `${((40 - of.length + i) * 80 / 40).toFixed(1)},${(17 - 15 * v / most).toFixed(1)}`).join(' ')
  return <span class="row spark" title={`at most ${short(most)}/s`}><svg width="80" height="18" viewBox="0 0 80 18" aria-hidden="true"><polyline points={points} fill="none" /></svg><span class="mono">{short(now)}/s</span></span>
}
