import { useState } from 'preact/hooks'
import { call, curl, quern } from '../api'
import { amount, exact } from '../format'
import { write } from '../json'
import { useAction } from '../live'
import { Question } from '../confirm'
import { CopyAs } from '../copy'
import { Failed } from '../parts'
import { queue, say } from '../state'
import type { BulkFilter } from '../types'
import { bulkFlags, bulkPath, dryRun } from './bulk'

const verbs = { cancel: 'Cancel', retry: 'Retry now', reprioritize: 'Change priority of', purge: 'Delete' } as const

/** Applies one action to all submissions that match the list's filter, after counting them. */
export function Many({ filter, close }: { filter: BulkFilter; close: () => void }) {
  const [verb, setVerb] = useState<keyof typeof verbs>('cancel')
  const [priority, setPriority] = useState('0')
  const [rate, setRate] = useState('')
  const [counted, setCounted] = useState<{ what: string; n: number }>()
  const action = useAction()
  const body = { queue: queue.value, action: verb, filter, rate_per_second: Number(rate) || 0, ...(verb === 'reprioritize' ? { priority: Number(priority) } : {}) }
  const what = write(body)
  const count = () => action.run(async () => setCounted({ what, n: await dryRun(body) }))
  const start = () => action.run(async () => {
    await call('POST', bulkPath, body)
    say(`${verbs[verb]} ${exact(counted?.n ?? 0)}: it continues in the background`)
    close()
  })
  const unit = ({ retry: 'waiting chunk', purge: 'submission' } as Record<string, string>)[verb] ?? 'open submission'
  const cli = quern('bulk', 'run', verb, ...bulkFlags(filter), ...(verb === 'reprioritize' ? ['--priority', priority] : []), ...(rate ? ['--rate', rate] : []), '--queue', queue.value)
  return (
    <section class="card w12" aria-label="All that match">
      <header><h2>All that match the filter</h2><div class="row"><CopyAs cli={cli} curl={curl('POST', bulkPath, body)} /><button onClick={close}>Close</button></div></header>
      <div class="stack">
        <div class="row">
          <label class="field">Do <select value={verb} onChange={(e) => setVerb(e.currentTarget.value as keyof typeof verbs)}><option value="cancel">cancel</option><option value="retry">retry waiting chunks now</option><option value="reprioritize">change the priority</option><option value="purge">delete</option></select></label>
          {verb === 'reprioritize' && <label class="field">to <input type="number" step="1" value={priority} onInput={(e) => setPriority(e.currentTarget.value)} /></label>}
          <label class="field">at most <input type="number" min="0" step="1" placeholder="no limit" value={rate} onInput={(e) => setRate(e.currentTarget.value)} /> a second</label>
          <button disabled={action.busy} onClick={() => void count()}>Count first</button>
        </div>
        {counted && counted.what === what && (counted.n === 0 ? <p role="status">Nothing would change.</p> : (
          <Question name={verbs[verb]} n={counted.n} danger={verb === 'cancel' || verb === 'purge'} busy={action.busy} leave={() => setCounted(undefined)} run={() => void start()}>
            {amount(counted.n, `${unit} fits`, `${unit}s fit`)} the filter now{verb === 'cancel' ? '; chunks that are not done are skipped for good' : verb === 'purge' ? '; their contents, outputs and history are gone for good' : ''}. By then it may be more or fewer.
          </Question>
        ))}
        {action.problem && <Failed problem={action.problem} />}
      </div>
    </section>
  )
}
