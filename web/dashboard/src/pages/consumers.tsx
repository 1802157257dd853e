import { Gate } from '../access'
import { call, curl, quern, queuePath } from '../api'
import { Confirm } from '../confirm'
import { amount, clamped, duration, exact, moment, short, visible } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { CopyAs } from '../copy'
import { Count, Empty, Failed, Mark, Tile } from '../parts'
import { link, queue, refine, route, say } from '../state'
import { consumers, stats, useTopic } from '../stream'
import { Clamp } from '../text'
import { undoOf } from '../undo'
import type { Consumer as Of, Page } from '../types'
import { consumerPath, Held, ReleaseAll } from './reservations'

const marks: Record<string, string> = { attached: 'done', away: 'dead', detached: 'zero' }

/** The server's time of the last frame: no age is measured by the reader's clock. */
const serverNow = () => (stats.value ? Date.parse(stats.value.at) : 0)
export const ago = (iso: string | undefined) => {
  const now = serverNow()
  return iso && now > 0 ? `${duration(Math.max(0, now - Date.parse(iso)) / 1000)} ago` : ''
}

/** A consumer that never attached is as healthy as any other: its reservations end by their deadlines. */
const named: Record<string, string> = { detached: 'by deadline' }
const State = ({ of }: { of: Of }) => <span class="state"><Mark of={of.draining || of.quiet ? 'skipped' : marks[of.state] ?? 'zero'} />{named[of.state] ?? of.state}{of.draining ? ', draining' : of.quiet ? ', quiet' : ''}</span>

export function Consumers() {
  const q = route.value.query
  const path = `${queuePath(queue.value)}/consumers?limit=1000`
  useTopic('consumers')
  // The stream has all consumers, or those with the most chunks. For the others, and for a search by name, the page reads the list.
  const frame = consumers.value
  const streamed = frame !== null && frame.left === 0 && frame.whole
  const list = useLive<Page<Of>>(path, streamed ? 0 : 2)
  const find = (q.get('find') ?? '').toLowerCase()
  const late = q.get('show') === 'overdue'
  const all = streamed ? frame.top : list.data?.items ?? []
  const known = frame ? frame.consumers : all.length
  const read = streamed || list.data !== undefined
  const items = all.filter((c) => c.consumer.toLowerCase().includes(find) && (!late || c.overdue > 0)).sort((a, b) => b.overdue - a.overdue || b.reserved - a.reserved || (a.consumer < b.consumer ? -1 : 1))
  const s = stats.value?.stats
  const overdue = frame ? frame.overdue : all.reduce((n, c) => n + c.overdue, 0)
  return (
    <>
      <div class="head"><h1>Consumers</h1><span>the chunks that each holds; overdue ones first</span><div class="act"><a class="btn" href={link('reservations')}>All reservations</a><CopyAs cli={quern('consumers', 'list', '--queue', queue.value)} curl={curl('GET', path)} /></div></div>
      {list.problem && <div class="w12"><Failed problem={list.problem} again={list.again} /></div>}
      {s && read && (
        <>
          <Tile name="In flight" of="reserved" value={short(s.reserved)} title={exact(s.reserved)}>chunks held by consumers</Tile>
          <Tile name="Known" value={exact(known)}>{(frame ? !frame.whole : list.data?.next) ? 'and more' : 'consumers'}</Tile>
          <Tile name="Attached" of="done" value={exact(frame ? frame.attached : all.filter((c) => c.state === 'attached').length)}>with an open stream</Tile>
          <Tile name="Overdue" of={overdue > 0 ? 'dead' : 'zero'} value={exact(overdue)}>held longer than usual</Tile>
          <Tile name="Calls that wait" value={exact(s.consumers_waiting)}>for work</Tile>
          <Tile name="Expired" value={short(s.expired_total)}>ended by their deadline</Tile>
        </>
      )}
      <section class="card w12">
        <header>
          <div class="row"><h2>By consumer</h2><small>{read ? `${exact(items.length)} of ${exact(known)}` : ''}</small></div>
          <div class="row">
            <label class="field">Name <input type="search" value={q.get('find') ?? ''} placeholder="worker" onInput={(e) => refine({ find: e.currentTarget.value || undefined })} /></label>
            <span class="seg" role="group" aria-label="Which"><button aria-pressed={!late} onClick={() => refine({ show: undefined })}>All</button><button aria-pressed={late} onClick={() => refine({ show: 'overdue' })}>Overdue</button></span>
          </div>
        </header>
        {!read && !list.problem && <p class="note">Reading…</p>}
        {read && all.length === 0 && <Empty command={quern('work', '--queue', queue.value, '--', './your-command')}>No consumer holds a chunk or is attached. A consumer appears here with its first reservation.</Empty>}
        {read && all.length > 0 && items.length === 0 && <Empty>{all.length === 1 ? 'The only consumer does not match.' : `None of the ${exact(all.length)} consumers matches.`}</Empty>}
        {items.length > 0 && (
          <List name="Consumers by name" items={items} id={(c) => c.consumer} scope={queue.value + find + late} open={(c) => link('consumers/' + encodeURIComponent(c.consumer))}
            columns={[{ name: 'Consumer' }, { name: 'State' }, { name: 'Holds', right: true }, { name: 'Overdue', right: true }, { name: 'Oldest taken', right: true, age: true }, { name: 'Last seen', right: true, age: true }, { name: 'Actions', hidden: true }]}
            cells={(c) => [
              <td>{c.consumer ? <Clamp text={c.consumer} href={link('consumers/' + encodeURIComponent(c.consumer))} /> : <span class="note">without a name</span>}</td>,
              <td><State of={c} /></td>, <td class="r"><Count n={c.reserved} /></td>, <td class="r">{c.overdue > 0 ? <span class="badge">{exact(c.overdue)}</span> : '0'}</td>,
              <td class="r note">{ago(c.oldest_reserved_at)}</td>, <td class="r note">{ago(c.last_seen_at)}</td>, <td class="r">{c.consumer && <Gate scope="operate"><Orders c={c} done={list.again} /></Gate>}</td>,
            ]} />
        )}
      </section>
    </>
  )
}

/** The orders that an operator can give to a consumer. */
function Orders({ c, done, all }: { c: Of; done: () => void; all?: boolean }) {
  const action = useAction()
  const of = queue.value
  const run = async (verb: string, text: string) => {
    await call('POST', `${consumerPath(c.consumer)}/${verb}`)
    say(`${c.consumer} ${text}`, undoOf({ action: 'consumer.' + verb, queue: of, target: 'consumer ' + c.consumer }))
    done()
  }
  const holds = amount(c.reserved, 'chunk')
  const name = clamped(visible(c.consumer), 40)
  const ordered = c.draining || c.quiet
  return (
    <div class="row end">
      {ordered ? <button disabled={action.busy} aria-label={`Resume ${c.consumer}`} onClick={() => void action.run(() => run('resume', 'gets work again'))}>Resume</button> : (
        <>
          <Confirm name="Quiet" button="Quiet" label={`Quiet ${c.consumer}`} question={`Keep new work from ${name}?`} run={() => run('quiet', 'gets nothing new')}>It gets nothing new, but stays. The {holds} that it holds {c.reserved === 1 ? 'stays' : 'stay'} with it.</Confirm>
          <Confirm name="Drain" button="Drain" label={`Drain ${c.consumer}`} question={`Drain ${name}?`} run={() => run('drain', 'will finish its chunks and leave')}>It gets nothing new, and is told to finish the {holds} that it holds and leave.</Confirm>
        </>
      )}
      {c.reserved > 0 && <ReleaseAll c={c} done={done} />}
      {all && (
        <details class="copies">
          <summary>As commands</summary>
          <div class="stack">{[...(ordered ? ['resume'] : ['quiet', 'drain']), ...(c.reserved > 0 ? ['release'] : [])].map((verb) => <div class="row" key={verb}><span>{verb}</span><CopyAs cli={quern('consumers', verb, c.consumer, '--queue', queue.value)} curl={curl('POST', `${consumerPath(c.consumer)}/${verb}`)} /></div>)}</div>
        </details>
      )}
      {action.problem && <Failed problem={action.problem} />}
    </div>
  )
}

export function Consumer({ name }: { name: string }) {
  const cursor = route.value.query.get('cursor') ?? ''
  const path = `${consumerPath(name)}?limit=1`
  const of = useLive<Of>(path, 1)
  const c = of.data
  return (
    <>
      <div class="head"><h1>Consumer</h1><span class="mono"><Clamp text={name} most={64} /></span>{c && <State of={c} />}<div class="act">{c && <Gate scope="operate"><Orders c={c} done={of.again} all /></Gate>}<CopyAs cli={quern('consumers', 'show', name, '--queue', queue.value)} curl={curl('GET', path)} /></div></div>
      {of.problem?.status === 404 && <section class="card w12"><Empty command={quern('work', '--queue', queue.value, '--consumer', name, '--', './your-command')}>The server knows no such consumer: it holds nothing, is not attached, and has no order.</Empty></section>}
      {of.problem && of.problem.status !== 404 && <div class="w12"><Failed problem={of.problem} again={of.again} /></div>}
      {c && of.problem?.status !== 404 && (
        <section class="card w12">
          <header><h2>State</h2></header>
          <dl class="facts">
            <dt>Holds</dt><dd>{amount(c.reserved, 'chunk')}{c.overdue > 0 && <>, <span class="badge">{exact(c.overdue)} overdue</span></>}</dd>
            {c.attached_since && <><dt>Attached since</dt><dd>{moment(c.attached_since)}</dd></>}
            {c.away_since && <><dt>Away since</dt><dd>{moment(c.away_since)}{c.lost_at && <>; what it holds is lost at {moment(c.lost_at)} unless it returns</>}</dd></>}
            {c.last_seen_at && <><dt>Last seen</dt><dd>{moment(c.last_seen_at)}, {ago(c.last_seen_at)}</dd></>}
            {c.state === 'detached' && <><dt>By deadline</dt><dd>it has no open stream, so only deadlines end its reservations</dd></>}
          </dl>
        </section>
      )}
      {c && of.problem?.status !== 404 && <Held filters={{ consumer: name, limit: '100', cursor }} name="Reservations" none="It holds no chunk." changed={of.again} />}
    </>
  )
}
