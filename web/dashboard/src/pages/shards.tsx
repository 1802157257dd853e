import { useEffect, useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, quern, queuePath, valueText, type Problem } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { exact, queueName } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { Empty, Failed, Mark, MetaChips } from '../parts'
import { boundTo } from '../session'
import { inQueue, say } from '../state'
import { beat, divided } from '../stream'
import { Clamp } from '../text'
import type { Group, Page, Shard, Submission } from '../types'

const State = ({ of }: { of: Shard }) => (
  <span class="state"><Mark of={of.state === 'offline' ? 'dead' : of.state === 'open' ? 'done' : 'waiting'} />{of.state}{of.reason && <p class="note"><Clamp text={of.reason} /></p>}</span>
)

/** The actions on a shard. An offline shard has to be repaired first. */
function Drain({ of, s, done }: { of: string; s: Shard; done: () => void }) {
  const action = useAction()
  const run = async (method: string, text: string) => {
    await call(method, `${queuePath(of)}/shards/${s.shard}/drain`)
    say(`Shard ${s.shard} ${text}`)
    done()
  }
  if (s.state === 'offline') return null
  return (
    <div class="row end">
      {s.state === 'draining'
        ? <button disabled={action.busy} aria-label={`Reopen shard ${s.shard}`} onClick={() => void action.run(() => run('DELETE', 'gets groups again'))}>Reopen</button>
        : <Confirm name="Drain" button="Drain" label={`Drain shard ${s.shard}`} question={`Drain shard ${s.shard} of ${of}?`} run={() => run('POST', 'drains')}>It gets no new groups. Each of its groups moves to another shard as soon as it has no open submissions.</Confirm>}
      {action.problem && <Failed problem={action.problem} />}
    </div>
  )
}

const Limited = ({ n, most }: { n: number; most?: number }) => <>{exact(n)}{most !== undefined && ` of ${exact(most)}`}</>

/** Moves a group to another shard. Choosing its present shard ends a move that waits. */
function Move({ of, g, shards, done }: { of: string; g: Group; shards: Shard[]; done: () => void }) {
  const places = shards.filter((s) => s.shard !== g.shard && s.state !== 'offline' && s.state !== 'preparing' && s.state !== 'draining')
  const [chosen, setChosen] = useState<number>()
  const to = chosen ?? places[0]?.shard
  const run = async (shard: number) => {
    const now = await call<Group>('POST', `${queuePath(of)}/groups/${encodeURIComponent(g.group)}/move`, { shard })
    say(now.shard === shard ? (shard === g.shard ? `${g.group} stays in shard ${shard}` : `${g.group} is in shard ${shard}`) : `${g.group} goes to shard ${shard} when it has no open submissions`)
    done()
  }
  const name = <Clamp text={g.group} />
  if (g.moving_to) return <Confirm name="Keep" button="Keep here" label={`Keep ${g.group} in shard ${g.shard}`} question={`Keep the group in shard ${g.shard}?`} run={() => run(g.shard)}>{name} no longer goes to shard {g.moving_to}.</Confirm>
  if (to === undefined) return null
  return (
    <Confirm name="Move" button="Move" label={`Move ${g.group}`} question="Move this group to another shard?" run={() => run(to)}>
      {name} moves as soon as it has no open submissions. Until then it stays in shard {g.shard}, and all of its work goes on. For 24 hours after a move, it can only move back.
      <label class="field foot">To <select value={to} onChange={(e) => setChosen(Number(e.currentTarget.value))}>{places.map((s) => <option key={s.shard} value={s.shard}>shard {s.shard}</option>)}</select></label>
    </Confirm>
  )
}

/** The shards of a queue and its groups, with the actions on them. */
export function ShardLists({ of }: { of: string }) {
  const path = queuePath(of)
  const shards = useLive<Page<Shard>>(`${path}/shards`)
  const groups = useLive<Page<Group>>(`${path}/groups?limit=100`)
  const nodes = shards.data?.items.some((s) => s.owner) ?? false
  const nameOf = (shard: number) => shards.data?.items.find((s) => s.shard === shard)?.queue ?? `${of}~${shard}`
  return (
    <>
      <section class="card w12">
        <header><div class="row"><h2>Shards</h2><small>{shards.data ? exact(shards.data.items.length) : ''}</small></div><CopyAs cli={quern('shards', '-Q', of)} curl={curl('GET', `${path}/shards`)} /></header>
        {shards.problem && <Failed problem={shards.problem} again={shards.again} />}
        {!shards.data && !shards.problem && <p class="note">Reading…</p>}
        {shards.data && (
          <List name="Shards" items={shards.data.items} id={(s) => s.queue} scope=""
            columns={[{ name: 'Shard' }, { name: 'State' }, ...(nodes ? [{ name: 'Node', title: 'the server that has the shard' }] : []), { name: 'Groups', right: true }, { name: 'Submissions', right: true, title: 'open submissions' }, { name: 'Ready', right: true }, { name: 'In flight', right: true, title: 'chunks that consumers hold' }, { name: 'Actions', hidden: true }]}
            cells={(s) => [
              <td><a href={inQueue(s.queue)}>{queueName(s.queue)}</a></td>,
              <td><State of={s} /></td>,
              ...(nodes ? [<td>{s.owner ? <Clamp text={s.owner} /> : <span class="note">none</span>}</td>] : []),
              <td class="r">{exact(s.groups)}</td>,
              <td class="r">{exact(s.submissions_open)}</td>,
              <td class="r">{exact(s.ready)}</td>,
              <td class="r">{exact(s.reserved)}</td>,
              <td class="r"><Gate scope="admin"><Drain of={of} s={s} done={shards.again} /></Gate></td>,
            ]} />
        )}
      </section>
      <section class="card w12">
        <header><div class="row"><h2>Groups</h2><small>{groups.data?.next ? 'the first 100, by name' : ''}</small></div><CopyAs cli={quern('groups', 'list', '-Q', of)} curl={curl('GET', `${path}/groups`)} /></header>
        {groups.problem && <Failed problem={groups.problem} again={groups.again} />}
        {!groups.data && !groups.problem && <p class="note">Reading…</p>}
        {groups.data?.items.length === 0 && <p class="note">No one created a group, and no submission has named one. A submission without one is in the first shard.</p>}
        {groups.data && groups.data.items.length > 0 && (
          <List name="Groups" items={groups.data.items} id={(g) => g.group} scope=""
            columns={[{ name: 'Group' }, { name: 'Shard' }, { name: 'Submissions', right: true, title: 'open submissions' }, { name: 'Waiting', right: true, title: 'chunks that wait for a consumer' }, { name: 'In flight', right: true }, { name: 'Actions', hidden: true }]}
            cells={(g) => [
              <td><a href={inQueue(nameOf(g.shard), `keys/group/${encodeURIComponent(valueText(g.group))}`)}><Clamp text={g.group} /></a></td>,
              <td><a href={inQueue(nameOf(g.shard))}>{g.shard}</a>{g.moving_to && <p class="note">goes to {g.moving_to} when it has no open submissions</p>}</td>,
              <td class="r"><Limited n={g.submissions} most={g.limits?.submissions} /></td>,
              <td class="r"><Limited n={g.waiting} most={g.limits?.waiting} /></td>,
              <td class="r">{exact(g.in_flight)}</td>,
              <td class="r"><Gate scope="operate"><Move of={of} g={g} shards={shards.data?.items ?? []} done={groups.again} /></Gate></td>,
            ]} />
        )}
      </section>
    </>
  )
}

/** Above a page of all shards: links to them, and the shards that the page lacks. */
export function ShardsLine({ of }: { of: string }) {
  const shards = useLive<Page<Shard>>(`${queuePath(of)}/shards`)
  const offline = shards.data?.items.filter((s) => s.state === 'offline') ?? []
  return (
    <p class="note w12">
      This page is about all <a href={inQueue(of, 'overview')}>shards of {of}</a>.{' '}
      {offline.length > 0 && <><Mark of="dead" />The work in {offline.map((s) => queueName(s.queue)).join(' and ')} is not shown: {offline.length > 1 ? 'these shards do' : 'this shard does'} not serve.</>}
    </p>
  )
}

/**
 * The same for a token that sees one value: the shards that have submissions of it. If only one has, this page of it comes at once; all submissions of
 * a group are in one shard.
 */
export function OwnShards({ of, page }: { of: string; page: string }) {
  const [has, setHas] = useState<string[]>()
  const [problem, setProblem] = useState<Problem>()
  const now = beat.value
  useEffect(() => {
    let over = false
    const look = async (shard: number) => {
      const { items } = await call<Page<Submission>>('GET', `${queuePath(`${of}~${shard}`)}/submissions?limit=1`)
      return items.length > 0 ? [`${of}~${shard}`] : []
    }
    Promise.all(Array.from({ length: divided.value }, (_, i) => look(i + 1))).then(
      (all) => {
        if (over) return
        const found = all.flat()
        if (found.length === 1) location.replace(inQueue(found[0]!, page))
        setHas(found)
        setProblem(undefined)
      },
      (why) => { if (!over) setProblem(why) },
    )
    return () => { over = true }
  }, [now])
  return (
    <section class="card w12">
      <header><h1>{of}</h1><small>the work of this queue is spread over its shards</small></header>
      {problem && <Failed problem={problem} />}
      {!has && !problem && <p class="note">Reading…</p>}
      {has?.length === 0 && <Empty>No submission of this queue has <MetaChips meta={boundTo()} /> yet. Its page appears here with the first.</Empty>}
      {has && has.length > 1 && <List name="Shards" items={has} id={(name) => name} scope="" columns={[{ name: 'Shard with submissions of it' }]} cells={(name) => [<td><a href={inQueue(name, page)}>{queueName(name)}</a></td>]} />}
    </section>
  )
}
