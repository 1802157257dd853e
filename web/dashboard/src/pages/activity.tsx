import { curl, quern } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { clamped, exact, moment, queueName, shown as valueOf } from '../format'
import { write } from '../json'
import { List } from '../list'
import { useLive } from '../live'
import { Empty, Failed, Mark } from '../parts'
import { rules } from '../rules'
import { lacks } from '../session'
import { here, inQueue, link, refine, route, say } from '../state'
import { stats } from '../stream'
import { Clamp, Sentence } from '../text'
import { isBackoff } from '../backoff'
import { defaults, said, setting } from '../settings'
import { actorOf, sentenceOf, toldOf } from '../told'
import { undoOf, type Use } from '../undo'
import type { AuditEntry, Page } from '../types'

/** How far back, in words and as the command line has it, with its minutes. */
const spans: [string, string, number][] = [['the last 10 minutes', '10m', 10], ['the last hour', '1h', 60], ['the last day', '24h', 1440], ['the last week', '168h', 10_080], ['everything kept', 'all', 0]]
const filters = ['actor', 'action', 'queue', 'target', 'outcome'] as const
const outcomes: [string, string][] = [['', 'any'], ['ok', 'done'], ['refused', 'refused']]

/** The audit log as sentences, the latest first. */
export function Activity() {
  const q = route.value.query
  const span = spans.find(([, name]) => name === (q.get('for') ?? '24h')) ?? spans[2]!
  const cursor = q.get('cursor') ?? ''
  const now = stats.value ? Date.parse(stats.value.at) : Date.now()
  const since = span[2] > 0 ? new Date(Math.floor(now / 60_000 - span[2]) * 60_000).toISOString() : '' // whole minutes, so that the path of the read changes seldom
  const asked = filters.flatMap((name) => (q.get(name) ? [[name, q.get(name)!] as const] : []))
  const query = new URLSearchParams([...asked, ...(since ? [['since', since]] : []), ...(cursor ? [['cursor', cursor]] : []), ['limit', '100']] as [string, string][])
  const path = `/v1/audit?${query}`
  const scope = asked.join() + span[1] + cursor
  const list = useLive<Page<AuditEntry> & { incomplete?: string[] }>(path, cursor ? 0 : 3, scope)
  const items = list.data && identified(list.data.items)
  const cli = quern('audit', ...asked.flatMap(([name, value]) => ['--' + name, value]), ...(span[2] > 0 ? ['--since', '-' + span[1]] : []))
  return (
    <>
      <div class="head"><h1>Activity</h1><span>every change on this server, and every act that it refused</span><div class="act"><CopyAs cli={cli} curl={curl('GET', path)} /></div></div>
      <form class="w12 row" onSubmit={(e) => {
        e.preventDefault()
        const given = new FormData(e.currentTarget)
        refine({ ...Object.fromEntries(filters.map((name) => [name, given.get(name)?.toString().trim() || undefined])), cursor: undefined })
      }}>
        <label class="field">When <select value={span[1]} onChange={(e) => refine({ for: e.currentTarget.value === '24h' ? undefined : e.currentTarget.value, cursor: undefined })}>{spans.map(([text, name]) => <option key={name} value={name}>{text}</option>)}</select></label>
        {([['actor', 'Who', 'ana'], ['action', 'Action', 'rule, rule.create'], ['queue', 'Queue', 'all'], ['target', 'Object', 'rule 7']] as const).map(([name, text, example]) => <label key={name} class="field">{text} <input name={name} type="search" placeholder={example} defaultValue={q.get(name) ?? ''} key={q.get(name) ?? ''} /></label>)}
        <label class="field">Outcome <select value={q.get('outcome') ?? ''} onChange={(e) => refine({ outcome: e.currentTarget.value || undefined, cursor: undefined })} name="outcome">{outcomes.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select></label>
        <button>Filter</button>
      </form>
      <section class="card w12">
        <header><h2>What changed</h2><small>{items ? `${exact(items.length)}${list.data?.next ? ', and more before them' : ''}` : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {list.data?.incomplete && <p class="note">The latest entries of these queues may be missing: {list.data.incomplete.map(queueName).join('; ')}. They are in quarantine, or their node does not answer.</p>}
        {!items && !list.problem && <p class="note">Reading…</p>}
        {items?.length === 0 && !list.data?.next && <Empty command={cli}>{asked.length > 0 ? 'No change in this time matches the filter.' : 'No changes in this time. This page shows changes of rules, limits, submissions, schedules, plugins, tokens and settings, with the person or service that made them.'}</Empty>}
        {items && items.length > 0 && (
          <List name="What changed" items={items} id={(e) => e.id} scope={scope} besides={[]}
            columns={[{ name: 'When' }, { name: 'Who' }, { name: 'What' }, { name: 'Details' }, { name: 'Outcome' }, { name: 'Actions', hidden: true }]}
            cells={(e) => [
              <td class="note" title={e.request_id && `request ${e.request_id}`}>{moment(e.at)}</td>,
              <td class="who">{e.actor ? <button class="link" title={e.actor} onClick={() => refine({ actor: e.actor, cursor: undefined })}>{clamped(e.actor, 28)}</button> : <span class="note">{actorOf(e)}</span>}{e.on_behalf_of && <p class="note">for <Clamp text={e.on_behalf_of} /></p>}{e.from && <p class="note">from{'\u00a0'}{e.from}</p>}</td>,
              <td class="wrap told"><What e={e} />{e.queue && !e.action.startsWith('queue.') && <p class="note">in queue <a href={inQueue(e.queue)}>{queueName(e.queue)}</a></p>}</td>,
              <td class="wrap error"><Change e={e} /></td>,
              <td><span class="state"><Mark of={e.outcome === 'ok' ? 'done' : 'dead'} />{e.outcome === 'ok' ? 'done' : e.outcome}</span></td>,
              <td class="r"><UndoOf e={e} done={list.again} /></td>,
            ]} />
        )}
        <p class="foot row">{cursor && <button onClick={() => refine({ cursor: undefined })}>Latest</button>}{list.data?.next && <a class="btn" href={here({ cursor: list.data.next })}>Older</a>}</p>
      </section>
    </>
  )
}

/** Gives each entry an id that stays when newer entries come: an open question of a row stays open. */
function identified(entries: AuditEntry[]): (AuditEntry & { id: string })[] {
  const seen = new Map<string, number>()
  return entries.map((e) => {
    const key = `${e.at} ${e.request_id ?? ''} ${e.action} ${e.target ?? ''}`
    seen.set(key, (seen.get(key) ?? 0) + 1)
    return { ...e, id: `${key} ${seen.get(key)}` }
  })
}

/** Undoes a change, where that is possible. It asks first, because it overwrites later changes. */
export function UndoOf({ e, done }: { e: AuditEntry; done: () => void }) {
  const undo = e.outcome === 'ok' ? undoOf(e) : undefined
  if (!undo) return null
  const run = async () => {
    await undo.run()
    say(`${undo.text}: done`)
    rules.value?.again()
    done()
  }
  return <Confirm name="Undo" button="Undo…" label={`Undo: ${sentenceOf(e)}, ${moment(e.at)}`} lacks={lacks(undo.scope ?? 'operate')} question={`Undo: ${undo.text}?`} run={run}>This takes back the change of {moment(e.at)}: <Sentence text={sentenceOf(e)} />. Later changes of the same thing are lost.</Confirm>
}

/** The sentence of an entry. Its verb filters by the action, and its object leads to its page, if it has one. */
export function What({ e }: { e: AuditEntry }) {
  const { verb, object, rest } = toldOf(e)
  const [kind = '', name = ''] = (e.target ?? '').split(' ', 2)
  const pages: Record<string, string> = { submission: 'submissions/' + name, consumer: 'consumers/' + encodeURIComponent(name), plugin: 'plugins/' + encodeURIComponent(name) }
  const page = pages[kind]
  const href = page && name ? (e.queue ? inQueue(e.queue, page) : link(page)) : e.action.startsWith('queue.') && e.queue ? inQueue(e.queue) : undefined
  const show = () => refine({ action: e.action, cursor: undefined })
  return <><button class="link whole" title={`show only ${e.action}`} onClick={show}>{verb}</button> {object && <Clamp text={object} most={40} {...(href ? { href } : {})} />} {rest && <Sentence text={rest} />}</>
}

const isUse = (v: unknown): v is Use => typeof v === 'object' && v !== null && 'sha256' in v && 'config' in v

/** A value of a meta key, as the log has it. */
const isEntry = (v: unknown): v is { key: string; text?: string; int?: number } => typeof v === 'object' && v !== null && 'key' in v && ('text' in v || 'int' in v)

function text(v: unknown, name = ''): string {
  if (v === undefined) return name === 'shards' ? '1' : setting(name)?.zero ?? 'nothing' // the log leaves out zeros, and one shard
  if (typeof v === 'string') return v
  if (Array.isArray(v)) return v.map((one) => text(one)).join(', ')
  if (isEntry(v)) return `${v.key}=${valueOf(v.text ?? v.int ?? 0)}`
  if (isUse(v)) return v.sha256.slice(0, 8) + (write(v.config) === '{}' ? '' : ' ' + write(v.config))
  if (typeof v === 'number' && name === 'anchor') return moment(v)
  if (typeof v === 'object' && v !== null && !isBackoff(v)) return Object.entries(v).map(([k, one]) => `${k} ${text(one, k)}`).join(', ') || 'none'
  return typeof v === 'number' || isBackoff(v) ? said(name, v) : write(v)
}

const fieldsOf = (v: unknown): Record<string, unknown> => (typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Record<string, unknown>) : v === undefined ? {} : { '': v })

/** The differences, field by field: the old and the new value, or the only one. Fields that the sentence contains are left out, and so are
 * the defaults of a new queue. */
export function Change({ e }: { e: AuditEntry }) {
  const { actor, before, after } = e
  const { shown } = toldOf(e)
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  const both = before !== undefined && after !== undefined
  const differ = [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((k) => write(was[k]) !== write(is[k]) && !shown.includes(k) && !(e.action === 'queue.create' && write(is[k]) === write(defaults[k])) && !(k === 'actor' && is[k] === actor)) // the actor stands beside it
  return <>{before !== undefined && after === undefined && <span class="note">was </span>}{differ.map((k) => <span key={k} class="field"><b>{k}</b> {both && <><Clamp text={text(was[k], k)} most={40} /> → </>}<Clamp text={text(after === undefined ? was[k] : is[k], k)} most={60} /> </span>)}</>
}
