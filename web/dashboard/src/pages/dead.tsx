import { useMemo, useState } from 'preact/hooks'
import { Gate } from '../access'
import { call, curl, quern, queuePath, valueOf, valueText } from '../api'
import { amount, clamped, exact, metaList, moment, percent, visible } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { Chosen, Count, Empty, Failed } from '../parts'
import { may } from '../session'
import { link, queue, refine, route, say } from '../state'
import { stats } from '../stream'
import { Clamp, Expand } from '../text'
import type { BulkFilter, DeadGroup, DeadGroups, DeadLetter, Page } from '../types'
import { filterFlags, Operations, Start, ToQueue, type Verb } from './bulk'

/** Since when a letter may have died: the word in the address, the label, and the seconds. */
const ages: [string, string, number][] = [['', 'at any time', 0], ['15m', 'in the last 15 min', 900], ['1h', 'in the last hour', 3600], ['24h', 'in the last day', 86400]]

/** The filter that the address names, apart from the time. */
function filterOf(q: URLSearchParams): BulkFilter {
  const of: BulkFilter = {}
  for (const name of ['submission', 'fingerprint'] as const) if (q.get(name)) of[name] = q.get(name)!
  const meta = [...q].filter(([name]) => name.startsWith('meta.'))
  if (meta.length > 0) of.meta = Object.fromEntries(meta.map(([name, text]) => [name.slice(5), valueOf(text)]))
  return of
}

/** The filter as parameters of the address, apart from the time. */
function parameters({ meta, submission, fingerprint }: BulkFilter): Record<string, string> {
  return { ...(submission ? { submission } : {}), ...(fingerprint ? { fingerprint } : {}), ...Object.fromEntries(metaList(meta).map(([key, value]) => ['meta.' + key, valueText(value)])) }
}

const deadPath = (d: DeadLetter) => `${queuePath(queue.value)}/dead-letters/${d.submission}/${d.index}`

/** The filter as a list is asked for it. */
const asked = (f: BulkFilter, more = {}) => new URLSearchParams({ ...parameters(f), ...(f.died_after ? { died_after: f.died_after } : {}), ...more })

export function DeadLetters() {
  const died = route.value.query.get('died') ?? ''
  // The moment stays what it was when the time was chosen, so that a redrive means the same letters that were counted.
  const died_after = useMemo(() => {
    const age = ages.find(([word]) => word === died)?.[2]
    return age ? new Date((stats.value ? Date.parse(stats.value.at) : Date.now()) - age * 1000).toISOString() : undefined
  }, [died])
  const [question, setQuestion] = useState<Verb>()
  const filter = { ...filterOf(route.value.query), ...(died_after ? { died_after } : {}) }
  const query = asked(filter)
  const base = `${queuePath(queue.value)}/dead-letters`
  const groups = useLive<DeadGroups>(`${base}/groups?${asked({ ...filter, fingerprint: undefined })}`, 4)
  const letters = stats.value?.stats.dead_letters
  const known = groups.data?.items.filter((g) => !filter.fingerprint || g.fingerprint === filter.fingerprint).reduce((n, g) => n + g.count, filter.fingerprint ? 0 : groups.data.others)
  return (
    <>
      <div class="head"><h1>Dead letters</h1><span>chunks without attempts left, until you redrive or delete them</span>
        <div class="act"><CopyAs cli={quern('dead', 'list', '--queue', queue.value, ...filterFlags(filter))} curl={curl('GET', `${base}?${query}`)} /></div>
      </div>
      <section class={may('operate') ? 'card w8' : 'card w12'}>
        <header><h2>By error</h2><small>{groups.data ? `${amount(groups.data.items.length, 'kind')} of error${groups.data.others ? `, and ${amount(groups.data.others, 'letter')} of more kinds` : ''}` : ''}</small></header>
        {groups.problem && <Failed problem={groups.problem} again={groups.again} />}
        {groups.data?.items.length === 0 && <Empty command={quern('dead', 'groups', '--queue', queue.value)}>{letters ? 'None of the dead letters fits the filter.' : 'No dead letters in this queue.'}</Empty>}
        {groups.data && groups.data.items.length > 0 && <Groups list={groups.data.items} others={groups.data.others} chosen={filter.fingerprint} redrive={(fingerprint) => { refine({ fingerprint, cursor: undefined }); setQuestion('redrive') }} />}
      </section>
      <Gate scope="operate"><section class="card w4"><Start filter={filter} known={known} asked={question} setAsked={setQuestion} done={groups.again} /></section></Gate>
      <Operations queue={queue.value} of={['redrive', 'delete', 'forward']} />
      <Letters filter={filter} base={base} changed={groups.again} />
    </>
  )
}

function Groups({ list, others, chosen, redrive }: { list: DeadGroup[]; others: number; chosen: string | undefined; redrive: (fingerprint: string) => void }) {
  const all = others + list.reduce((n, g) => n + g.count, 0)
  return (
    <List name="Groups of dead letters" items={list} id={(g) => g.fingerprint} scope="" keys={false} marked={chosen}
      columns={[{ name: 'Error, without what varies' }, { name: 'Share' }, { name: 'Chunks', right: true }, { name: 'Submissions', right: true }, { name: 'Actions', hidden: true }]}
      cells={(g) => [
        <td class="wrap"><button class="link" aria-pressed={g.fingerprint === chosen} title={g.example} onClick={() => refine({ fingerprint: g.fingerprint === chosen ? undefined : g.fingerprint, cursor: undefined })}>{g.pattern || 'no error reported'}</button>{g.last_died_at && <p class="note">last died {moment(g.last_died_at)}</p>}</td>,
        <td><div class="gauge"><div class="bar" aria-hidden="true"><i class="dead" style={{ width: `${percent(g.count, all)}%` }} /></div><span>{percent(g.count, all).toFixed(1)} %</span></div></td>,
        <td class="r"><Count n={g.count} /></td>, <td class="r"><Count n={g.submissions} /></td>,
        <td class="r"><Gate scope="operate"><button class="quiet" aria-label={`Redrive group ${g.fingerprint}`} onClick={() => redrive(g.fingerprint)}>Redrive…</button></Gate></td>,
      ]} />
  )
}

function Letters({ filter, base, changed }: { filter: BulkFilter; base: string; changed: () => void }) {
  const cursor = route.value.query.get('cursor') ?? ''
  const query = asked(filter, { limit: '50', ...(cursor ? { cursor } : {}) })
  const list = useLive<Page<DeadLetter>>(`${base}?${query}`, 3)
  const [chosen, choose] = useState(new Set<string>())
  const action = useAction()
  const id = (d: DeadLetter) => `${d.submission}/${d.index}`
  const [to, setTo] = useState<string>()
  const close = () => { choose(new Set()); setTo(undefined) }
  const said = { redrive: 'redriven: ready again, with attempts reset', delete: 'deleted', forward: `forwarded to ${to}` }
  const each = (verb: keyof typeof said) => action.run(async () => {
    let n = 0
    try {
      for (const one of chosen) {
        await (verb === 'delete' ? call('DELETE', `${base}/${one}`) : call('POST', `${base}/${one}/${verb}`, verb === 'forward' ? { to } : undefined))
        n++
      }
    } finally {
      say(`${exact(n)} of ${exact(chosen.size)} ${said[verb]}`)
      close()
      list.again()
      changed()
    }
  })
  const items = list.data?.items
  return (
    <section class="card w12">
      <header>
        <div class="row"><h2>Dead chunks</h2><small>the newest submission first</small>
          {Object.entries(parameters(filter)).map(([name, value]) => [name, `${name.replace(/^meta\./, '')}=${visible(value)}`] as const).map(([name, text]) => <button key={name} class="mono" title={text} aria-label={`Remove the filter ${clamped(text, 40)}`} onClick={() => refine({ [name]: undefined, cursor: undefined })}><bdi>{clamped(text, 40)}</bdi> ×</button>)}
        </div>
        <form class="row" onSubmit={(e) => { e.preventDefault(); refine({ submission: new FormData(e.currentTarget).get('submission')?.toString().trim() || undefined, cursor: undefined }) }}>
          <label class="field">Died <select value={route.value.query.get('died') ?? ''} onChange={(e) => refine({ died: e.currentTarget.value || undefined, cursor: undefined })}>{ages.map(([word, name]) => <option key={word} value={word}>{name}</option>)}</select></label>
          <label class="field">Submission <input name="submission" inputMode="numeric" pattern="[0-9]+" placeholder="its id" class="mono" /></label><button>Filter</button>
        </form>
      </header>
      {list.problem && <Failed problem={list.problem} again={list.again} />}
      {action.problem && <Failed problem={action.problem} />}
      {may('operate') && <Chosen n={chosen.size} clear={close}>
        <Confirm name="Redrive" button={`Redrive ${exact(chosen.size)}…`} look="main" n={chosen.size} question={`Offer ${exact(chosen.size)} again?`} run={() => each('redrive')}>They become ready at once. Their attempts are reset, so each gets as many as a new one.</Confirm>
        {to === undefined ? <button disabled={action.busy} onClick={() => setTo('')}>Forward {exact(chosen.size)}…</button> : (
          <form class="row" aria-label="Forward the chosen chunks" onSubmit={(e) => { e.preventDefault(); void each('forward') }}><ToQueue value={to} change={setTo} /><button disabled={action.busy || !to}>Forward {exact(chosen.size)}</button>{to && <CopyAs cli={quern('dead', 'forward', '--to', to, '--queue', queue.value, ...chosen)} curl={curl('POST', `${base}/${[...chosen][0]}/forward`, { to })} />}</form>
        )}
        <Confirm name="Delete" button={`Delete ${exact(chosen.size)}…`} n={chosen.size} danger question={`Delete ${exact(chosen.size)} for good?`} run={() => each('delete')}>This deletes their errors and their history. Their submissions count them as skipped.</Confirm>
      </Chosen>}
      {items?.length === 0 && list.data?.next && <Empty>No dead letter of the newest submissions matches the filter. Older submissions have more.</Empty>}
      {items?.length === 0 && !list.data?.next && <Empty command={quern('dead', 'list', '--queue', queue.value)}>{Object.keys(filter).length > 0 || cursor ? 'No dead letter of this queue fits the filter.' : 'No dead letters. A chunk becomes one after its last attempt; the queue’s setting max_attempts is the number of attempts.'}</Empty>}
      {items && items.length > 0 && (
        <List name="Dead chunks" items={items} id={id} scope={String(query)} chosen={chosen} choose={may('operate') ? choose : undefined} open={(d) => link(`submissions/${d.submission}/${d.index}`)}
          columns={[{ name: 'Chunk' }, { name: 'Died' }, { name: 'Attempts', right: true }, { name: 'Redrives', right: true }, { name: 'Held last by' }, { name: 'Error' }, { name: 'Actions', hidden: true }]}
          cells={(d) => [
            <td><a class="mono" href={link(`submissions/${d.submission}/${d.index}`)}>{id(d)}</a></td>, <td class="note">{d.died_at ? moment(d.died_at) : ''}</td>, <td class="r" title={`${exact(d.expiries)} of them by their deadline`}>{exact(d.attempts)}</td>,
            <td class="r">{exact(d.redrives)}</td>, <td class="mono"><Clamp text={d.consumer ?? ''} /></td>, <td class="wrap error">{d.error ? <Expand text={d.error} /> : <span class="note">none reported</span>}</td>, <td class="r"><Gate scope="operate"><Redrive d={d} done={() => { list.again(); changed() }} /></Gate></td>,
          ]} />
      )}
      <p class="foot row">
        {cursor && <button onClick={() => history.back()}>Back</button>}
        {list.data?.next && <a class="btn" href={link('dead-letters', { ...parameters(filter), died: route.value.query.get('died') ?? undefined, cursor: list.data.next })}>Next</a>}
        <small><kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> chooses, <kbd>Enter</kbd> shows its attempts</small>
      </p>
    </section>
  )
}

function Redrive({ d, done }: { d: DeadLetter; done: () => void }) {
  const run = async () => {
    await call('POST', `${deadPath(d)}/redrive`)
    say(`${d.submission}/${d.index} is ready again, with its attempts reset`)
    done()
  }
  return <Confirm name="Redrive" button="Redrive" label={`Redrive ${d.submission}/${d.index}`} question={`Redrive chunk ${d.submission}/${d.index}?`} run={run}>1 chunk becomes ready at once. Its attempts are reset, so it gets as many as a new one.</Confirm>
}
