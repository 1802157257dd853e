import { useRef, useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, quern, valueText } from '../api'
import { amount, clamped, duration, exact, metaList, moment, percent, queueName, short, shown, visible } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { Confirm, Question } from '../confirm'
import { Copy, CopyAs } from '../copy'
import { Count, Failed, Mark } from '../parts'
import { named } from '../session'
import { link, queue, say } from '../state'
import { momentNow, nextFrame } from '../stream'
import { Clamp } from '../text'
import type { BulkFilter, BulkOperation, Meta, Page, Queue } from '../types'

export const bulkPath = '/v1/bulk-operations'

/** Starts an operation that only counts its items, waits for its end at the pace of the stream, and returns the count. */
export async function dryRun(body: object): Promise<number> {
  let b = await call<BulkOperation>('POST', bulkPath, { ...body, dry_run: true, rate_per_second: 0 })
  for (let tries = 0; b.state === 'running'; tries++) {
    if (tries > 0) await nextFrame()
    b = await call<BulkOperation>('GET', `${bulkPath}/${encodeURIComponent(b.id)}`)
  }
  return b.done
}

/** The filter of an operation as flags of the commands; none when it means all. */
export const filterFlags = (f: BulkFilter) => Object.entries(f).flatMap(([name, value]) => {
  if (name === 'meta') return metaList(value as Meta).flatMap(([k, v]) => ['--meta', `${k}=${valueText(v)}`])
  if (name === 'states') return (value as string[]).flatMap((s) => ['--state', s])
  return ['--' + name.replaceAll('_', '-'), String(value)]
})

/** The same where a command that means all has to say so. */
export const bulkFlags = (f: BulkFilter) => (Object.keys(f).length > 0 ? filterFlags(f) : ['--all'])

/** The queues that dead letters of this one can go on to. */
export function ToQueue({ value, change }: { value: string; change: (to: string) => void }) {
  const list = useLive<Page<Queue>>('/v1/queues', 0)
  const others = (list.data?.items ?? []).map((q) => q.name).filter((name) => name !== queue.value)
  if (list.problem) return <Failed problem={list.problem} again={list.again} />
  if (list.data && others.length === 0) return <span class="note">There is no other queue. <code>{quern('queue', 'put', 'rejects')}</code> makes one.</span>
  return <label class="field">To queue <select required aria-label="Target queue" value={value} onChange={(e) => change(e.currentTarget.value)}><option value="">choose a queue</option>{others.map((name) => <option key={name} value={name}>{queueName(name)}</option>)}</select></label>
}

export type Verb = 'redrive' | 'delete' | 'forward'
const names: Record<Verb, string> = { redrive: 'Redrive', forward: 'Forward', delete: 'Delete' }
const going: Record<Verb, string> = { redrive: 'Redriving', forward: 'Forwarding', delete: 'Deleting' }

/** Redrives, forwards or deletes all dead letters that match a filter, at a given rate. For more than a hundred, the reader types the
 * number. */
export function Start({ filter: meant, known, asked, setAsked, done }: { filter: BulkFilter; known: number | undefined; /** The action whose question is open. */ asked: Verb | undefined; setAsked: (verb: Verb | undefined) => void; done: () => void }) {
  const [rate, setRate] = useState('')
  const [to, setTo] = useState('')
  const [counted, setCounted] = useState<{ what: string; n: number }>()
  const [oldest, setOldest] = useState('')
  const action = useAction()
  const of = queue.value
  const most = Math.floor(Number(oldest)) || 0
  const filter: BulkFilter = most > 0 ? { ...meant, oldest: most } : meant
  const all = Object.keys(filter).length === 0
  const verb = asked ?? 'redrive'
  const body = { queue: of, action: verb, filter, rate_per_second: Number(rate) || 0, ...(verb === 'forward' ? { to } : {}) }
  const what = [...filterFlags(filter), to].join('\0')
  const start = () => action.run(async () => {
    await call<BulkOperation>('POST', bulkPath, body)
    setAsked(undefined)
    setCounted(undefined)
    say(`${going[verb]}; its progress is below`)
    done()
  })
  const n = most > 0 ? Math.min(most, known ?? 0) : known ?? 0
  const fits = counted?.what === what ? counted.n : undefined
  const words = { redrive: (many: number) => `${amount(many, 'chunk becomes', 'chunks become')} ready again, with ${many === 1 ? 'its' : 'their'} attempts reset. More may die before it starts.`, delete: (many: number) => `${amount(many, 'chunk is', 'chunks are')} deleted and ${many === 1 ? 'counts' : 'count'} as skipped.`, forward: (many: number) => `${amount(many, 'chunk goes', 'chunks go')} on to the queue ${queueName(to)}, each as a submission of its own there. Here ${many === 1 ? 'it counts' : 'they count'} as skipped.` }
  const ask = (many: number) => <Question name={names[verb]} n={many} danger={verb === 'delete'} busy={action.busy} leave={() => setAsked(undefined)} run={() => void start()}>{words[verb](many)}</Question>
  return (
    <>
      <header><h2>{all ? 'All of them' : 'All that match the filter'}</h2><CopyAs cli={quern('dead', verb, ...(verb === 'forward' ? ['--to', to || 'QUEUE'] : []), ...bulkFlags(filter), '--queue', of, ...(rate ? ['--rate', rate] : []))} curl={curl('POST', bulkPath, body)} /></header>
      <div class="stack">
        {known === undefined ? <p class="note">Reading…</p> : <p><b class="big"><Count n={n} /></b> dead {n === 1 ? 'chunk' : 'chunks'}{filter.fingerprint ? ' with this error' : ''}{filter.submission ? ` of submission ${filter.submission}` : ''}{filter.meta && <> of {metaList(filter.meta).map(([k, v]) => <bdi key={k}>{k}={clamped(visible(shown(v)), 40)} </bdi>)}</>}{filter.died_after ? ` that died since ${moment(filter.died_after)}` : ''}{most > 0 && known !== undefined && most < known ? `, those that died first of ${exact(known)}` : ''}</p>}
        <label class="field">Only the oldest <input type="number" min="1" step="1" placeholder="all" value={oldest} onInput={(e) => setOldest(e.currentTarget.value)} /></label>
        <label class="field">At most <input type="number" min="0" step="1" placeholder="no limit" value={rate} onInput={(e) => setRate(e.currentTarget.value)} /> chunks a second</label>
        {!asked && <div class="row">{(['redrive', 'forward', 'delete'] as const).map((of) => <button key={of} class={of === 'redrive' ? 'main' : of === 'delete' ? 'danger' : undefined} disabled={n === 0} onClick={() => setAsked(of)}>{names[of]}{known !== undefined && ` ${exact(n)}`}…</button>)}</div>}
        {asked && asked !== 'forward' && ask(n)}
        {asked === 'forward' && (
          <form class="row" aria-label="Forward" onSubmit={(e) => { e.preventDefault(); void action.run(async () => setCounted({ what, n: await dryRun(body) })) }}>
            <ToQueue value={to} change={setTo} />
            <button disabled={action.busy || !to}>Count first</button>
            {fits === undefined && <button type="button" onClick={() => setAsked(undefined)}>Keep as they are</button>}
          </form>
        )}
        {asked === 'forward' && fits === 0 && <p role="status">None of them can be forwarded now.</p>}
        {asked === 'forward' && fits !== undefined && fits > 0 && ask(fits)}
        {action.problem && <Failed problem={action.problem} />}
        <small>Chunks that die later are not included. Stopping an operation does not undo its work.</small>
      </div>
    </>
  )
}

const marks: Record<string, string> = { running: 'reserved', completed: 'done', cancelled: 'skipped', failed: 'dead' }

/** How many readings the pace of an operation is taken from: about half a minute. */
const kept = 30

/** The pace of each operation since this page opened, in items a second. */
function usePaces(items: BulkOperation[]): Map<string, number> {
  const seen = useRef(new Map<string, { at: number; n: number }[]>())
  const now = momentNow()
  const out = new Map<string, number>()
  for (const b of items) {
    if (b.state !== 'running' || now === 0) continue
    let list = seen.current.get(b.id) ?? []
    if (list.at(-1)?.at !== now) list = [...list, { at: now, n: b.matched }].slice(-kept)
    seen.current.set(b.id, list)
    const first = list[0]!
    if (now > first.at) out.set(b.id, (b.matched - first.n) / ((now - first.at) / 1000))
  }
  for (const id of seen.current.keys()) if (!items.some((b) => b.id === id && b.state === 'running')) seen.current.delete(id)
  return out
}

/** Operations, each with how far it got and with which result. */
export function BulkList({ name, items, scope, done, keys }: { name: string; items: BulkOperation[]; scope: string; done: () => void; keys?: boolean }) {
  const paces = usePaces(items)
  const pace = (b: BulkOperation) => {
    if (b.state === 'running') return paces.has(b.id) ? `${short(paces.get(b.id)!)}/s` : '…'
    const took = b.finished_at ? (Date.parse(b.finished_at) - Date.parse(b.created_at)) / 1000 : 0
    return b.finished_at ? `in ${duration(took)}` : ''
  }
  return (
    <List name={name} items={items} id={(b) => b.id} scope={scope} keys={keys ?? false}
      columns={[{ name: 'What' }, { name: 'State' }, { name: 'Came to' }, { name: 'Done', right: true }, { name: 'Unchanged', right: true, title: 'another caller was first, or nothing was left to do' }, { name: 'Refused', right: true, title: 'what does not allow it' }, { name: 'Pace' }, { name: 'Started' }, { name: 'Actions', hidden: true }]}
      cells={(b) => [
        <td class="what"><b>{b.action.replace('_', ' ')}</b>{b.to && <> to {queueName(b.to)}</>}{b.priority !== undefined && <> to {exact(b.priority)}</>}{b.limit !== undefined && <> of at most {exact(b.limit)}</>}{b.dry_run && <> <span class="chip">dry run</span></>} {chips(b).map((text) => <span class="chip" key={text}><Clamp text={text} /></span>)}{chips(b).length === 0 && <span class="note">all</span>}</td>,
        <td><span class="state"><Mark of={marks[b.state] ?? 'zero'} />{b.state}</span>{b.cancelled_by && <div class="note">by <Clamp text={b.cancelled_by} /></div>}<Progress b={b} />{b.failure && <p class="note wrap error">{b.failure}</p>}</td>,
        <td><div class="bar" role="img" aria-label={`${exact(b.done)} done, ${exact(b.unchanged ?? 0)} unchanged, ${exact(b.refused)} refused of ${exact(b.matched)}`}><i class="done" style={{ width: `${percent(b.done, b.matched)}%` }} /><i class="ready" style={{ width: `${percent(b.unchanged ?? 0, b.matched)}%` }} /><i class="skipped" style={{ width: `${percent(b.refused, b.matched)}%` }} /></div><span class="note"><Count n={b.matched} /> {b.state === 'running' ? 'so far' : 'in all'}</span></td>,
        <td class="r"><Count n={b.done} /></td>, <td class="r"><Count n={b.unchanged ?? 0} /></td>, <td class="r"><Count n={b.refused} /></td>,
        <td class="note"><span>{pace(b)}</span>{b.rate_per_second > 0 && <div>at most {exact(b.rate_per_second)}/s</div>}</td>, <td class="note">{moment(b.created_at)}{b.actor && <div>by <Clamp text={b.actor} /></div>}</td>,
        <td class="r">{b.state === 'running' ? <Gate scope="operate"><Stop b={b} done={done} /></Gate> : <Copy text={again(b)} name="Copy CLI" />}</td>,
      ]} />
  )
}

/** How much of the items of its start an operation has examined, and the server's estimate of the rest. */
function Progress({ b }: { b: BulkOperation }) {
  if (b.examined === undefined || b.to_examine === undefined || b.percent === undefined) return <></>
  if (b.state === 'completed') return <div class="note">all {exact(b.to_examine)} examined</div>
  const text = `${exact(b.examined)} of ${exact(b.to_examine)}${b.remaining_ms ? `, about ${duration(Math.max(b.remaining_ms / 1000, 1))}` : ''}`
  return (
    <div title="examined, of the number at its start">
      <div class="bar" role="progressbar" aria-label={`Progress of ${b.action} ${b.id}`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={b.percent} aria-valuetext={`${b.percent} %, ${text}`}><i class="reserved" style={{ width: `${b.percent}%` }} /></div>
      <span class="note">{text}</span>
    </div>
  )
}

/** The command that starts the same operation again. */
const again = (b: BulkOperation) => quern('bulk', 'run', b.action, ...bulkFlags(b.filter ?? {}), ...(b.to ? ['--to', b.to] : []), ...(b.priority === undefined ? [] : ['--priority', b.priority]), ...(b.limit ? ['--limit', b.limit] : []), ...(b.rate_per_second > 0 ? ['--rate', b.rate_per_second] : []), ...(b.dry_run ? ['--dry-run'] : []), '--queue', b.queue)

/** How long an ended operation stays beside the list from which it was started. */
const recent = 15 * 60_000

/** The bulk operations that this page started, if they run or ended a moment ago, with a link to all of them. */
export function Operations({ queue: name, of }: { queue: string; of: string[] }) {
  const list = useLive<Page<BulkOperation>>(`${bulkPath}?queue=${encodeURIComponent(name)}`, 1)
  const now = momentNow()
  const items = (list.data?.items ?? []).filter((b) => of.includes(b.action) && !b.dry_run && (!b.finished_at || now - Date.parse(b.finished_at) < recent)).slice(0, 5)
  if (list.problem) return <div class="w12"><Failed problem={list.problem} again={list.again} /></div>
  if (items.length === 0) return null
  return (
    <section class="card w12">
      <header><div class="row"><h2>Operations</h2><small>running, or just ended</small></div><a href={link('operations')}>All operations</a></header>
      <BulkList name="Operations" items={items} scope={name} done={list.again} />
    </section>
  )
}

/** The filter of an operation, a piece for each part. */
function chips(b: BulkOperation): string[] {
  return Object.entries(b.filter ?? {}).flatMap(([k, v]) => (k === 'meta' ? metaList(v as Meta).map(([key, value]) => `${key}=${shown(value)}`) : [`${k}=${/_(before|after)$/.test(k) ? moment(String(v)) : String(v)}`]))
}

function Stop({ b, done }: { b: BulkOperation; done: () => void }) {
  return (
    <span class="row end">
      <Copy text={quern('bulk', 'cancel', ...(named() ? ['--actor', named()] : []), b.id)} name="Copy CLI" />
      <Confirm name="Stop" button="Stop" question={`Stop the operation ${b.action}?`} run={async () => {
        const now = await call<BulkOperation>('POST', `${bulkPath}/${encodeURIComponent(b.id)}/cancel`)
        say(`Stopped after ${exact(now.done)}`)
        done()
      }}>Its changes stay: {exact(b.done)} so far{b.to_examine !== undefined && b.examined !== undefined ? `, and ${exact(Math.max(0, b.to_examine - b.examined))} will not be examined` : ''}.</Confirm>
    </span>
  )
}
