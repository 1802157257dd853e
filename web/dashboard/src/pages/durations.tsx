import { curl, quern, queuePath } from '../api'
import { CopyAs } from '../copy'
import { amount, duration, exact, moment, percent, short } from '../format'
import { useLive } from '../live'
import { Empty, Failed } from '../parts'
import { queue } from '../state'

interface Counts { count: number; p50_ms: number; p95_ms: number; max_ms: number; buckets: { below_ms: number; count: number }[] }
interface Durations { since: string; wait: Counts; run: Counts }

/** Milliseconds as people read them. */
const took = (ms: number) => (ms < 1000 ? `${exact(ms)} ms` : ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : duration(ms / 1000))

/** How long chunks waited and ran lately: of the queue, or of one value. */
export function HowLong({ value }: { value?: { key: string; text: string } }) {
  const query = value ? `?${new URLSearchParams({ ['meta.' + value.key]: value.text })}` : ''
  const path = `${queuePath(queue.value)}/durations${query}`
  const read = useLive<Durations>(path, 5)
  const d = read.data
  const none = d && d.wait.count + d.run.count === 0
  return (
    <section class="card w12" aria-label="How long it takes">
      <header><div class="row"><h2>How long it takes</h2>{d && <small>since {moment(d.since)}</small>}</div>
        <CopyAs cli={quern('durations', ...(value ? ['--meta', `${value.key}=${value.text}`] : []), '--queue', queue.value)} curl={curl('GET', path)} /></header>
      {read.problem && <Failed problem={read.problem} again={read.again} />}
      {!d && !read.problem && <p class="note">Reading…</p>}
      {none && <Empty>{value ? 'No chunk of it was reserved or finished since then. It is measured from now on.' : 'No chunk was reserved or finished since then.'}</Empty>}
      {d && !none && <div class="pair"><Kind name="Wait" about="from its insert or run_at to its first reservation" c={d.wait} /><Kind name="Run" about="from a reservation to its completion or failure" c={d.run} /></div>}
    </section>
  )
}

function Kind({ name, about, c }: { name: string; about: string; c: Counts }) {
  const most = Math.max(1, ...c.buckets.map((b) => b.count))
  const range = (b: { below_ms: number }) => (b.below_ms === 1 ? 'below 1 ms' : `${took(b.below_ms / 2)} to ${took(b.below_ms)}`)
  return (
    <figure class="hist low">
      <figcaption><b>{name}</b> <span class="note">{about}, {amount(c.count, 'chunk', 'chunks', short)}</span></figcaption>
      {c.count === 0 ? <p class="note">None yet.</p> : (
        <>
          <dl class="three"><div><dt>Half within</dt><dd>{took(c.p50_ms)}</dd></div><div><dt>95 % within</dt><dd>{took(c.p95_ms)}</dd></div><div><dt>Slowest</dt><dd>{took(c.max_ms)}</dd></div></dl>
          <div class="bars" role="img" aria-label={`${name}: ${c.buckets.filter((b) => b.count > 0).map((b) => `${range(b)} ${percent(b.count, c.count).toFixed(1)} %`).join(', ')}`}>
            {c.buckets.map((b) => <div key={b.below_ms} class="col" title={`${range(b)}: ${amount(b.count, 'chunk')}, ${percent(b.count, c.count).toFixed(1)} %`}><i class="rest" style={{ height: b.count > 0 ? `max(2px, ${(100 * b.count) / most}%)` : '0' }} /></div>)}
          </div>
          <div class="legend ends"><span class="mono">{c.buckets[0]!.below_ms === 1 ? '0' : took(c.buckets[0]!.below_ms / 2)}</span><span class="note">twice as long from column to column</span><span class="mono">{took(c.buckets.at(-1)!.below_ms)}</span></div>
        </>
      )}
    </figure>
  )
}
