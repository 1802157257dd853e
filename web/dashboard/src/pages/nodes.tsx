import { useEffect } from 'preact/hooks'
import { answering, curl, quern } from '../api'
import { CopyAs } from '../copy'
import { exact, moment, queueName } from '../format'
import { List } from '../list'
import { useLive } from '../live'
import { Failed, Mark } from '../parts'
import { inQueue, say } from '../state'
import { Clamp } from '../text'
import type { Node, Page } from '../types'

const path = '/v1/nodes'
/** A heartbeat lets an owner serve for this long, so the rest of the lease tells the age of the last heartbeat. */
const leaseMs = 4500
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`

/** The lease of a node is that of its queues; a node without queues has none. */
const lease = (n: Node) => Math.min(...n.queues.map((q) => q.lease_ms ?? Infinity))

const State = ({ of, left }: { of: Node; left: number }) => (
  <span class="state">{left < 0 ? <><Mark of="dead" />silent, its lease has ended</> : of.leaving ? <><Mark of="waiting" />leaving</> : of.queues.length === 0 ? <><Mark of="zero" />owns no queue</> : left < 1000 ? <><Mark of="dead" />no heartbeat</> : <><Mark of="done" />serves</>}</span>
)

/** The servers of a cluster: the queues and the remaining lease of each, and which of them answers this page. */
export function Nodes() {
  const list = useLive<Page<Node>>(path)
  const items = list.data?.items
  const [one] = items ?? []
  const alone = items?.length === 1 && !Number.isFinite(lease(items[0]!))
  const self = answering.value
  useEffect(() => {
    if (self && asked && asked !== self) say(`Node ${self} now answers this page, instead of ${asked}`)
    asked = self || asked
  }, [self])
  return (
    <>
      <div class="head"><h1>Nodes</h1><span>the servers of the cluster, and the queues that each owns</span><div class="act"><CopyAs cli={quern('nodes')} curl={curl('GET', path)} /></div></div>
      <section class="card w12">
        <header><h2>Servers</h2><small>{items && !alone ? exact(items.length) : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!items && !list.problem && <p class="note">Reading…</p>}
        {alone && <p class="alone">This server, <b>{one!.name}</b>, is in no cluster. It serves all queues, since {moment(one!.since)}. <a href="/docs/cluster">Run several servers as a cluster</a>.</p>}
        {items && !alone && (
          <List name="Nodes" items={items} id={(n) => n.name} scope="" marked={self}
            columns={[{ name: 'Node' }, { name: 'State' }, { name: 'Queues' }, { name: 'Lease', right: true, title: 'how long the node may serve without another heartbeat' }, { name: 'Last heartbeat', right: true, title: 'age of its last heartbeat, as the node that answers this page sees it' }, { name: 'Since' }]}
            cells={(n) => {
              const left = lease(n)
              const owner = Number.isFinite(left)
              return [
                <td><b><Clamp text={n.name} /></b>{n.name === self && <> <span class="chip">answers this page</span></>}<p class="note mono"><Clamp text={n.url} /></p></td>,
                <td><State of={n} left={left} /></td>,
                <td class="wrap">{n.queues.map((q) => <a key={q.queue} class="chip" title={`shard ${q.shard}, epoch ${q.epoch}`} href={inQueue(q.queue)}>{queueName(q.queue)}</a>)}{n.queues.length === 0 && <span class="note">none</span>}</td>,
                <td class="r">{owner ? seconds(Math.max(0, left)) : ''}</td>,
                <td class="r">{owner ? seconds(leaseMs - left) : ''}</td>,
                <td class="note">{moment(n.since)}</td>,
              ]
            }} />
        )}
      </section>
    </>
  )
}

/** The node that was asked last, so that the page says when it is another one. */
let asked = ''
