import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, etagOf, curl, quern, queuePath, valueOf } from '../api'
import { duration, exact, moment, shown } from '../format'
import { write } from '../json'
import { List } from '../list'
import { useLive } from '../live'
import { Who } from '../me'
import { CopyAs } from '../copy'
import { Outcome, useEdit, type Version } from '../edit'
import { Empty, Failed, Mark } from '../parts'
import { ActiveRules, Matched, Reason, effects, pairs, ruleFlags, rules } from '../rules'
import { lacks, may } from '../session'
import { queue, refine, route, say } from '../state'
import { keys, momentNow } from '../stream'
import { Clamp } from '../text'
import { undoOf } from '../undo'
import type { MetaValue, Page, Rule, RuleMatch, RuleRequest } from '../types'
import { fromLocal } from './schedule-paths'

export function Rules() {
  const list = rules.value
  const items = list?.data?.items
  const path = `${queuePath(queue.value)}/rules`
  return (
    <>
      <div class="head"><h1>Rules</h1><span>the server does not hand out work under a rule, whatever the strategy</span>
        <div class="act"><CopyAs cli={quern('rules', 'list', '--queue', queue.value)} curl={curl('GET', path)} /></div>
      </div>
      <Gate scope={['consume', 'operate']}><section class="card w4"><header><h2>Set a rule</h2></header><SetRule path={path} /></section></Gate>
      <section class={may('consume', 'operate') ? 'card w8' : 'card w12'}>
        <header><h2>Active</h2><small>{items ? exact(items.length) : ''}</small></header>
        {list?.problem && <Failed problem={list.problem} again={list.again} />}
        {items?.length === 0 && <Empty command={quern('rules', 'pause', '--meta', 'company=acme', '--reason', 'their API is down', '--until', '90m', '--queue', queue.value)}>No rule is active. A pause holds work back for a while; a block forbids it.</Empty>}
        {items && items.length > 0 && (
          <ActiveRules name="Active rules" items={items} done={list!.again} />
        )}
      </section>
      <Past path={`${path}?state=ended`} />
    </>
  )
}

const ends: Record<string, string> = { lifted: 'lifted', over: 'its time came', submission_ended: 'its submission ended' }
const more = 50

/** Rules that no longer hold: their authors and reasons, how long they held, and by whom they were lifted. */
function Past({ path }: { path: string }) {
  const q = route.value.query
  const list = useLive<Page<Rule>>(path, 5)
  const [n, setN] = useState(more)
  const [end, find] = [q.get('end') ?? '', q.get('find') ?? '']
  const all = list.data?.items ?? []
  const words = (r: Rule) => [r.reason, r.actor, r.lifted_by, r.action, r.match.submission, r.match.queue ? 'the whole queue' : '', ...pairs(r.match).map(([k, v]) => `${k}=${shown(v)}`)].join(' ').toLowerCase()
  const fit = all.filter((r) => (!end || r.end === end) && words(r).includes(find.toLowerCase()))
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Past</h2><small>{list.data ? `${exact(all.length)}${all.length >= 1000 ? ', older ones are forgotten' : ''}` : ''}</small></div>
        <div class="row">
          <label class="field">How <select value={end} onChange={(e) => refine({ end: e.currentTarget.value || undefined })}><option value="">all</option>{Object.entries(ends).map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
          <label class="field">Find <input type="search" value={find} placeholder="who, why, what" onInput={(e) => refine({ find: e.currentTarget.value || undefined })} /></label>
          <CopyAs cli={quern('rules', 'list', '--past', '--queue', queue.value)} curl={curl('GET', path)} />
        </div>
      </header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {!list.data && !list.problem && <p class="note">Reading…</p>}
      {list.data && fit.length === 0 && <Empty>{all.length > 0 ? all.length === 1 ? 'The only rule that ended does not match the filter.' : `None of the ${exact(all.length)} rules that ended matches the filter.` : 'No rule of this queue has ended. Rules that were lifted or ended appear here.'}</Empty>}
      {fit.length > 0 && (
        <List name="Past rules" items={fit.slice(0, n)} id={(r) => r.id} scope={`${queue.value} ${end} ${find} ${n}`} keys={false}
          columns={[{ name: 'Covered' }, { name: 'Did' }, { name: 'Why' }, { name: 'Held' }, { name: 'Ended' }]}
          cells={(r) => [
            <td><Matched m={r.match} /></td>, <td><span class="state"><Mark of="zero" />{r.action}</span>{effects(r) && <p class="note">{effects(r)}</p>}</td>,
            <td class="wrap error"><Reason r={r} /></td>,
            <td class="note">{r.ended_at ? duration((Date.parse(r.ended_at) - Date.parse(r.since)) / 1000) : ''}</td>,
            <td class="note">{r.ended_at ? moment(r.ended_at) : ''}<div>{ends[r.end ?? ''] ?? r.end}{r.lifted_by && <> by <Clamp text={r.lifted_by} /></>}</div></td>,
          ]} />
      )}
      {fit.length > n && <p class="foot row"><button onClick={() => setN(n + more)}>Show {exact(Math.min(more, fit.length - n))} more</button></p>}
    </section>
  )
}

/** For how long a rule may hold: a time from now as the command line has it, until the next morning of the reader, or until a moment of their choice. */
const lengths: [string, string][] = [['', 'until it is lifted'], ['15m', '15 minutes'], ['1h', '1 hour'], ['4h', '4 hours'], ['24h', '1 day'], ['168h', '1 week'], ['tomorrow', 'until tomorrow, 09:00'], ['at', 'until a time…']]

/** The moment of such a choice; undefined: never, or no time is given yet. Times from now are counted by the server's clock, as that of the
 * reader may be wrong. */
function untilOf(length: string, at: string, now: number): string | undefined {
  if (length === 'at') return fromLocal(at)
  if (length === '' || now === 0) return undefined
  const until = new Date(now)
  if (length === 'tomorrow') {
    until.setDate(until.getDate() + 1)
    until.setHours(9, 0, 0, 0)
  } else {
    until.setTime(now + parseInt(length) * (length.endsWith('h') ? 3_600_000 : 60_000))
  }
  return until.toISOString()
}

/** The fields of a rule, apart from its match and its action. */
const version = ({ reason, until, effects }: RuleRequest): Version => ({ fields: { reason: reason ?? '', until: until ?? '', refuses_inserts: effects?.insert ?? false, takes_back_reserved: effects?.revoke ?? false } })

function SetRule({ path }: { path: string }) {
  const q = route.value.query
  const [verb, setVerb] = useState('pause')
  const [what, setWhat] = useState(q.get('submission') ? 'submission' : 'meta')
  const [text, setText] = useState(q.get('submission') ?? q.get('meta') ?? '')
  const [reason, setReason] = useState('')
  const [length, setLength] = useState('')
  const [at, setAt] = useState('')
  const [insert, setInsert] = useState(false)
  const [revoke, setRevoke] = useState(false)
  const of = queue.value
  const match = matchOf(what, text.trim())
  const until = untilOf(length, at, momentNow())
  const body: RuleRequest = {
    action: verb, match: match ?? {}, ...(reason.trim() ? { reason: reason.trim() } : {}),
    ...(until ? { until } : {}), ...(insert || revoke ? { effects: { insert, revoke } } : {}),
  }
  const edit = useEdit({ // there is one rule for each match and action: setting it again changes it
    now: undefined, changes: version(body).fields, looks: true, pinned: true, log: { queue: of }, said: (name, v) => (name === 'until' ? (v ? moment(String(v)) : 'it is lifted') : typeof v === 'boolean' ? (v ? 'yes' : 'no') : String(v || 'none')),
    read: async () => {
      const there = (await call<Page<Rule>>('GET', path)).items.find((r) => r.action === verb && write(ruleFlags(r.match).sort()) === write(ruleFlags(body.match).sort()))
      if (!there) return undefined
      const now = await call<Rule>('GET', `${path}/${there.id}`)
      return { ...version(now), etag: etagOf(now), target: `rule ${there.id}` }
    },
    put: async (_, guard) => {
      const r = await call<Rule>('POST', path, body, guard)
      say(`${verb === 'pause' ? 'Paused' : 'Blocked'}, from the next reservation on`, undoOf({ action: 'rule.create', queue: of, target: `rule ${r.id}` }))
      return undefined
    },
    done: () => {
      setText('')
      setReason('')
      refine({ submission: undefined, meta: undefined })
      rules.value?.again()
    },
  })
  const set = (e: SubmitEvent) => { e.preventDefault(); void edit.save() }
  return (
    <form class="stack" onSubmit={set}>
      <span class="seg" role="group" aria-label="What the rule does">{['pause', 'block'].map((v) => <button type="button" key={v} disabled={v === 'block' && !may('admin')} title={v === 'block' ? lacks('admin') : undefined} aria-pressed={verb === v} onClick={() => setVerb(v)}>{v}</button>)}</span>
      <label class="stack tight">Covers<select value={what} onChange={(e) => setWhat(e.currentTarget.value)}><option value="meta">a meta value</option><option value="several">several meta values</option><option value="submission">one submission</option><option value="queue">the whole queue</option></select></label>
      {(what === 'meta' || what === 'submission') && <label class="stack tight">{what === 'meta' ? 'KEY=VALUE' : 'Its id'}<input class="mono" required value={text} list="rule-values" placeholder={what === 'meta' ? 'company=acme' : ''} onInput={(e) => setText(e.currentTarget.value)} /></label>}
      {what === 'several' && <label class="stack tight">KEY=VALUE, one a line<textarea class="mono" required rows={3} value={text} placeholder={'company=acme\ncompany=globex\nmode=live'} onInput={(e) => setText(e.currentTarget.value)} /><small>A submission must have a value of every key. Of one key, any of its lines will do.</small></label>}
      {what === 'meta' && <datalist id="rule-values">{(keys.value?.keys ?? []).flatMap((k) => k.top.slice(0, 20).map((v) => <option key={k.key + v.value} value={`${k.key}=${v.value}`} />))}</datalist>}
      <label class="stack tight">Why<input required={verb === 'block'} maxLength={500} value={reason} placeholder="their API is down" onInput={(e) => setReason(e.currentTarget.value)} /></label>
      <Who />
      <label class="stack tight">For how long<select value={length} onChange={(e) => setLength(e.currentTarget.value)}>{lengths.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
      {length === 'at' && <label class="stack tight">Until<input type="datetime-local" required value={at} onInput={(e) => setAt(e.currentTarget.value)} /></label>}
      <label class="check"><input type="checkbox" checked={insert} onChange={(e) => setInsert(e.currentTarget.checked)} /> refuse inserts</label>
      <label class="check"><input type="checkbox" checked={revoke} onChange={(e) => setRevoke(e.currentTarget.checked)} /> take back reserved chunks, without counting an attempt</label>
      <div class="row"><button class="main" disabled={edit.busy || !match || (length !== '' && !until)}>{verb === 'pause' ? 'Pause' : 'Block'}</button>
        {match && <CopyAs cli={quern('rules', verb, ...ruleFlags(match), ...(reason ? ['--reason', reason] : []), ...(until ? ['--until', /\d/.test(length) ? length : until] : []), ...(insert ? ['--refuse-inserts'] : []), ...(revoke ? ['--revoke'] : []), '--queue', queue.value)} curl={curl('POST', path, body)} />}
      </div>
      <Outcome edit={edit} />
    </form>
  )
}

/** The match that the text describes; undefined if it describes none. A whole number is the integer, s:7 the text. */
function matchOf(what: string, text: string): RuleMatch | undefined {
  if (what === 'queue') return { queue: true }
  if (what === 'submission') return /^\d+$/.test(text) ? { submission: text } : undefined
  const of = new Map<string, MetaValue[]>()
  for (const line of what === 'several' ? text.split('\n').filter(Boolean) : [text]) {
    const cut = line.indexOf('=')
    if (cut < 1) return undefined
    const key = line.slice(0, cut)
    of.set(key, [...(of.get(key) ?? []), valueOf(line.slice(cut + 1))])
  }
  const [one, many] = [[...of].filter(([, values]) => values.length === 1), [...of].filter(([, values]) => values.length > 1)]
  return { ...(one.length > 0 ? { meta: Object.fromEntries(one.map(([k, [v]]) => [k, v!])) } : {}), ...(many.length > 0 ? { any: Object.fromEntries(many) } : {}) }
}
