import { curl, quern } from '../api'
import { exact } from '../format'
import { useLive } from '../live'
import { CopyAs } from '../copy'
import { Empty, Failed } from '../parts'
import { queue, refine, route } from '../state'
import type { BulkOperation, Page } from '../types'
import { BulkList, bulkPath } from './bulk'
import { Worker } from './lifecycle'

const states = ['completed', 'cancelled', 'failed']
const actions = ['redrive', 'delete', 'forward', 'retry', 'cancel', 'reprioritize', 'purge']

/** Bulk operations, and the actions that the queue takes by itself at their time. */
export function Operations() {
  const path = `${bulkPath}?queue=${encodeURIComponent(queue.value)}`
  const list = useLive<Page<BulkOperation>>(path, 1)
  const q = route.value.query
  const [state, action] = [q.get('state') ?? '', q.get('action') ?? '']
  const all = list.data?.items ?? []
  const running = all.filter((b) => b.state === 'running')
  const ended = all.filter((b) => b.state !== 'running')
  const shown = ended.filter((b) => (!state || b.state === state) && (!action || b.action === action))
  return (
    <>
      <div class="head"><h1>Operations</h1><span>bulk operations, and the server’s timed work</span>
        <div class="act"><CopyAs cli={quern('bulk', 'list', '--queue', queue.value)} curl={curl('GET', path)} /></div>
      </div>
      <section class="card w12">
        <header><h2>Running</h2><small>{list.data ? exact(running.length) : ''}</small></header>
        {list.problem && <Failed problem={list.problem} again={list.again} />}
        {!list.data && !list.problem && <p class="note">Reading…</p>}
        {list.data && running.length === 0 && <Empty command={quern('bulk', 'run', 'cancel', '--created-before', '24h', '--dry-run', '--queue', queue.value)}>No bulk operation is running. Start one on the page Submissions or Dead letters, or from the command line.</Empty>}
        {running.length > 0 && <BulkList name="Running operations" items={running} scope={queue.value} done={list.again} keys />}
      </section>
      <section class="card w12">
        <header>
          <div class="row"><h2>Ended</h2><small>{list.data ? `${exact(ended.length)}${ended.length >= 100 ? ', older ones are forgotten' : ''}` : ''}</small></div>
          <div class="row">
            <label class="field">Action <select value={action} onChange={(e) => refine({ action: e.currentTarget.value || undefined })}><option value="">all</option>{actions.map((a) => <option key={a}>{a}</option>)}</select></label>
            <label class="field">Outcome <select value={state} onChange={(e) => refine({ state: e.currentTarget.value || undefined })}><option value="">all</option>{states.map((s) => <option key={s}>{s}</option>)}</select></label>
          </div>
        </header>
        {list.data && shown.length === 0 && (ended.length > 0
          ? <Empty>None of the {exact(ended.length)} that ended fits the filter.</Empty>
          : <Empty>No operation of this queue has ended.</Empty>)}
        {shown.length > 0 && <BulkList name="Ended operations" items={shown} scope={`${queue.value} ${state} ${action}`} done={list.again} keys={running.length === 0} />}
      </section>
      <Worker />
    </>
  )
}
