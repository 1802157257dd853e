import { useMemo, useState } from 'preact/hooks'
import { call, curl, quern, queuePath, valueOf } from '../api'
import { amount, exact, moment } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { Chosen, Count, Empty, Failed, MetaChips, Progress, State, SubmissionLink } from '../parts'
import { boundTo, lacks, may } from '../session'
import { link, queue, refine, route, say } from '../state'
import { stats } from '../stream'
import { leftOf } from '../pace'
import type { BulkFilter, Page, Schedule, Submission } from '../types'
import { dropView, saveView, views } from '../views'
import { Operations } from './bulk'
import { Many } from './many'
import { NewSubmission } from './submit'

const states = ['open', 'completed', 'completed_with_dead', 'failed', 'cancelled', 'expired']

export function Submissions() {
  const q = route.value.query
  const filters = new URLSearchParams()
  const largest = q.get('sort') === 'largest'
  if (largest) filters.set('sort', 'largest')
  if (q.get('state') && !largest) filters.set('state', q.get('state')!)
  const meta = [...q].filter(([name]) => name.startsWith('meta.'))
  for (const [name, value] of meta) filters.set(name, value)
  const schedule = q.get('schedule') ?? ''
  if (schedule) filters.set('schedule', schedule)
  const age = q.get('age') ?? ''
  const bound = useMemo(() => boundOf(age), [age])
  for (const [name, at] of Object.entries(bound)) filters.set(name, at)
  const cursor = q.get('cursor') ?? ''
  if (cursor) filters.set('cursor', cursor)
  filters.set('limit', largest ? '200' : '50')
  const path = `${queuePath(queue.value)}/submissions?${filters}`
  const list = useLive<Page<Submission>>(path, 2)
  const filtered = meta.length > 0 || q.get('state') || schedule || age
  const form = q.get('new') === 'yes'
  const older = (next: string) => link('submissions', { ...Object.fromEntries(meta), state: q.get('state') ?? undefined, schedule: schedule || undefined, age: age || undefined, cursor: next })
  return (
    <>
      <div class="head"><h1>Submissions</h1><span class="seg" role="group" aria-label="Order">{['newest', 'largest'].map((o) => <button key={o} aria-pressed={(o === 'largest') === largest} onClick={() => refine({ sort: o === 'largest' ? o : undefined, cursor: undefined })}>{o === 'largest' ? 'Largest' : 'Newest'}</button>)}</span><span>{largest ? 'open ones, most chunks left first' : 'newest first'}{list.data ? `, ${exact(list.data.items.length)} on this page` : ''}</span>
        <div class="act">{!form && may('produce') && <button class="main" onClick={() => refine({ new: 'yes' })}>New submission</button>}{list.data && list.data.items.length > 0 && !q.get('many') && !schedule && may('operate') && <button onClick={() => refine({ many: 'yes' })}>All matches…</button>}<CopyAs curl={curl('GET', path)} cli={quern('list', '--queue', queue.value, ...(largest ? ['--largest'] : q.get('state') ? ['--state', q.get('state')!] : []), ...meta.flatMap(([k, v]) => ['--meta', `${k.slice(5)}=${v}`]), ...(schedule ? ['--schedule', schedule] : []), ...ageFlags(age))} /></div>
      </div>
      {form && may('produce') && <NewSubmission close={() => refine({ new: undefined })} />}
      <Filters state={q.get('state') ?? ''} meta={meta} schedule={schedule} age={age} />
      <Views />
      {q.get('many') && !schedule ? <Many filter={{ ...filterOf(q.get('state'), meta), ...bound }} close={() => refine({ many: undefined })} /> : null}
      <Operations queue={queue.value} of={['cancel', 'retry', 'reprioritize', 'purge']} />
      <section class="card w12">
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!list.data && !list.problem && <p class="note">Reading…</p>}
        {list.data?.items.length === 0 && (list.data.next
          ? <Empty>None of the newest submissions matches. There are older ones: <a href={older(list.data.next)}>look further</a>.</Empty>
          : filtered || cursor
          ? <Empty>No submission of this queue matches.</Empty>
          : <Empty command={quern('submit', '--queue', queue.value, '--count', 1000, '--template', 'row {index}', '--meta', 'company=acme')}>No submissions. The first one appears here as soon as it is inserted.</Empty>)}
        {list.data && list.data.items.length > 0 && <Table list={list.data.items} again={list.again} scope={path} />}
        <p class="foot row">
          {cursor && <button onClick={() => history.length > 1 ? history.back() : refine({ cursor: undefined })}>Newer</button>}
          {list.data?.next && <a class="btn" href={older(list.data.next)}>Older</a>}
          <small><kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> selects, <kbd>⇧x</kbd> selects up to here, <kbd>Enter</kbd> opens, <kbd>n</kbd> shows new ones, <kbd>Esc</kbd> deselects</small>
        </p>
      </section>
    </>
  )
}

/** How old submissions may be: `24h-` is older than a day, `1h` at most an hour old. */
const ages: [string, string][] = [['', 'any'], ['15m', 'under 15 min'], ['1h', 'under 1 h'], ['24h', 'under a day'], ['1h-', 'over 1 h'], ['24h-', 'over a day'], ['168h-', 'over a week']]

/** The times that an age means, by the server's clock when it was chosen. */
function boundOf(age: string): { created_before?: string; created_after?: string } {
  const [, n, unit, over] = /^(\d+)([mh])(-?)$/.exec(age) ?? []
  if (!n) return {}
  const now = stats.value ? Date.parse(stats.value.at) : Date.now()
  const at = new Date(now - Number(n) * (unit === 'm' ? 60_000 : 3_600_000)).toISOString()
  return over ? { created_before: at } : { created_after: at }
}

const ageFlags = (age: string) => (!age ? [] : age.endsWith('-') ? ['--created-before', age.slice(0, -1)] : ['--created-after', age])

/** The filter of the list as a bulk operation has it: a whole number is the integer, s:7 the text. */
function filterOf(state: string | null, meta: [string, string][]): BulkFilter {
  return { ...(state ? { states: [state] } : {}), ...(meta.length > 0 ? { meta: Object.fromEntries(meta.map(([k, v]) => [k.slice(5), valueOf(v)])) } : {}) }
}

/** The schedules whose submissions can be listed; one that is deleted stays while the address names it. */
function ScheduleFilter({ schedule }: { schedule: string }) {
  const list = useLive<Page<Schedule>>(`${queuePath(queue.value)}/schedules?limit=1000`, 0)
  const names = [...new Set([...(list.data?.items.map((s) => s.name) ?? []), ...(schedule ? [schedule] : [])])].sort()
  if (names.length === 0) return null
  return <label class="field">Inserted by <select value={schedule} onChange={(e) => refine({ schedule: e.currentTarget.value || undefined, cursor: undefined, many: undefined })}><option value="">all</option>{names.map((n) => <option key={n} value={n}>schedule {n}</option>)}</select></label>
}

/** The part of the address that a view keeps: the filters, but neither the page of the list nor an open panel. */
function viewOf(q: URLSearchParams): string {
  const out = new URLSearchParams()
  for (const [name, value] of [...q].sort()) if (name === 'state' || name === 'schedule' || name === 'age' || name.startsWith('meta.')) out.append(name, value)
  return out.toString()
}

/** Filters under a name. They are kept in this browser; the address alone shows the same to others. */
function Views() {
  const [naming, setNaming] = useState(false)
  const now = viewOf(route.value.query)
  const mine = views.value.filter((v) => v.queue === queue.value)
  if (mine.length === 0 && !now) return null
  const save = (e: SubmitEvent) => {
    e.preventDefault()
    const name = new FormData(e.currentTarget as HTMLFormElement).get('view')?.toString().trim() ?? ''
    if (!name) return
    saveView({ name, queue: queue.value, query: now })
    setNaming(false)
    say(`View ${name} saved in this browser`)
  }
  return (
    <div class="w12 row" role="group" aria-label="Views">
      <span class="note">Views</span>
      {mine.map((v) => (
        <span key={v.name} class="view" data-on={v.query === now || undefined}>
          <a href={link('submissions', Object.fromEntries(new URLSearchParams(v.query)))} aria-current={v.query === now ? 'true' : undefined} title={v.query || 'all'}>{v.name}</a>
          <button aria-label={`Delete the view ${v.name}`} onClick={() => dropView(v)}>×</button>
        </span>
      ))}
      {naming
        ? <form class="row" onSubmit={save} onKeyDown={(e) => { if (e.key === 'Escape') setNaming(false) }}><input name="view" aria-label="Name of the view" required maxLength={40} placeholder="its name" ref={(i) => { if (i && !i.dataset.seen) { i.dataset.seen = '1'; i.focus() } }} /><button>Keep</button></form>
        : now && !mine.some((v) => v.query === now) && <button class="quiet" onClick={() => setNaming(true)}>Save this view…</button>}
    </div>
  )
}

function Filters({ state, meta, schedule, age }: { state: string; meta: [string, string][]; schedule: string; age: string }) {
  const [wrong, setWrong] = useState('')
  const add = (e: SubmitEvent) => {
    e.preventDefault()
    const form = e.currentTarget as HTMLFormElement
    const text = new FormData(form).get('meta')?.toString().trim() ?? ''
    const cut = text.indexOf('=')
    if (cut < 1) return setWrong('Write KEY=VALUE, such as company=acme.')
    setWrong('')
    form.reset()
    refine({ ['meta.' + text.slice(0, cut)]: text.slice(cut + 1), cursor: undefined })
  }
  return (
    <div class="w12 row">
      <label class="field">State <select value={state} onChange={(e) => refine({ state: e.currentTarget.value || undefined, cursor: undefined })}>
        <option value="">all</option>{states.map((s) => <option key={s} value={s}>{s.replaceAll('_', ' ')}</option>)}
      </select></label>
      <label class="field">Age <select value={age} onChange={(e) => refine({ age: e.currentTarget.value || undefined, cursor: undefined })}>{ages.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></label>
      {!boundTo() && <ScheduleFilter schedule={schedule} />}
      <form class="row" onSubmit={add}><label class="field">Meta <input name="meta" placeholder="company=acme" aria-describedby="meta-wrong" /></label><button>Add filter</button></form>
      {meta.map(([name, value]) => <button key={name} onClick={() => refine({ [name]: undefined, cursor: undefined })} aria-label={`Remove the filter ${name.slice(5)}=${value}`} class="mono">{name.slice(5)}={value} ×</button>)}
      <span id="meta-wrong" role="status">{wrong}</span>
    </div>
  )
}

function Table({ list, again, scope }: { list: Submission[]; again: () => void; scope: string }) {
  const [chosen, choose] = useState(new Set<string>())
  const [priority, setPriority] = useState<string>()
  const action = useAction()
  const close = () => { choose(new Set()); setPriority(undefined) }
  const each = (done: string, one: (id: string) => Promise<unknown>) => action.run(async () => {
    let n = 0
    try {
      for (const id of chosen) { await one(id); n++ }
    } finally {
      say(`${exact(n)} of ${exact(chosen.size)} ${done}`)
      close()
      again()
    }
  })
  return (
    <>
      {may('operate') && <Chosen n={chosen.size} clear={close}>
        {priority === undefined ? <button onClick={() => setPriority('0')}>Priority…</button> : (
          <form class="row" onSubmit={(e) => { e.preventDefault(); void each(`now have priority ${priority}`, (id) => call('PATCH', '/v1/submissions/' + id, { priority: Number(priority) })) }}>
            <label class="field">Priority <input type="number" step="1" required value={priority} onInput={(e) => setPriority(e.currentTarget.value)} ref={(i) => { if (i && !i.dataset.seen) { i.dataset.seen = '1'; i.focus() } }} /></label><button class="main" disabled={action.busy}>Set for {exact(chosen.size)}</button>
          </form>
        )}
        <Confirm name="Cancel" button={`Cancel ${exact(chosen.size)}…`} look="danger" n={chosen.size} danger question={`Cancel ${amount(chosen.size, 'submission')}?`} run={() => each('cancelled', (id) => call('POST', `/v1/submissions/${id}/cancel`))}>
          {amount(list.filter((s) => chosen.has(s.id)).reduce((n, s) => n + leftOf(s), 0), 'chunk that is not done is', 'chunks that are not done are')} skipped for good.
        </Confirm>
      </Chosen>}
      {action.problem && <Failed problem={action.problem} />}
    <List name="Submissions" items={list} id={(s) => s.id} scope={scope} chosen={chosen} choose={may('operate') ? choose : undefined} open={(s) => link('submissions/' + s.id)}
      columns={[{ name: 'Submission' }, { name: 'Meta' }, { name: 'Progress' }, { name: 'Chunks', right: true }, { name: 'Done', right: true }, { name: 'Priority', right: true }, { name: 'State' }, { name: 'Created' }, { name: 'Actions', hidden: true }]}
      cells={(s) => [
        <td><SubmissionLink id={s.id} /></td>, <td><MetaChips meta={s.meta} /></td>, <td><Progress s={s} /></td>,
        <td class="r"><Count n={s.chunks} /></td>, <td class="r"><Count n={s.done} /></td>, <td class="r">{exact(s.priority ?? 0)}</td>,
        <td><State of={s.state} /></td>, <td class="note">{moment(s.created_at)}</td>, <td class="r">{s.state === 'open' && <Cancel s={s} done={again} />}</td>,
      ]} />
    </>
  )
}

/** A deleted submission has no page any more, so the list of the others follows. */
export function Delete({ s }: { s: Submission }) {
  return (
    <Confirm name="Delete" danger lacks={lacks('operate')} question={`Delete submission ${s.id} for good?`} run={async () => {
      await call('DELETE', `/v1/submissions/${s.id}`)
      say(`Submission ${s.id} deleted`)
      location.hash = link('submissions')
    }}>This removes its meta, contents, outputs, attempts and dead letters. Backups keep their copies. <CopyAs cli={quern('delete', s.id)} curl={curl('DELETE', `/v1/submissions/${s.id}`)} /></Confirm>
  )
}

/** Cancels after a question that says what is lost. */
export function Cancel({ s, done }: { s: Submission; done: () => void }) {
  const held = s.reserved > 0 ? ` Consumers hold ${exact(s.reserved)} of them; if a consumer completes one, the answer is gone.` : ''
  return (
    <Confirm name="Cancel" button="Cancel" danger lacks={lacks('operate')} question={`Skip ${amount(leftOf(s), 'chunk')} for good?`} run={async () => {
      await call('POST', `/v1/submissions/${s.id}/cancel`)
      say(`Submission ${s.id} cancelled`)
      done()
    }}>Unfinished chunks of submission {s.id} are skipped. {exact(s.done)} done chunks stay, with their outputs.{held}</Confirm>
  )
}
