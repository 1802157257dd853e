import { useState } from 'preact/hooks'
import { call, curl, shell } from '../api'
import { exact, metaList, moment, percent, shown } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { CopyAs, Count, Failed, Mark, Typed } from '../parts'
import { queue, say } from '../state'
import type { BulkOperation, DeadFilter, Meta, Page } from '../types'

const path = '/v1/bulk-operations'

/** Redrives or deletes all dead letters that a filter means, at a pace. More than a hundred want their number typed. */
export function Start({ filter, known, done }: { filter: DeadFilter; known: number | undefined; done: () => void }) {
  const [rate, setRate] = useState('')
  const [asked, setAsked] = useState<'redrive' | 'delete'>()
  const action = useAction()
  const of = queue.value
  const all = Object.keys(filter).length === 0
  const body = (verb: string) => ({ queue: of, action: verb, filter, rate_per_second: Number(rate) || 0 })
  const start = (verb: 'redrive' | 'delete') => action.run(async () => {
    await call<BulkOperation>('POST', path, body(verb))
    setAsked(undefined)
    say(verb === 'redrive' ? 'Redriving; its progress stands below' : 'Deleting; its progress stands below')
    done()
  })
  const n = known ?? 0
  return (
    <>
      <header><h2>{all ? 'All of them' : 'All that the filter means'}</h2><CopyAs cli={shell('quern', 'dead', 'redrive', '--all', '--queue', of, ...(filter.submission ? ['--submission', filter.submission] : []), ...(filter.fingerprint ? ['--fingerprint', filter.fingerprint] : []), ...(rate ? ['--rate', rate] : []))} curl={curl('POST', path, body('redrive'))} /></header>
      <div class="stack">
        <p><b class="big"><Count n={n} /></b> dead {n === 1 ? 'chunk' : 'chunks'}{filter.fingerprint ? ' with this error' : ''}{filter.submission ? ` of submission ${filter.submission}` : ''}</p>
        <label class="field">At most <input type="number" min="0" step="1" placeholder="no limit" value={rate} onInput={(e) => setRate(e.currentTarget.value)} /> chunks a second</label>
        {asked ? (
          <Typed name={asked === 'redrive' ? 'Redrive' : 'Delete'} n={n} danger={asked === 'delete'} busy={action.busy} leave={() => setAsked(undefined)} run={() => void start(asked)}>
            {asked === 'redrive' ? `${exact(n)} chunks are offered again, with no try counted. More may have died by then.` : `${exact(n)} chunks are given up for good and count as skipped.`}
          </Typed>
        ) : <div class="row"><button class="main" disabled={n === 0} onClick={() => setAsked('redrive')}>Redrive {exact(n)}…</button><button class="danger" disabled={n === 0} onClick={() => setAsked('delete')}>Delete {exact(n)}…</button></div>}
        {action.problem && <Failed problem={action.problem} />}
        <small>Those that die later are not meant. What an operation did stays done when it is stopped.</small>
      </div>
    </>
  )
}

const marks: Record<string, string> = { running: 'reserved', completed: 'done', cancelled: 'skipped', failed: 'dead' }

/** The operations on many at once, how far they got, and the way to stop them. */
export function Operations({ queue: name, of }: { queue: string; of: string[] }) {
  const list = useLive<Page<BulkOperation>>(path, 1)
  const items = (list.data?.items ?? []).filter((b) => b.queue === name && of.includes(b.action) && !b.dry_run).slice(0, 10)
  if (list.problem) return <div class="w12"><Failed problem={list.problem} again={list.again} /></div>
  if (items.length === 0) return null
  return (
    <section class="card w12">
      <header><h2>Operations</h2><small>the newest first</small></header>
      <List name="Operations" items={items} id={(b) => b.id} scope={name} keys={false}
        columns={[{ name: 'What' }, { name: 'State' }, { name: 'Done of those met' }, { name: 'Done', right: true }, { name: 'Refused', right: true }, { name: 'Pace' }, { name: 'Started' }, { name: 'Actions', hidden: true }]}
        cells={(b) => [
          <td><b>{b.action}</b>{b.to && <> to {b.to}</>}{b.priority !== undefined && <> to {b.priority}</>} {chips(b).map((text) => <span class="chip" key={text}>{text}</span>)}{chips(b).length === 0 && <span class="note">all</span>}</td>,
          <td><span class="state"><Mark of={marks[b.state] ?? 'zero'} />{b.state}</span>{b.failure && <p class="note">{b.failure}</p>}</td>,
          <td><div class="bar" role="img" aria-label={`${exact(b.done)} of ${exact(b.matched)} met`}><i class="done" style={{ width: `${percent(b.done, b.matched)}%` }} /><i class="ready" style={{ width: `${percent(b.unchanged ?? 0, b.matched)}%` }} /><i class="skipped" style={{ width: `${percent(b.refused, b.matched)}%` }} /></div></td>,
          <td class="r"><Count n={b.done} /> <span class="note">of <Count n={b.matched} /></span></td>, <td class="r"><Count n={b.refused} /></td>,
          <td class="note">{b.rate_per_second > 0 ? `at most ${exact(b.rate_per_second)}/s` : 'as fast as it goes'}</td>, <td class="note">{moment(b.created_at)}</td>,
          <td class="r">{b.state === 'running' && <Stop b={b} done={list.again} />}</td>,
        ]} />
    </section>
  )
}

/** The filter of an operation, a piece for each part. */
function chips(b: BulkOperation): string[] {
  return Object.entries(b.filter ?? {}).flatMap(([k, v]) => (k === 'meta' ? metaList(v as Meta).map(([key, value]) => `${key}=${shown(value)}`) : [`${k}=${String(v)}`]))
}

function Stop({ b, done }: { b: BulkOperation; done: () => void }) {
  const action = useAction()
  return (
    <>
      <button class="danger" disabled={action.busy} onClick={() => void action.run(async () => { const now = await call<BulkOperation>('POST', `${path}/${encodeURIComponent(b.id)}/cancel`); say(`Stopped after ${exact(now.done)}`); done() })}>Stop</button>
      {action.problem && <Failed problem={action.problem} />}
    </>
  )
}
