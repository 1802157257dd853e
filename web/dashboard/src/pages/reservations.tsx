import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, quern, queuePath } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { amount, duration, exact, moment, short } from '../format'
import { write } from '../json'
import { List } from '../list'
import { useLive } from '../live'
import { Empty, Failed, MetaChips, Tile } from '../parts'
import { here, link, queue, refine, route, say } from '../state'
import { stats } from '../stream'
import { Clamp } from '../text'
import type { Consumer, HeldReservation, Page } from '../types'

type Filters = Record<string, string | undefined>

const heldPath = (filters: Filters) => `${queuePath(queue.value)}/reservations?${new URLSearchParams(Object.entries(filters).filter((f): f is [string, string] => Boolean(f[1])))}`
const flags = (filters: Filters) => Object.entries(filters).flatMap(([name, value]) => !value || name === 'cursor' || name === 'limit' ? [] : name === 'overdue' ? ['--overdue'] : name.startsWith('meta.') ? ['--meta', `${name.slice(5)}=${value}`] : ['--' + name, value])

/** The reservations: each with its consumer, its age and its deadline. */
export function Reservations() {
  const q = route.value.query
  const given = Object.fromEntries([...q].filter(([name]) => ['overdue', 'consumer', 'submission', 'sort', 'cursor'].includes(name) || name.startsWith('meta.')))
  const filters: Filters = { ...given, limit: '100' }
  const s = stats.value?.stats
  return (
    <>
      <div class="head"><h1>Reservations</h1><span>the chunks that consumers hold, and until when</span><div class="act"><CopyAs cli={quern('reservations', '--queue', queue.value, ...flags(filters))} curl={curl('GET', heldPath(filters))} /></div></div>
      {s && (
        <>
          <Tile name="In flight" of="reserved" value={short(s.reserved)} title={exact(s.reserved)}>chunks held by consumers</Tile>
          <Tile name="Expired" value={short(s.expired_total)}>ended by their deadline</Tile>
        </>
      )}
      <Filter given={given} />
      <Held key={write(given)} filters={filters} name="Reservations" none={Object.keys(given).length > 0 ? 'No reservation matches the filters.' : 'No consumer holds a chunk.'} all={given['consumer']} />
    </>
  )
}

function Filter({ given }: { given: Record<string, string> }) {
  const [wrong, setWrong] = useState('')
  const late = given['overdue'] === 'true'
  const add = (e: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    e.preventDefault()
    const said = new FormData(e.currentTarget)
    const name = said.get('by')?.toString() ?? ''
    const text = said.get('text')?.toString().trim() ?? ''
    const cut = text.indexOf('=')
    if (name === 'meta' && cut < 1) { setWrong('A value is written key=value, such as company=7.'); return }
    setWrong('')
    e.currentTarget.reset()
    refine({ [name === 'meta' ? 'meta.' + text.slice(0, cut) : name]: (name === 'meta' ? text.slice(cut + 1) : text) || undefined, cursor: undefined })
  }
  return (
    <section class="card w12" aria-label="Filters">
      <div class="row">
        <span class="seg" role="group" aria-label="Which"><button aria-pressed={!late} onClick={() => refine({ overdue: undefined, cursor: undefined })}>All</button><button aria-pressed={late} onClick={() => refine({ overdue: 'true', cursor: undefined })}>Overdue</button></span>
        <span class="seg" role="group" aria-label="Order"><button aria-pressed={given['sort'] !== 'deadline'} onClick={() => refine({ sort: undefined, cursor: undefined })}>Longest held</button><button aria-pressed={given['sort'] === 'deadline'} onClick={() => refine({ sort: 'deadline', cursor: undefined })}>Next deadline</button></span>
        <form class="row" onSubmit={add}>
          <label class="field">Of <select name="by"><option value="consumer">consumer</option><option value="meta">value</option><option value="submission">submission</option></select></label>
          <input name="text" aria-label="What to filter by" placeholder="host-1, company=7, id" required /><button>Add filter</button>
        </form>
        {Object.entries(given).filter(([name]) => name === 'consumer' || name === 'submission' || name.startsWith('meta.')).map(([name, value]) => <button key={name} class="mono" aria-label={`Remove the filter ${name.replace('meta.', '')}=${value}`} onClick={() => refine({ [name]: undefined, cursor: undefined })}>{name.replace('meta.', '')}=<Clamp text={value} /> ×</button>)}
        <span role="status">{wrong}</span>
      </div>
    </section>
  )
}

/** The reservations that match filters, each with its age and a button that takes it back. */
export function Held({ filters, name, none, changed, few, all }: { filters: Filters; name: string; none: string; changed?: () => void; few?: boolean; /** A consumer; a button takes all its chunks back. */ all?: string | undefined }) {
  const path = heldPath(filters)
  const list = useLive<Page<HeldReservation>>(path, 2)
  const items = list.data?.items
  const told = items?.some(said)
  const done = () => { list.again(); changed?.() }
  const { limit: _, cursor, ...rest } = filters
  return (
    <section class={few ? 'card w12 half' : 'card w12'}>
      <header><div class="row"><h2>{name}</h2><small>{rest['sort'] === 'deadline' ? 'the next deadline first' : 'the longest held first'}; the bar shows the time used until the deadline</small></div>{few && <a href={link('reservations', rest)}>all of them</a>}{all && <Gate scope="operate"><ReleaseShown name={all} done={done} /></Gate>}</header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {!items && !list.problem && <p class="note">Reading…</p>}
      {items?.length === 0 && <Empty>{none}</Empty>}
      {items && items.length > 0 && (
        <List name={name} items={items} id={(h) => `${h.submission}/${h.index}`} scope={path} open={(h) => link(`submissions/${h.submission}/${h.index}`)}
          columns={[{ name: 'Chunk' }, { name: 'Consumer' }, { name: 'Held', right: true, age: true }, { name: 'Deadline' }, ...(told ? [{ name: 'Progress' }] : []), { name: 'Meta' }, { name: 'Actions', hidden: true }]}
          cells={(h) => [
            <td><a class="mono" href={link(`submissions/${h.submission}/${h.index}`)}>{h.submission}/{h.index}</a></td>,
            <td>{h.consumer ? <Clamp text={h.consumer} href={link('consumers/' + encodeURIComponent(h.consumer))} /> : <span class="note">without a name</span>}</td>,
            <td class="r" title={`since ${moment(h.since)}`}>{duration(h.held_ms / 1000)}{h.overdue && <> <span class="badge">overdue</span></>}{h.attempt > 1 && <p class="note">attempt {exact(h.attempt)}</p>}</td>, <td><Left h={h} /><p class="note">until {moment(h.deadline)}{h.finishing ? ', finishing' : ''}</p></td>,
            ...(told ? [<td><Said of={h} /></td>] : []), <td><MetaChips meta={h.meta} /></td>, <td class="r">{!h.finishing && <Gate scope="operate"><Release h={h} done={done} /></Gate>}</td>,
          ]} />
      )}
      {!few && <p class="foot row">{cursor && <button onClick={() => history.back()}>Back</button>}{list.data?.next && <a class="btn" href={here({ cursor: list.data.next })}>Next</a>}</p>}
    </section>
  )
}

/** Takes one chunk back from the consumer that holds it. */
export function Release({ h, done, look }: { h: Pick<HeldReservation, 'submission' | 'index' | 'consumer'> & { held_ms?: number }; done: () => void; look?: 'plain' }) {
  const of = h.consumer || 'a consumer without a name'
  const run = async () => {
    await call('POST', `/v1/submissions/${h.submission}/chunks/${h.index}/release`)
    say(`chunk ${h.index} taken from ${of}, and offered again`)
    done()
  }
  return (
    <Confirm name="Release" label={`Release chunk ${h.index} of ${h.submission}`} danger {...(look ? { look } : {})} question={`Take chunk ${h.index} from ${of}?`} run={run}>
      1 chunk is offered again at once, without counting an attempt. The consumer keeps its other chunks.{h.held_ms !== undefined && <> It was held for {duration(h.held_ms / 1000)}.</>} What the consumer completes of it counts only until it is handed out again.
    </Confirm>
  )
}

export const consumerPath = (name: string) => `${queuePath(queue.value)}/consumers/${encodeURIComponent(name)}`

/** Takes from a consumer all that it holds. */
export function ReleaseAll({ c, done, look }: { c: Consumer; done: () => void; look?: 'plain' }) {
  const run = async () => {
    const { released } = await call<{ released: number }>('POST', `${consumerPath(c.consumer)}/release`)
    say(`${amount(released, 'chunk')} taken from ${c.consumer}, and offered again`)
    done()
  }
  return (
    <Confirm name="Release" n={c.reserved} label={`Release the chunks of ${c.consumer}`} danger {...(look ? { look, button: `Release all ${exact(c.reserved)}…`, label: `Release all ${amount(c.reserved, 'chunk')} of ${c.consumer}` } : {})} question={`Take ${exact(c.reserved)} from ${c.consumer}?`} run={run}>
      {amount(c.reserved, 'chunk is', 'chunks are')} offered again at once, without counting an attempt. A completion counts only until they are handed out again.
    </Confirm>
  )
}

/** The same for the consumer of a list; nothing if it holds no chunks. */
function ReleaseShown({ name, done }: { name: string; done: () => void }) {
  const c = useLive<Consumer>(`${consumerPath(name)}?limit=1`, 2).data
  return c && c.reserved > 0 ? <ReleaseAll c={c} done={done} look="plain" /> : null
}

type Told = { progress?: number; note?: string }

export const said = (of: Told) => of.progress !== undefined || Boolean(of.note)

/** A consumer's report of its work: progress and note. */
export function Said({ of }: { of: Told }) {
  const percent = of.progress === undefined ? undefined : Math.floor(100 * of.progress)
  return (
    <>
      {percent !== undefined && <div class="gauge"><div class="bar" role="progressbar" aria-label="Progress" aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent}><i class="done" style={{ width: `${percent}%` }} /></div><span>{percent} %</span></div>}
      {of.note && <p class="note"><Clamp text={of.note} most={80} /></p>}
    </>
  )
}

/** How much of a reservation's time is over, by the server's clock. */
function Left({ h }: { h: HeldReservation }) {
  const whole = Math.max(1, Date.parse(h.deadline) - Date.parse(h.since))
  const part = Math.max(0, Math.min(1, h.held_ms / whole))
  return <div class="gauge"><div class={part >= 1 ? 'bar sat' : 'bar'} role="img" aria-label={`${Math.round(100 * part)} % of the time is used`}><i class={part > 0.8 ? 'dead' : 'reserved'} style={{ width: `${100 * part}%` }} /></div><span>{duration(Math.max(0, whole - h.held_ms) / 1000)} left</span></div>
}
