import { amount, queueName, short } from '../format'
import { List } from '../list'
import { useLive } from '../live'
import { Count, Empty, Failed, Mark, damagedOf } from '../parts'
import { inQueue, refine, route } from '../state'
import { Clamp, Sentence } from '../text'
import type { Page, Queue } from '../types'

/** All queues that the token may see: those that need attention first, then those with most work. */
export function Queues() {
  const list = useLive<Page<Queue>>('/v1/queues', 3)
  const find = route.value.query.get('find') ?? ''
  const all = list.data?.items ?? []
  const damaged = damagedOf(all)
  const whole = new Map<string, Queue[]>() // each queue with its shards
  for (const q of all) whole.set(wholeOf(q), [...(whole.get(wholeOf(q)) ?? []), q])
  const rows = new Map([...whole].map(([name, of]) => [name, of.length > 1 ? of.map((q) => (q.name === name ? sum(q, of.filter((o) => o !== q)) : q)) : of]))
  const alarming = (of: Queue[]) => of.reduce((n, q) => n + (damaged.includes(q.name) ? 1 : 0) + (q.now?.alarms.length ?? 0), 0)
  const most = (of: Queue[]) => Math.max(...of.map((q) => q.now?.waiting ?? 0))
  const items = [...rows].filter(([name]) => name.toLowerCase().includes(find.toLowerCase())).sort(([a, of], [b, others]) => alarming(others) - alarming(of) || most(others) - most(of) || (a < b ? -1 : 1)).flatMap(([, of]) => of.sort((a, b) => a.name.length - b.name.length || (a.name < b.name ? -1 : 1)))
  const alarms = [...whole.values()].filter((of) => alarming(of) > 0).length
  return (
    <>
      <div class="head"><h1>All queues</h1><span>{list.data && `${amount(whole.size, 'queue')}, ${alarms === 0 ? 'none needs you' : `${amount(alarms, 'needs', 'need')} a look`}`}</span></div>
      <section class="card w12">
        <form class="row" onSubmit={(e) => e.preventDefault()}><label class="field">Name <input type="search" value={find} placeholder="part of a name" onInput={(e) => refine({ find: e.currentTarget.value || undefined })} /></label></form>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {list.data && items.length === 0 && <Empty>No queue has “{find}” in its name.</Empty>}
        {items.length > 0 && (
          <List name="All queues" items={items} id={(q) => q.name} scope={find} open={(q) => inQueue(q.name)}
            columns={[{ name: 'Queue' }, { name: 'What waits for what' }, { name: 'Done, 10 min' }, { name: 'Waiting', right: true }, { name: 'In flight', right: true }, { name: 'Dead letters', right: true }]}
            cells={(q) => [
              <td><Clamp text={queueName(q.name)} href={inQueue(q.name)} /></td>,
              <td class="wrap">{[...(damaged.includes(q.name) ? ['in quarantine'] : []), ...(q.now?.alarms ?? [])].map((a) => <span key={a} class="badge"><Mark of="dead" /><Sentence text={a} /></span>)} {q.sentence ? <Sentence text={q.sentence} /> : q.quarantined ? q.quarantined.reason : <span class="note">another node serves it, or the token sees one value</span>}</td>,
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

const wholeOf = (q: Queue) => q.name.split('~')[0]!

/** A divided queue has no numbers of its own, but the sums of its shards. */
function sum(q: Queue, shards: Queue[]): Queue {
  const of = shards.flatMap((s) => s.now ?? [])
  const add = (n: (of: NonNullable<Queue['now']>) => number) => of.reduce((all, one) => all + n(one), 0)
  const points = Math.max(0, ...of.map((n) => n.done_rates.length))
  const now = { waiting: add((n) => n.waiting), reserved: add((n) => n.reserved), dead_letters: add((n) => n.dead_letters), done_per_second: add((n) => n.done_per_second), alarms: [], done_rates: Array.from({ length: points }, (_, i) => add((n) => n.done_rates.at(i - points) ?? 0)) }
  return { ...q, sentence: `In ${amount(shards.length, 'shard')}:`, ...(of.length > 0 ? { now } : {}) }
}

/** How many chunks were done a second, as a line, and how many now. */
function Spark({ of, now }: { of: number[]; now: number }) {
  const most = Math.max(...of, now, 1e-9)
  const points = of.map((v, i) => `${((40 - of.length + i) * 80 / 40).toFixed(1)},${(17 - 15 * v / most).toFixed(1)}`).join(' ')
  return <span class="row spark" title={`at most ${short(most)}/s`}><svg width="80" height="18" viewBox="0 0 80 18" aria-hidden="true"><polyline points={points} fill="none" /></svg><span class="mono">{short(now)}/s</span></span>
}
