import { useEffect, useRef } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, quern } from '../api'
import { clamped, duration, exact, moment, visible } from '../format'
import { List } from '../list'
import { useAction, useLive, type Live } from '../live'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { Empty, Failed, Mark, SubmissionLink } from '../parts'
import { may } from '../session'
import { link, queue, refine, route, say } from '../state'
import { schedules, stats, useTopic } from '../stream'
import { nameLength } from '../text'
import { undoOf } from '../undo'
import type { Emission, Page, Schedule, SchedulesFrame, Submission } from '../types'
import { Backfill } from './schedule-backfill'
import { Editor } from './schedule-form'
import { base, cli, one } from './schedule-paths'

const marks: Record<string, string> = { active: 'done', paused: 'skipped', held: 'skipped', finished: 'zero', broken: 'dead' }
const states = ['active', 'paused', 'held', 'finished', 'broken']

export function Schedules() {
  const q = route.value.query
  useTopic('schedules')
  const frame = schedules.value
  const list = useLive<Page<Schedule>>(`${base()}?limit=1000`, frame?.left === 0 ? 0 : 2)
  useChanges(list, frame)
  const chosen = q.get('name') ?? ''
  const find = (q.get('find') ?? '').toLowerCase()
  const state = q.get('state') ?? ''
  const moving = new Map(frame?.items.map((now) => [now.name, now]))
  const all = (list.data?.items ?? []).map((i) => ({ ...i, ...(moving.get(i.name)?.version === i.version ? moving.get(i.name) : {}) }))
  const items = all.filter((i) => i.name.toLowerCase().includes(find) && (!state || i.state === state))
  const s = all.find((i) => i.name === chosen)
  return (
    <>
      <div class="head"><h1>Schedules</h1><span>submissions that the server inserts by the clock</span>
        <div class="act">{chosen && may('operate') && <button onClick={() => refine({ name: undefined })}>New schedule</button>}<CopyAs cli={cli('list')} curl={curl('GET', base())} /></div>
      </div>
      <section class="card w12">
        <header>
          <div class="row"><h2>In this queue</h2><small>{list.data ? `${exact(items.length)} of ${exact(all.length)}` : ''}</small></div>
          {all.length > 0 && (
            <div class="row">
              <label class="field">Find <input type="search" value={q.get('find') ?? ''} placeholder="a part of its name" onInput={(e) => refine({ find: e.currentTarget.value || undefined })} /></label>
              <label class="field">State <select value={state} onChange={(e) => refine({ state: e.currentTarget.value || undefined })}><option value="">any</option>{states.map((t) => <option key={t}>{t}</option>)}</select></label>
            </div>
          )}
        </header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!list.data && !list.problem && <p class="note">Reading…</p>}
        {list.data && all.length === 0 && <Empty command={quern('schedules', 'set', 'nightly', '--queue', queue.value, '--spec', '30 2 * * *', '--tz', 'Europe/Amsterdam', '--count', 100, '--template', 'part {index}', '--meta', 'kind=nightly')}>No schedules. A schedule inserts a submission at every tick, also across daylight saving time and restarts.</Empty>}
        {all.length > 0 && items.length === 0 && <Empty>{all.length === 1 ? 'The only schedule does not match.' : `None of the ${exact(all.length)} schedules matches.`}</Empty>}
        {items.length > 0 && (
          <List name="Schedules" items={items} id={(i) => i.name} scope={queue.value + find + state} marked={chosen} open={(i) => link('schedules', { name: i.name, find, state })}
            columns={[{ name: 'Schedule' }, { name: 'When' }, { name: 'State' }, { name: 'Next' }, { name: 'Last' }, { name: 'Lately', title: 'results of its last submissions, the newest at the right' }, { name: 'Inserted', right: true }, { name: 'Skipped', right: true }, { name: 'Actions', hidden: true }]}
            cells={(i) => [
              <td class="name"><button class="link" title={i.name} onClick={() => refine({ name: i.name })}>{clamped(visible(i.name), nameLength)}</button></td>, <td class="wrap when">{i.description}<div class="note mono">{i.definition.spec}</div></td>,
              <td class="wrap"><span class="state"><Mark of={marks[i.state] ?? 'zero'} />{i.state}</span>{i.reason && <p class="note">{i.reason}</p>}</td>,
              <td class="note"><Next s={i} /></td>,
              <td class="note">{i.last_at ? <>{moment(i.last_at)}{i.last_submission && <div><SubmissionLink id={i.last_submission} /></div>}</> : 'never'}</td>,
              <td><Spark of={i.recent} /></td>,
              <td class="r">{exact(i.emitted)}</td>, <td class="r" title={`${i.skipped_missed} missed, ${i.skipped_late} late, ${i.skipped_overlap} while the last one ran`}>{exact(i.skipped_missed + i.skipped_late + i.skipped_overlap)}</td>,
              <td class="r"><Gate scope="operate"><Acts s={i} done={list.again} /></Gate></td>,
            ]} />
        )}
      </section>
      {chosen && list.data && !s && <section class="card w12"><Empty command={cli('list')}>There is no schedule “{chosen}” in this queue.</Empty></section>}
      {s && <Lately key={s.name} s={s} />}
      {(!chosen || s) && may('operate') && <Editor key={s?.name ?? 'new'} s={s} done={list.again} />}
      {s && may('operate') && <Backfill key={'backfill ' + s.name} s={s} done={list.again} />}
    </>
  )
}

const seen = (of: SchedulesFrame) => of.items.map((now) => [now.name, now.version, now.newest, now.newest_state, now.open].join(' ')).join('\n')

/** Reads the list again when the stream shows a change that the list lacks: another definition, or another end of a submission. */
function useChanges(list: Live<Page<Schedule>>, frame: SchedulesFrame | null) {
  const known = useRef<string | undefined>(undefined)
  const now = frame ? seen(frame) : undefined
  useEffect(() => {
    if (now === undefined || now === known.current) return
    known.current = now // the first frame counts too: it may know more than the list that was read before it
    list.refresh()
  }, [now])
}

function Next({ s }: { s: Schedule }) {
  const now = stats.value ? Date.parse(stats.value.at) : 0
  if (s.waiting_at) return <>waits for the last one</>
  if (s.state === 'paused') return <>none while it is paused</>
  if (!s.next_at) return <>—</>
  if (s.state !== 'active') return <>none while it is {s.state}</>
  return <>{moment(s.next_at)}{now > 0 && <div>in {duration(Math.max(0, Date.parse(s.next_at) - now) / 1000)}</div>}</>
}

const outcome: Record<string, string> = { open: 'reserved', completed: 'done', completed_with_dead: 'dead', failed: 'dead', cancelled: 'skipped', expired: 'skipped' }

const counted = (of: Emission[]) => [...new Set(of.map((e) => e.state))].map((state) => `${exact(of.filter((e) => e.state === state).length)} ${state.replaceAll('_', ' ')}`).join(', ')

/** The last submissions, the newest at the right: not by colour alone, one that did not succeed is lower and hatched, and an open one is
 * hollow. */
function Spark({ of }: { of: Emission[] }) {
  if (of.length === 0) return <span class="note">nothing since the start</span>
  return (
    <div class="spark" role="img" aria-label={`The last ${exact(of.length)}: ${counted(of)}`}>
      {of.map((e) => <i key={e.submission} class={`${outcome[e.state] ?? 'zero'} ${e.state}`} title={`${moment(e.at)}: ${e.state.replaceAll('_', ' ')}`} />)}
    </div>
  )
}

/** The last submissions of the schedule, each with its state. */
function Lately({ s }: { s: Schedule }) {
  const last = s.recent.at(-1)
  return (
    <section class="card w12">
      <header><div class="row"><h2>What {s.name} inserted</h2><small>the last 24, by ticks, triggers and backfills; after a restart of the server, the open ones</small></div><CopyAs cli={cli('show', s.name)} curl={curl('GET', one(s.name))} /></header>
      {!last && <Empty command={cli('trigger', s.name)}>It has inserted nothing since the server started. Trigger it to insert once now.</Empty>}
      {last && (
        <div class="stack">
          <p>The last one, for {moment(last.at)}, is <span class="state"><Mark of={outcome[last.state] ?? 'zero'} /><b>{last.state.replaceAll('_', ' ')}</b></span>: <SubmissionLink id={last.submission} />. Of the last {exact(s.recent.length)}: {counted(s.recent)}.</p>
          <ol class="runs">{s.recent.map((e) => <li key={e.submission}><a href={link('submissions/' + e.submission)} title={moment(e.at)} aria-label={`Submission ${e.submission}, for ${moment(e.at)}: ${e.state.replaceAll('_', ' ')}`}><i class={`${outcome[e.state] ?? 'zero'} ${e.state}`} /></a></li>)}</ol>
          <div class="legend"><span><Mark of="done" />completed</span><span><Mark of="reserved" />open</span><span><Mark of="dead" />failed, or with dead chunks</span><span><Mark of="skipped" />cancelled or expired</span></div>
        </div>
      )}
    </section>
  )
}

function Acts({ s, done }: { s: Schedule; done: () => void }) {
  const action = useAction()
  const of = queue.value
  const run = (fn: () => Promise<string>) => void action.run(async () => { say(await fn()); done() })
  const paused = s.state === 'paused'
  const toggle = async () => {
    const verb = paused ? 'resume' : 'pause'
    await call('POST', `${one(s.name)}/${verb}`)
    say(`${s.name} ${paused ? 'resumed' : 'paused'}`, undoOf({ action: 'schedule.' + verb, queue: of, target: 'schedule ' + s.name }))
    done()
  }
  return (
    <div class="row end">
      <button class="quiet" disabled={action.busy} aria-label={`Trigger ${s.name}`} onClick={() => run(async () => `${s.name} inserted ${(await call<Submission>('POST', `${one(s.name)}/trigger`)).id}`)}>Trigger</button>
      <button class="quiet" disabled={action.busy} aria-label={`${paused ? 'Resume' : 'Pause'} ${s.name}`} onClick={() => void action.run(toggle)}>{paused ? 'Resume' : 'Pause'}</button>
      <Confirm name="Delete" label={`Delete ${s.name}`} danger question={`Delete ${s.name}?`} run={async () => { await call('DELETE', one(s.name), undefined, { 'If-Match': s.etag }); refine({ name: undefined }); say(`${s.name} deleted`); done() }}>It inserts nothing any more. The {exact(s.emitted)} that it inserted stay.</Confirm>
      {action.problem && <Failed problem={action.problem} />}
    </div>
  )
}
