import { curl, quern } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { clamped, exact, moment } from '../format'
import { write } from '../json'
import { List } from '../list'
import { useLive } from '../live'
import { Empty, Failed, Mark } from '../parts'
import { rules } from '../rules'
import { lacks } from '../session'
import { inQueue, link, refine, route, say } from '../state'
import { stats } from '../stream'
import { Clamp } from '../text'
import { isBackoff, said } from '../settings'
import { undoOf, type Use } from '../undo'
import type { AuditEntry, Page } from '../types'

/** How far back, in words and as the command line has it, with its minutes. */
const spans: [string, string, number][] = [['the last 10 minutes', '10m', 10], ['the last hour', '1h', 60], ['the last day', '24h', 1440], ['the last week', '168h', 10_080], ['all that is kept', 'all', 0]]
const filters = ['actor', 'action', 'queue', 'target', 'outcome'] as const
const outcomes: [string, string][] = [['', 'any'], ['ok', 'done'], ['refused', 'refused']]

/** Who changed what, and who was refused what, the latest first. */
export function Activity() {
  const q = route.value.query
  const span = spans.find(([, name]) => name === (q.get('for') ?? '24h')) ?? spans[2]!
  const cursor = q.get('cursor') ?? ''
  const now = stats.value ? Date.parse(stats.value.at) : Date.now()
  const since = span[2] > 0 ? new Date(Math.floor(now / 60_000 - span[2]) * 60_000).toISOString() : '' // whole minutes, so that the address of what is read changes seldom
  const asked = filters.flatMap((name) => (q.get(name) ? [[name, q.get(name)!] as const] : []))
  const query = new URLSearchParams([...asked, ...(since ? [['since', since]] : []), ...(cursor ? [['cursor', cursor]] : []), ['limit', '100']] as [string, string][])
  const path = `/v1/audit?${query}`
  const scope = asked.join() + span[1] + cursor
  const list = useLive<Page<AuditEntry> & { incomplete?: string[] }>(path, cursor ? 0 : 3, scope)
  const items = list.data && identified(list.data.items)
  const cli = quern('audit', ...asked.flatMap(([name, value]) => ['--' + name, value]), ...(span[2] > 0 ? ['--since', '-' + span[1]] : []))
  return (
    <>
      <div class="head"><h1>Activity</h1><span>who changed what at this server</span><div class="act"><CopyAs cli={cli} curl={curl('GET', path)} /></div></div>
      <form class="w12 row" onSubmit={(e) => {
        e.preventDefault()
        const given = new FormData(e.currentTarget)
        refine({ ...Object.fromEntries(filters.map((name) => [name, given.get(name)?.toString().trim() || undefined])), cursor: undefined })
      }}>
        <label class="field">When <select value={span[1]} onChange={(e) => refine({ for: e.currentTarget.value === '24h' ? undefined : e.currentTarget.value, cursor: undefined })}>{spans.map(([text, name]) => <option key={name} value={name}>{text}</option>)}</select></label>
        {([['actor', 'Who', 'ana'], ['action', 'What', 'rule, rule.create'], ['queue', 'Queue', 'all'], ['target', 'To what', 'rule 7']] as const).map(([name, text, example]) => <label key={name} class="field">{text} <input name={name} type="search" placeholder={example} defaultValue={q.get(name) ?? ''} key={q.get(name) ?? ''} /></label>)}
        <label class="field">Outcome <select value={q.get('outcome') ?? ''} onChange={(e) => refine({ outcome: e.currentTarget.value || undefined, cursor: undefined })} name="outcome">{outcomes.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select></label>
        <button>Filter</button>
      </form>
      <section class="card w12">
        <header><h2>What changed</h2><small>{items ? `${exact(items.length)}${list.data?.next ? ', and more before them' : ''}` : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {list.data?.incomplete && <p class="note">The latest entries of queues in quarantine may be missing: {list.data.incomplete.join(', ')}.</p>}
        {!items && !list.problem && <p class="note">Reading…</p>}
        {items?.length === 0 && !list.data?.next && <Empty command={cli}>{asked.length > 0 ? 'Nothing that was changed in this time fits the filter.' : 'No one changed anything in this time. Rules, limits, cancels, schedules, plugins, tokens and settings show here, with who did it.'}</Empty>}
        {items && items.length > 0 && (
          <List name="What changed" items={items} id={(e) => e.id} scope={scope} besides={[]}
            columns={[{ name: 'When' }, { name: 'Who' }, { name: 'What' }, { name: 'To what' }, { name: 'Before and after' }, { name: 'Outcome' }, { name: 'Actions', hidden: true }]}
            cells={(e) => [
              <td class="note" title={e.request_id && `request ${e.request_id}`}>{moment(e.at)}</td>,
              <td class="who">{e.actor ? <button class="link" title={e.actor} onClick={() => refine({ actor: e.actor, cursor: undefined })}>{clamped(e.actor, 28)}</button> : <span class="note">no{'\u00a0'}one{'\u00a0'}said</span>}{e.on_behalf_of && <p class="note">for <Clamp text={e.on_behalf_of} /></p>}{e.from && <p class="note">from{'\u00a0'}{e.from}</p>}</td>,
              <td><button class="link mono whole" onClick={() => refine({ action: e.action, cursor: undefined })}>{e.action}</button></td>,
              <td>{e.target && <Target e={e} />}{e.queue && <p class="note">queue <a href={inQueue(e.queue)}>{e.queue}</a></p>}</td>,
              <td class="wrap error"><Change e={e} /></td>,
              <td><span class="state"><Mark of={e.outcome === 'ok' ? 'done' : 'dead'} />{e.outcome}</span></td>,
              <td class="r"><UndoOf e={e} done={list.again} /></td>,
            ]} />
        )}
        <p class="foot row">{cursor && <button onClick={() => refine({ cursor: undefined })}>Latest</button>}{list.data?.next && <button onClick={() => refine({ cursor: list.data!.next })}>Older</button>}</p>
      </section>
    </>
  )
}

/** Each with an id that it keeps when others come before it: a question that is open at its row stays open. */
function identified(entries: AuditEntry[]): (AuditEntry & { id: string })[] {
  const seen = new Map<string, number>()
  return entries.map((e) => {
    const key = `${e.at} ${e.request_id ?? ''} ${e.action} ${e.target ?? ''}`
    seen.set(key, (seen.get(key) ?? 0) + 1)
    return { ...e, id: `${key} ${seen.get(key)}` }
  })
}

/** Takes a change back, where that is possible. What was changed since then is overwritten, so that it is asked. */
export function UndoOf({ e, done }: { e: AuditEntry; done: () => void }) {
  const undo = e.outcome === 'ok' ? undoOf(e) : undefined
  if (!undo) return null
  const run = async () => {
    await undo.run()
    say(`${undo.text}: done`)
    rules.value?.again()
    done()
  }
  return <Confirm name="Undo" button="Undo…" label={`Undo ${e.action} of ${moment(e.at)}`} lacks={lacks(undo.scope ?? 'operate')} question={`Undo: ${undo.text}?`} run={run}>What {e.actor ? <bdi>{e.actor}</bdi> : 'someone'} did at {moment(e.at)} is taken back, and with it all that was changed of it since then.</Confirm>
}

/** What it was done to, with a way there where there is one. */
function Target({ e }: { e: AuditEntry }) {
  const [kind = '', name = ''] = e.target!.split(' ', 2)
  const pages: Record<string, string> = { submission: 'submissions/' + name, consumer: 'consumers/' + encodeURIComponent(name), plugin: 'plugins/' + encodeURIComponent(name) }
  const page = pages[kind]
  return <Clamp text={e.target!} {...(page && name ? { href: e.queue ? inQueue(e.queue, page) : link(page) } : {})} />
}

const isUse = (v: unknown): v is Use => typeof v === 'object' && v !== null && 'sha256' in v && 'config' in v

function text(v: unknown, name = ''): string {
  if (v === undefined) return 'nothing'
  if (typeof v === 'string') return v
  if (Array.isArray(v)) return v.map((one) => text(one)).join(', ')
  if (isUse(v)) return v.sha256.slice(0, 8) + (write(v.config) === '{}' ? '' : ' ' + write(v.config))
  if (typeof v === 'number' && name === 'anchor') return moment(v)
  return typeof v === 'number' || isBackoff(v) ? said(name, v) : write(v)
}

const fieldsOf = (v: unknown): Record<string, unknown> => (typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Record<string, unknown>) : v === undefined ? {} : { '': v })

/** What differs, field by field: each from what to what, or what there was or is where there is nothing to compare it with. */
export function Change({ e: { actor, before, after } }: { e: AuditEntry }) {
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  const both = before !== undefined && after !== undefined
  const differ = [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((k) => write(was[k]) !== write(is[k]) && !(k === 'actor' && is[k] === actor)) // who did it stands beside it
  return <>{before !== undefined && after === undefined && <span class="note">was </span>}{differ.map((k) => <span key={k} class="field"><b>{k}</b> {both && <><Clamp text={text(was[k], k)} most={40} /> → </>}<Clamp text={text(after === undefined ? was[k] : is[k], k)} most={60} /> </span>)}</>
}
