import { call, curl, quern, queuePath } from '../api'
import { Confirm } from '../confirm'
import { CopyAs } from '../copy'
import { moment, queueName } from '../format'
import { lacks } from '../session'
import { say } from '../state'
import { aside } from '../stream'
import type { Quarantined } from '../types'

/** In the place of a page of a queue whose files are damaged or missing. The page comes when the queue serves again. */
export function Quarantine({ name, why }: { name: string; why: Quarantined }) {
  const path = queuePath(name)
  return (
    <section class="card w12 stack" role="alert">
      <header><h2>The queue “{queueName(name)}” is in quarantine</h2><small>since {moment(why.since)}</small></header>
      <pre class="wrap" tabIndex={0}>{why.reason}</pre>
      <p>The server refuses its calls with the status 503 and leaves its files alone. The other queues work. Fix the files, then restart the server: each start tries to open the queue.</p>
      <div class="row">
        <Confirm name="Delete" look="danger" danger lacks={lacks('admin')} question={`Delete the queue ${queueName(name)} with all its work?`} run={async () => {
          await call('DELETE', `${path}?quarantined=true`)
          aside.value = null
          say(`Queue ${queueName(name)} deleted`)
        }}>The work in its files is lost for good, unless you have a copy of the files.</Confirm>
        <CopyAs cli={quern('queue', 'delete', name, '--quarantined')} curl={curl('DELETE', `${path}?quarantined=true`)} />
      </div>
    </section>
  )
}
