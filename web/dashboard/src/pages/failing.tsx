import { Gate } from '../access'
import { call, curl, quern, queuePath, valueOf } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { amount, moment, percent } from '../format'
import { List } from '../list'
import { useAction, useLive } from '../live'
import { Count, Empty, Failed } from '../parts'
import { boundTo, named } from '../session'
import { link, queue, route, say } from '../state'
import { stats } from '../stream'
import { Expand } from '../text'
import type { RetryGroup, RetryGroups } from '../types'
import { filterFlags, Operations } from './bulk'

/** Chunks whose last attempt failed and that will be tried again, by the kind of error: they show present errors before anything is
 * dead. */
export function Failing() {
  const meta = [...route.value.query].filter(([name]) => name.startsWith('meta.'))
  const path = `${queuePath(queue.value)}/retries/groups?${new URLSearchParams(meta)}`
  const read = useLive<RetryGroups>(path, 3)
  const action = useAction()
  const list = read.data?.items ?? []
  const all = (read.data?.others ?? 0) + list.reduce((n, g) => n + g.count, 0)
  const filter = meta.length > 0 ? { meta: Object.fromEntries(meta.map(([k, v]) => [k.slice(5), valueOf(v)])) } : {}
  const start = async (verb: 'retry' | 'give_up', g: RetryGroup, limit = 0) => {
    const actor = named()
    await call('POST', '/v1/bulk-operations', { action: verb, queue: queue.value, filter: { ...filter, fingerprint: g.fingerprint }, ...(limit ? { limit } : {}), ...(actor ? { actor } : {}) })
    say(verb === 'retry' ? `${amount(limit || g.count, 'chunk is', 'chunks are')} ready now` : `${amount(g.count, 'chunk is', 'chunks are')} given up`)
    read.again()
  }
  const now = (g: RetryGroup, limit?: number) => void action.run(() => start('retry', g, limit))
  const waiting = boundTo() ? undefined : stats.value?.stats.waiting
  return (
    <>
      <div class="head"><h1>Failing now</h1><span>chunks that failed and wait for a retry{read.data && `: ${amount(all, 'chunk')}, ${amount(list.length, 'kind')} of error`}</span><div class="act"><CopyAs cli={quern('retries', 'groups', ...filterFlags(filter), '--queue', queue.value)} curl={curl('GET', path)} /></div></div>
      {meta.length > 0 && <p class="w12 row">{meta.map(([k, v]) => <a key={k} class="btn mono" href={link('failing')} aria-label={`Remove the filter ${k.slice(5)}=${v}`}>{k.slice(5)}={v} ×</a>)}</p>}
      <Operations queue={queue.value} of={['retry', 'give_up']} />
      <section class="card w12">
        {read.problem && <Failed problem={read.problem} again={read.again} />}
        {action.problem && <Failed problem={action.problem} />}
        {!read.data && !read.problem && <p class="note">Reading…</p>}
        {read.data && list.length === 0 && <Empty>No chunk waits after a failed attempt. {waiting ? `${amount(waiting, 'waits', 'wait')} for a time. ` : ''}<a href={link('dead-letters')}>Dead letters</a> are out of attempts.</Empty>}
        {list.length > 0 && (
          <List name="Failing now" items={list} id={(g) => g.fingerprint} scope={path} keys={false} besides={[action.busy]}
            columns={[{ name: 'Error' }, { name: 'Failed attempts' }, { name: 'Chunks', right: true }, { name: 'Submissions', right: true }, { name: 'Next attempt' }, { name: 'Actions', hidden: true }]}
            cells={(g) => [
              <td class="wrap error"><b>{g.pattern || 'the deadline passed'}</b>{g.example && g.example !== g.pattern && <div class="note"><Expand text={g.example} /></div>}<div><a class="mono" href={link(`submissions/${g.submission}/${g.index}`)}>an example</a></div></td>,
              <td>{g.tries.map((t) => <span key={t.tries} class="chip" title={amount(t.count, 'chunk')}>{t.tries === 0 ? 'expired' : `${t.tries}${t.tries === 10 ? '+' : ''}×`} {percent(t.count, g.count).toFixed(0)} %</span>)}</td>,
              <td class="r"><Count n={g.count} /></td>, <td class="r"><Count n={g.submissions} /></td>,
              <td class="note">{g.next_at ? moment(g.next_at) : '—'}</td>,
              <td class="r"><Gate scope="operate"><span class="row end">
                <button class="quiet" disabled={action.busy} aria-label={`Run now: group ${g.fingerprint}`} onClick={() => now(g)}>Run now</button>
                {g.count > 1 && <button class="quiet" disabled={action.busy} title="to see whether they succeed, before you run the others" aria-label={`Run half now: group ${g.fingerprint}`} onClick={() => now(g, Math.floor(g.count / 2))}>Run half now</button>}
                <Confirm name="Give up" n={g.count} danger label={`Give up: group ${g.fingerprint}`} question={`Give up ${amount(g.count, 'chunk')}?`} run={() => start('give_up', g)}>The server does not retry them. As <code>on_exhausted</code> of their submission or queue says, they become dead letters, are skipped, or fail their submission.</Confirm>
              </span></Gate></td>,
            ]} />
        )}
        {read.data && (read.data.others > 0 || read.data.examined >= 100_000) && <p class="foot note">{read.data.others > 0 && `${amount(read.data.others, 'chunk has', 'chunks have')} errors of more kinds. `}{read.data.examined >= 100_000 && 'This is of the 100,000 chunks of the newest submissions.'}</p>}
      </section>
    </>
  )
}
