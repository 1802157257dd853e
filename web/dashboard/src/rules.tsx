import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { call, queuePath, shell } from './api'
import { duration, exact, metaList, moment, shown } from './format'
import { useAction, useLive, type Live } from './live'
import { me } from './me'
import { Copy, Count, Failed, Mark } from './parts'
import { link, queue, say } from './state'
import { keys, stats } from './stream'
import type { Page, Rule, RuleMatch } from './types'

/** The rules of the queue, as every page shows them. They are read again at the pace of the stream, or at once when one was changed. */
export const rules = signal<Live<Page<Rule>> | null>(null)

export const ruleFlags = (m: RuleMatch) => (m.queue ? ['--all'] : m.submission ? ['--submission', m.submission] : metaList(m.meta).flatMap(([k, v]) => ['--meta', `${k}=${typeof v === 'string' && /^-?\d+$/.test(v) ? 's:' + v : v}`]))

/** What a rule is about, in words. */
export function Matched({ m }: { m: RuleMatch }) {
  if (m.queue) return <>the whole queue</>
  if (m.submission) return <>submission <a class="mono" href={link('submissions/' + m.submission)}>{m.submission}</a></>
  return <>{metaList(m.meta).map(([k, v]) => <a key={k} class="chip" href={link('submissions', { ['meta.' + k]: typeof v === 'string' && /^-?\d+$/.test(v) ? 's:' + v : String(v) })}>{k}={shown(v)}</a>)}</>
}

/** How much stands behind a rule: of a value what the frames tell of it, and of the only rule of its kind all of that kind. */
export function Behind({ r }: { r: Rule }) {
  const now = stats.value?.stats
  const kind = r.action === 'block' ? 'blocked' : 'paused'
  const [key, value] = metaList(r.match.meta)[0] ?? []
  const found = keys.value?.keys.find((k) => k.key === key)?.top.find((v) => v.value === value)
  const alone = rules.value?.data?.items.filter((other) => other.action === r.action).length === 1
  const n = alone && now ? now[kind] : found?.[kind]
  return n === undefined ? null : <><Count n={n} /> {n === 1 ? 'chunk' : 'chunks'}</>
}

const past: Record<string, string> = { pause: 'paused', block: 'blocked' }

/** Every active rule, on every page: who, why, since, until. What is paused and forgotten stands in the way of everybody. */
export function Banners() {
  const list = useLive<Page<Rule>>(`${queuePath(queue.value)}/rules`, 3)
  useEffect(() => { rules.value = list }, [list.data, list.problem])
  const active = list.data?.items ?? []
  const most = 3
  return (
    <>
      {active.slice(0, most).map((r) => <Banner key={r.id} r={r} done={list.again} />)}
      {active.length > most && <div class="banner" role="status"><Mark of="skipped" /><span>{exact(active.length - most)} more rules are active.</span><a href={link('rules')}>All rules</a></div>}
    </>
  )
}

function Banner({ r, done }: { r: Rule; done: () => void }) {
  const now = stats.value ? Date.parse(stats.value.at) : 0
  const since = now > 0 ? duration(Math.max(0, now - Date.parse(r.since)) / 1000) : ''
  return (
    <div class="banner rule" role="status">
      <Mark of="skipped" />
      <span class="grow"><b><Matched m={r.match} /> is {past[r.action] ?? r.action}</b>{r.actor ? ` by ${r.actor}` : ''}{since ? ` for ${since}` : ''}{r.reason ? `: “${r.reason}”` : ''} · {r.until ? `until ${moment(r.until)}` : 'until it is lifted'}{r.effects?.insert ? ' · inserts are refused' : ''} <span class="note"><Behind r={r} /></span></span>
      <Lift r={r} done={done} />
    </div>
  )
}

export function Lift({ r, done, bare }: { r: Rule; done: () => void; bare?: boolean }) {
  const action = useAction()
  return (
    <>
      <button disabled={action.busy} aria-label={`Lift rule ${r.id}`} onClick={() => void action.run(async () => { await call('DELETE', `${queuePath(queue.value)}/rules/${r.id}${me.value.trim() ? '?' + new URLSearchParams({ actor: me.value.trim() }) : ''}`); say('Lifted: what no other rule covers is handed out again'); done(); rules.value?.again() })}>Lift</button>
      {!bare && <Copy text={shell('quern', 'rules', 'lift', r.id, '--queue', queue.value)} name="Copy CLI" />}
      {action.problem && <Failed problem={action.problem} />}
    </>
  )
}
