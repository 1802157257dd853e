import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { call, quern, queuePath, valueText } from './api'
import { Confirm } from './confirm'
import { clamped, amount, duration, exact, metaList, moment, shown } from './format'
import { List } from './list'
import { useLive, type Live } from './live'
import { lacks } from './session'
import { Copy } from './copy'
import { Count, Mark } from './parts'
import { link, queue, say, valueLink } from './state'
import { stats } from './stream'
import { Clamp } from './text'
import type { MetaValue, Page, Rule, RuleMatch } from './types'

/** The rules of the queue, as every page shows them. They are read again at the pace of the stream, or at once when one was changed. */
export const rules = signal<Live<Page<Rule>> | null>(null)

/** The meta of a match, with a pair for each value; any value of one key is enough. */
export const pairs = (m: RuleMatch): [string, MetaValue][] => [...metaList(m.meta), ...Object.entries(m.any ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([k, values]) => values.map((v): [string, MetaValue] => [k, v]))]

export const ruleFlags = (m: RuleMatch) => (m.queue ? ['--all'] : m.submission ? ['--submission', m.submission] : pairs(m).flatMap(([k, v]) => ['--meta', `${k}=${typeof v === 'string' && /^-?\d+$/.test(v) ? 's:' + v : v}`]))

/** Whether a rule names a value of a meta key. */
export function names(r: Rule, key: string, value: MetaValue): boolean {
  return pairs(r.match).some(([k, v]) => k === key && valueText(v) === valueText(value))
}

/** The match of a rule, in words. */
export function Matched({ m }: { m: RuleMatch }) {
  if (m.queue) return <>the whole queue</>
  if (m.submission) return <>submission <a class="mono" href={link('submissions/' + m.submission)}>{m.submission}</a></>
  return <>{pairs(m).map(([k, v]) => <span key={`${k} ${valueText(v)}`} class="chip"><Clamp text={`${k}=${shown(v)}`} href={valueLink(k, valueText(v))} /></span>)}</>
}

const past: Record<string, string> = { pause: 'paused', block: 'blocked' }
const byChunks = (list: Rule[]) => [...list].sort((a, b) => (b.chunks ?? 0) - (a.chunks ?? 0) || Date.parse(b.since) - Date.parse(a.since))

/** How many rules the line names. */
const named = 3

/**
 * The chunks that rules hold back, in one line on every page, because a forgotten pause affects everybody. It opens to all of them. Its
 * numbers tick, so that none of it is announced.
 */
export function RulesLine() {
  const list = useLive<Page<Rule>>(`${queuePath(queue.value)}/rules`, 3)
  const [open, setOpen] = useState(false)
  useEffect(() => { rules.value = list }, [list.data, list.problem])
  const active = byChunks(list.data?.items ?? [])
  const [first] = active
  if (!first) return null
  const now = stats.value?.stats
  return (
    <section class="rules" aria-label="Rules that hold work back">
      <div class="line">
        <Mark of="skipped" />
        <p>{active.length === 1 ? <OneRule r={first} /> : (
          <>
            <b>{exact(active.length)} rules hold{now && <> <Count n={now.paused + now.blocked} /></>}</b>:{' '}
            {active.slice(0, named).map((r) => <span key={r.id}><Matched m={r.match} /> <Count n={r.chunks ?? 0} /> </span>)}
            {active.length > named && <span class="note">{exact(active.length - named)} more</span>}
          </>
        )}</p>
        {active.length === 1 ? <Lift r={first} done={list.again} /> : <button class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? 'Hide' : 'Show'}</button>}
      </div>
      {open && active.length > 1 && <ActiveRules name="All rules" items={active} done={list.again} />}
    </section>
  )
}

function OneRule({ r }: { r: Rule }) {
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const since = now > 0 ? duration(Math.max(0, now - Date.parse(r.since)) / 1000) : ''
  return <><b><Matched m={r.match} /> is {past[r.action] ?? r.action}</b> (<Count n={r.chunks ?? 0} of="chunk" />){r.actor && <> by <bdi>{r.actor}</bdi></>}{since && ` for ${since}`}{r.reason && <>: “<Clamp text={r.reason} most={60} />”</>} · {r.until ? `until ${moment(r.until)}` : 'until it is lifted'}{r.effects?.insert ? ' · inserts are refused' : ''}</>
}

export const effects = (r: Rule) => [r.effects?.insert && 'refuses inserts', r.effects?.revoke && 'took back reserved chunks'].filter(Boolean).join(', ')

/** The reason of a rule, and its author. */
export const Reason = ({ r }: { r: Rule }) => <>{r.reason ? <Clamp text={r.reason} most={90} /> : <span class="note">no reason given</span>}<p class="note">{r.actor && <>by <Clamp text={r.actor} />, </>}since {moment(r.since)}</p></>

/** The active rules, those that hold back the most chunks first. */
export function ActiveRules({ name, items, done }: { name: string; items: Rule[]; done: () => void }) {
  return (
    <List name={name} items={byChunks(items)} id={(r) => r.id} scope={queue.value} keys={name === 'Active rules'}
      columns={[{ name: 'Covers' }, { name: 'Does' }, { name: 'Why' }, { name: 'Until' }, { name: 'Holds back', right: true }, { name: 'Actions', hidden: true }]}
      cells={(r) => [
        <td><Matched m={r.match} /></td>, <td><span class="state"><Mark of="skipped" />{r.action}</span>{effects(r) && <p class="note">{effects(r)}</p>}</td>, <td class="wrap error"><Reason r={r} /></td>,
        <td class="note">{r.until ? moment(r.until) : 'it is lifted'}</td>, <td class="r"><Count n={r.chunks ?? 0} /></td>, <td class="r"><Lift r={r} done={done} /></td>,
      ]} />
  )
}

const what = (m: RuleMatch) => (m.queue ? 'the whole queue' : m.submission ? `submission ${m.submission}` : pairs(m).map(([k, v]) => clamped(`${k}=${shown(v)}`, 40)).join())

/** Lifts a rule after the page has said how many chunks that releases. For the whole queue the reader types the number. */
function Lift({ r, done }: { r: Rule; done: () => void }) {
  const n = r.chunks ?? 0
  const of = queue.value
  const others = (rules.value?.data?.items.length ?? 1) > 1
  return (
    <Confirm name="Lift" label={`Lift rule ${r.id}`} lacks={r.action === 'block' ? lacks('admin') : lacks('consume', 'operate')} question={`Lift the ${r.action} of ${what(r.match)}?`} n={r.match.queue ? n : undefined} run={async () => {
      await call('DELETE', `${queuePath(of)}/rules/${r.id}`)
      const { action, match, reason, until, effects } = r
      say('Lifted: work under no other rule is handed out again', {
        text: `${action} ${what(match)} again`,
        run: () => call('POST', `${queuePath(of)}/rules`, { action, match, ...(reason ? { reason } : {}), ...(until ? { until } : {}), ...(effects?.insert ? { effects: { insert: true } } : {}) }),
      })
      done()
      rules.value?.again()
    }}>
      <b>{amount(n, 'chunk')}</b> can be handed out at once{others ? ', but for what another rule covers' : ''}.{r.effects?.insert && ' Inserts of it are accepted again.'}{' '}
      <Copy text={quern('rules', 'lift', r.id, '--queue', queue.value)} name="Copy CLI" />
    </Confirm>
  )
}
