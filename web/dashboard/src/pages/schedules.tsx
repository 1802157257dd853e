import { useEffect, useState } from 'preact/hooks'
import { Problem, call, curl, queuePath, shell } from '../api'
import { duration, exact, moment } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { Copy, CopyAs, Empty, Failed, Mark, MetaChips, SubmissionLink, Sure } from '../parts'
import { link, queue, refine, route, say } from '../state'
import { stats } from '../stream'
import type { Page, Schedule, ScheduleDefinition, SchedulePreview, Submission } from '../types'

const marks: Record<string, string> = { active: 'done', paused: 'skipped', held: 'skipped', finished: 'zero', broken: 'dead' }
const base = () => `${queuePath(queue.value)}/schedules`
const one = (name: string) => `${base()}/${encodeURIComponent(name)}`

export function Schedules() {
  const list = useLive<Page<Schedule>>(`${base()}?limit=1000`, 2)
  const chosen = route.value.query.get('name') ?? ''
  const s = list.data?.items.find((i) => i.name === chosen)
  const now = stats.value ? Date.parse(stats.value.at) : 0
  return (
    <>
      <div class="head"><h1>Schedules</h1><span>what is inserted by the clock</span>
        <div class="act">{chosen && <button onClick={() => refine({ name: undefined })}>New schedule</button>}<Copy text={curl('GET', base())} name="Copy curl" /></div>
      </div>
      <section class="card w12">
        <header><h2>In this queue</h2><small>{list.data ? exact(list.data.items.length) : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!list.data && !list.problem && <p class="note">Reading…</p>}
        {list.data?.items.length === 0 && <Empty command={curl('PUT', `${base()}/nightly`, { spec: '30 2 * * *', tz: 'Europe/Amsterdam', template: { meta: { kind: 'nightly' }, chunks: { count: 100, template: 'part {index}' } } })}>Nothing is inserted by the clock here. A schedule inserts a submission at every tick, on time also across summer time and restarts.</Empty>}
        {list.data && list.data.items.length > 0 && (
          <List name="Schedules" items={list.data.items} id={(i) => i.name} scope={queue.value} marked={chosen} open={(i) => link('schedules', { name: i.name })}
            columns={[{ name: 'Schedule' }, { name: 'When' }, { name: 'State' }, { name: 'Next' }, { name: 'Last' }, { name: 'Inserted', right: true }, { name: 'Skipped', right: true }, { name: 'Actions', hidden: true }]}
            cells={(i) => [
              <td><button class="link" onClick={() => refine({ name: i.name })}>{i.name}</button></td>, <td class="wrap">{i.description}<div class="note mono">{i.definition.spec} {i.definition.tz}</div></td>,
              <td><span class="state"><Mark of={marks[i.state] ?? 'zero'} />{i.state}</span>{i.reason && <p class="note">{i.reason}</p>}</td>,
              <td class="note">{i.next_at ? <>{moment(i.next_at)}{now > 0 && <div>in {duration(Math.max(0, Date.parse(i.next_at) - now) / 1000)}</div>}</> : '—'}</td>,
              <td class="note">{i.last_at ? <>{moment(i.last_at)}{i.last_submission && <div><SubmissionLink id={i.last_submission} /></div>}</> : 'never'}</td>,
              <td class="r">{exact(i.emitted)}</td>, <td class="r" title={`${i.skipped_missed} missed, ${i.skipped_late} late, ${i.skipped_overlap} while the one before ran`}>{exact(i.skipped_missed + i.skipped_late + i.skipped_overlap)}</td>,
              <td class="r"><Acts s={i} done={list.again} /></td>,
            ]} />
        )}
      </section>
      {(!chosen || s) && <Editor key={s ? `${s.name} ${s.version}` : 'new'} s={s} done={list.again} />}
    </>
  )
}

function Acts({ s, done }: { s: Schedule; done: () => void }) {
  const action = useAction()
  const run = (fn: () => Promise<string>) => void action.run(async () => { say(await fn()); done() })
  const paused = s.state === 'paused'
  return (
    <div class="row end">
      <button class="quiet" disabled={action.busy} aria-label={`Trigger ${s.name}`} onClick={() => run(async () => `${s.name} inserted ${(await call<Submission>('POST', `${one(s.name)}/trigger`)).id}`)}>Trigger</button>
      <button class="quiet" disabled={action.busy} aria-label={`${paused ? 'Resume' : 'Pause'} ${s.name}`} onClick={() => run(async () => { await call('POST', `${one(s.name)}/${paused ? 'resume' : 'pause'}`); return `${s.name} is ${paused ? 'active again' : 'paused'}` })}>{paused ? 'Resume' : 'Pause'}</button>
      <Sure name="Delete" question={`Delete ${s.name}?`} disabled={action.busy} run={() => run(async () => { await call('DELETE', one(s.name), undefined, { 'If-Match': s.etag }); refine({ name: undefined }); return `${s.name} is deleted` })} />
      {action.problem && <Failed problem={action.problem} />}
    </div>
  )
}

const first: ScheduleDefinition = { spec: '30 2 * * *', tz: 'UTC', template: { meta: { kind: 'nightly' }, chunks: { count: 100, template: 'part {index}' } } }

/** When and what: the time is read in plain words while it is written, and what is inserted is JSON as for an insert. */
function Editor({ s, done }: { s: Schedule | undefined; done: () => void }) {
  const action = useAction()
  const from = s?.definition ?? first
  const [name, setName] = useState(s?.name ?? '')
  const [spec, setSpec] = useState(from.spec)
  const [tz, setTZ] = useState(from.tz ?? 'UTC')
  const [missed, setMissed] = useState(from.missed ?? 'once')
  const [overlap, setOverlap] = useState(from.overlap ?? 'allow')
  const [template, setTemplate] = useState(JSON.stringify(from.template, null, 2))
  const [wrong, setWrong] = useState('')
  let body: ScheduleDefinition | undefined
  try { body = { ...from, spec, tz, missed, overlap, template: JSON.parse(template) as ScheduleDefinition['template'] } } catch { /* said below when it is saved */ }
  const save = (e: SubmitEvent) => {
    e.preventDefault()
    if (!body) return setWrong('What is inserted is no JSON.')
    setWrong('')
    void action.run(async () => {
      const now = await call<Schedule>('PUT', one(name), body, s ? { 'If-Match': s.etag } : { 'If-None-Match': '*' })
      say(`${now.name}: ${now.description}`)
      refine({ name: now.name })
      done()
    })
  }
  return (
    <>
      <section class="card w7">
        <header><h2>{s ? `Change ${s.name}` : 'New schedule'}</h2>{body && <CopyAs cli={shell('curl', '-X', 'PUT', location.origin + one(name || 'nightly'), '-d', JSON.stringify(body))} curl={curl('PUT', one(name || 'nightly'), body)} />}</header>
        <form class="stack" onSubmit={save}>
          <div class="fields">
            {!s && <label class="stack tight">Name<input required pattern="[A-Za-z0-9_.\-]+" maxLength={64} value={name} placeholder="nightly" onInput={(e) => setName(e.currentTarget.value)} /></label>}
            <label class="stack tight">When<input class="mono" required value={spec} onInput={(e) => setSpec(e.currentTarget.value)} aria-describedby="spec-help" /></label>
            <label class="stack tight">Time zone<input required value={tz} list="zones" onInput={(e) => setTZ(e.currentTarget.value)} /></label>
            <label class="stack tight">Ticks missed while down<select value={missed} onChange={(e) => setMissed(e.currentTarget.value)}><option value="once">one is made up for</option><option value="skip">are skipped</option><option value="all">are all made up for</option></select></label>
            <label class="stack tight">While the one before runs<select value={overlap} onChange={(e) => setOverlap(e.currentTarget.value)}><option value="allow">insert all the same</option><option value="skip">skip</option><option value="buffer_one">one waits</option></select></label>
          </div>
          <datalist id="zones">{zones.map((z) => <option key={z} value={z} />)}</datalist>
          <small id="spec-help">Five fields (minute, hour, day, month, weekday), @hourly to @yearly, @every 90s, or @at 2026-03-29T02:30:00Z.</small>
          <label class="stack tight">What is inserted, as JSON<textarea rows={7} spellcheck={false} value={template} onInput={(e) => setTemplate(e.currentTarget.value)} /></label>
          <div class="row"><button class="main" disabled={action.busy}>{s ? 'Save' : 'Create'}</button><span role="status">{wrong}</span>{s && <MetaChips meta={s.definition.template.meta} />}</div>
          {action.problem && <Failed problem={action.problem} />}
        </form>
      </section>
      <section class="card w5"><Preview spec={spec} tz={tz} /></section>
    </>
  )
}

const zones = ['UTC', 'Europe/London', 'Europe/Amsterdam', 'Europe/Berlin', 'America/New_York', 'America/Chicago', 'America/Los_Angeles', 'America/Sao_Paulo', 'Asia/Kolkata', 'Asia/Shanghai', 'Asia/Tokyo', 'Australia/Sydney']

/** What the text means, asked a moment after the last key. */
function Preview({ spec, tz }: { spec: string; tz: string }) {
  const [answer, setAnswer] = useState<SchedulePreview>()
  const [problem, setProblem] = useState<Problem>()
  const path = `${base()}/preview`
  useEffect(() => {
    const ended = new AbortController()
    const timer = setTimeout(() => {
      call<SchedulePreview>('POST', path, { spec, tz, n: 5 }, {}, ended.signal).then((a) => { setAnswer(a); setProblem(undefined) }, (p) => { if (!ended.signal.aborted) { setProblem(p); setAnswer(undefined) } })
    }, 250)
    return () => { clearTimeout(timer); ended.abort() }
  }, [spec, tz, path])
  return (
    <>
      <header><h2>The next five</h2><Copy text={curl('POST', path, { spec, tz, n: 5 })} name="Copy curl" /></header>
      {problem && <Failed problem={problem} />}
      {answer && (
        <div class="stack" role="status">
          <p class="plain">{answer.description}</p>
          {answer.ticks.length === 0 ? <p>It is never due again.</p> : <ol class="ticks">{answer.ticks.map((t) => <li key={t.at}><b class="mono">{t.local}</b><span class="note">{answer.tz} · {moment(t.at)} here</span></li>)}</ol>}
        </div>
      )}
    </>
  )
}
