import { useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, etagOf, curl, quern, queuePath } from '../api'
import { amount, duration, exact, moment } from '../format'
import { write } from '../json'
import { List } from '../list'
import { useLive } from '../live'
import { Who } from '../me'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { Outcome, useEdit } from '../edit'
import { Empty, Failed, MetaChips, State } from '../parts'
import { link, say } from '../state'
import { Clamp } from '../text'
import type { Attempt, Chunk as Of, DeadLetter, Diagnosis, Page, Submission } from '../types'
import { ago } from './consumers'
import { Release, said, Said } from './reservations'
import { Says } from './value'
import { Why } from './why'

/** One chunk: its state, its attempts, its output or error, and why it is not handed out. */
export function Chunk({ id, index }: { id: string; index: string }) {
  const path = `/v1/submissions/${encodeURIComponent(id)}/chunks/${encodeURIComponent(index)}`
  const chunk = useLive<Of>(path, 1)
  const sub = useLive<Submission>('/v1/submissions/' + encodeURIComponent(id), 2)
  const c = chunk.data
  const s = sub.data
  const waits = s?.state === 'open' && (c?.state === 'ready' || c?.state === 'waiting')
  const diagnosis = useLive<Diagnosis>(waits ? `/v1/submissions/${encodeURIComponent(id)}/diagnosis` : '', 3)
  const dead = c?.state === 'dead' && (s?.state === 'open' || s?.state === 'completed_with_dead')
  const last = s ? s.chunks - 1 : 0
  const at = Number(index)
  return (
    <>
      <div class="head">
        <h1>Chunk</h1><span class="mono"><a href={link('submissions/' + id)}>{id}</a> / {index}</span>{c && <State of={c.state} />}
        <div class="act">
          {at > 0 && <a class="btn" href={link(`submissions/${id}/${at - 1}`)}>Before</a>}
          {s && at < last && <a class="btn" href={link(`submissions/${id}/${at + 1}`)}>Next</a>}
          <CopyAs cli={quern('why', id, index)} curl={curl('GET', path)} />
        </div>
      </div>
      {chunk.problem && <div class="w12"><Failed problem={chunk.problem} again={chunk.again} /></div>}
      {sub.problem && !chunk.problem && <div class="w12"><Failed problem={sub.problem} again={sub.again} /></div>}
      {c && (
        <section class="card w5">
          <header><h2>State</h2></header>
          <dl class="facts">
            <dt>State</dt><dd><State of={c.state} /></dd>
            {s && <><dt>Content</dt><dd>{s.prefix !== undefined ? <code>{s.prefix}{index}</code> : s.template !== undefined ? <code>{s.template.replaceAll('{index}', index)}</code> : 'inline'}</dd></>}
            {s && <><dt>Meta</dt><dd>{s.meta ? <MetaChips meta={s.meta} /> : 'none'}</dd></>}
            <dt>Attempts</dt><dd>{exact(c.attempts)} ended{s?.max_attempts ? ` of at most ${exact(s.max_attempts)}` : ''}</dd>
            {c.consumer && <><dt>Held by</dt><dd class="mono"><Clamp text={c.consumer} most={48} href={link('consumers/' + encodeURIComponent(c.consumer))} /> · <a href={link('reservations', { submission: id })}>all reservations of the submission</a></dd></>}
            {c.held_since && <><dt>Held since</dt><dd>{[moment(c.held_since), ago(c.held_since)].filter(Boolean).join(', ')}</dd></>}
            {c.deadline && <><dt>Deadline</dt><dd>{moment(c.deadline)}</dd></>}
            {said(c) && <><dt>Progress</dt><dd><Said of={c} /></dd></>}
            {c.not_before && Date.parse(c.not_before) > Date.now() && <><dt>Not before</dt><dd>{moment(c.not_before)}</dd></>}
            {c.error && <><dt>Last error</dt><dd>{c.error}</dd></>}
          </dl>
          {s?.state === 'open' && ['ready', 'waiting', 'reserved'].includes(c.state) && (
            <Gate scope="operate">
              <p class="foot row">
                {c.state === 'reserved' && <Release h={{ submission: id, index: at, consumer: c.consumer ?? '' }} look="plain" done={() => { chunk.again(); sub.again() }} />}
                <Cancel path={path} index={index} consumer={c.consumer} done={() => { chunk.again(); sub.again() }} />
              </p>
            </Gate>
          )}
          {c.output !== undefined && <div class="foot stack"><b>Output</b><pre class="wrap" tabIndex={0}>{text(c.output)}</pre></div>}
          {dead && s && <Gate scope="operate"><Dead of={s} index={index} done={() => { chunk.again(); sub.again() }} /></Gate>}
        </section>
      )}
      {c && <section class="card w7"><Why key={`${id}/${index}`} id={id} index={index} /></section>}
      {waits && <Says read={diagnosis} letters={{ submission: id }} of="Its submission:" />}
      {c && <Tries path={`${path}/attempts`} state={c.state} />}
    </>
  )
}

/** Gives the chunk up. */
function Cancel({ path, index, consumer, done }: { path: string; index: string; consumer: string | undefined; done: () => void }) {
  const run = async () => {
    await call('POST', `${path}/cancel`)
    say(`chunk ${index} cancelled`)
    done()
  }
  return (
    <Confirm name="Cancel" danger look="plain" question={`Cancel chunk ${index}?`} run={run}>
      The chunk becomes skipped and is not handed out again. The other chunks of its submission go on.{consumer !== undefined && <> {consumer} loses it.</>}
    </Confirm>
  )
}

/** An output as it was written: text, or base64 for other bytes. */
export function text(output: unknown): string {
  if (typeof output === 'string') return output
  if (output && typeof output === 'object' && 'text' in output) return String((output as { text: string }).text)
  if (output && typeof output === 'object' && 'base64' in output) return 'base64 ' + String((output as { base64: string }).base64)
  return write(output)
}

function Tries({ path, state }: { path: string; state: string }) {
  const list = useLive<Page<Attempt>>(path, 2)
  const items = list.data?.items.map((a, i) => ({ ...a, number: i + 1 }))
  return (
    <section class="card w12">
      <header><h2>Ended attempts</h2><small>{items && items.length > 0 ? 'the last 10, over all redrives' : ''}</small></header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {items?.length === 0 && <Empty>{state === 'done' ? 'It is done. A finished chunk has no history.' : 'No attempt has failed or run out of time.'}</Empty>}
      {items && items.length > 0 && (
        <List name="Ended attempts" items={items} id={(a) => `${a.number} ${a.ended_at}`} scope={path}
          columns={[{ name: 'Attempt', right: true }, { name: 'Ended' }, { name: 'How' }, { name: 'Consumer' }, { name: 'Held for', right: true }, { name: 'Error' }]}
          cells={(a) => [<td class="r">{a.number}</td>, <td class="note">{moment(a.ended_at)}</td>, <td>{a.expired ? <State of="expired" /> : <State of="failed" />}</td>, <td class="mono"><Clamp text={a.consumer ?? ''} /></td>, <td class="r">{a.held_ms < 1000 ? `${a.held_ms} ms` : duration(a.held_ms / 1000)}</td>, <td class="wrap error">{a.error ?? (a.expired ? <span class="note">its deadline passed</span> : <span class="note">none reported</span>)}</td>]} />
      )}
    </section>
  )
}

/** The actions on a chunk that is out of attempts. */
function Dead({ of, index, done }: { of: Submission; index: string; done: () => void }) {
  const path = `${queuePath(of.queue)}/dead-letters/${of.id}/${index}`
  const letter = useLive<DeadLetter>(path, 5)
  return (
    <div class="stack foot">
      <p class="row">
        <Confirm name="Redrive" button="Redrive" look="main" question="Redrive this chunk?" run={async () => { await call('POST', `${path}/redrive`); say('It is ready again, with its attempts reset'); done() }}>1 chunk becomes ready at once. Its attempts are reset, so it gets as many as a new one.</Confirm>
        <Confirm name="Delete" danger question="Delete this dead letter for good?" run={async () => { await call('DELETE', path); say('It is deleted, and counts as skipped'); done() }}>This deletes its error and its history. Its submission counts it as skipped.</Confirm>
        {letter.data && <a href={link('dead-letters', { fingerprint: letter.data.fingerprint })}>All with this error</a>}
      </p>
      {letter.data && <small>It died {letter.data.died_at ? moment(letter.data.died_at) : ''}, after {amount(letter.data.attempts, 'attempt')} ({exact(letter.data.expiries)} ended by the deadline); redriven {amount(letter.data.redrives, 'time')} before.</small>}
      {letter.data?.content !== undefined && <Content key={path} path={path} content={letter.data.content} chunk={`${of.id}/${index}`} queue={of.queue} done={letter.again} />}
      <CopyAs cli={quern('dead', 'redrive', `${of.id}/${index}`, '--queue', of.queue)} curl={curl('POST', `${path}/redrive`)} />
    </div>
  )
}

/** The inline content of a dead chunk, which can be changed before it is tried again. Content that is not text is only shown; it can be
 * changed on the command line. */
function Content({ path, content, chunk, queue, done }: { path: string; content: NonNullable<DeadLetter['content']>; chunk: string; queue: string; done: () => void }) {
  const [draft, setDraft] = useState<string>()
  const edit = useEdit({
    now: { fields: { content: 'text' in content ? content.text : undefined } }, changes: draft === undefined ? {} : { content: draft }, looks: true,
    log: { queue, action: 'dead_letter.change', target: 'submission ' + chunk.replace('/', ' chunk ') },
    read: async () => {
      const letter = await call<DeadLetter>('GET', path)
      return { fields: { content: letter.content && 'text' in letter.content ? letter.content.text : letter.content }, etag: etagOf(letter) }
    },
    put: async (fields, guard) => { await call('PUT', `${path}/content`, { text: fields['content'] }, guard); return { fields } },
    done: (_, saved) => {
      if (saved) say('The content is changed. The chunk is dead until you redrive it.')
      setDraft(undefined)
      done()
    },
  })
  const cli = quern('dead', 'edit', chunk, '--queue', queue, '--file', 'FILE')
  if (!('text' in content)) return <div class="stack"><b>Content</b><small>It is no text. Change it with <code>{cli}</code></small></div>
  return (
    <div class="stack" role="region" aria-label="Content">
      <b>Content</b>
      {draft === undefined ? (
        <>
          <pre class="wrap" tabIndex={0}>{content.text}</pre>
          <p class="row"><button onClick={() => setDraft(content.text)}>Change the content…</button></p>
        </>
      ) : (
        <form class="stack" onSubmit={(e) => { e.preventDefault(); void edit.save() }}>
          <label class="field">New content, at most 64 KiB<textarea class="mono" rows={8} value={draft} onInput={(e) => setDraft(e.currentTarget.value)} /></label>
          <Who required />
          <p class="row"><button class="main" disabled={edit.busy || draft === content.text}>Save the content</button><button type="button" onClick={() => { setDraft(undefined); edit.clear() }}>Keep as it is</button></p>
          <Outcome edit={edit} />
          <small>The audit log keeps both. Other chunks keep their content.</small>
        </form>
      )}
    </div>
  )
}
