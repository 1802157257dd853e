// A tab that is left open for SOAK_MINUTES (60) at a server under load: its heap must not grow with time.
import assert from 'node:assert/strict'
import { browser, consumers, dead, insert, open, server } from './harness.mjs'
import { heap } from './replay.mjs'

const minutes = Number(process.env.SOAK_MINUTES ?? 60)
const quern = await server()
const chromium = await browser()
for (let i = 0; i < 200; i++) await insert(quern.url, 50_000, { company: `c${i}`, mode: i % 2 ? 'full' : 'preview' })
await dead(quern.url, 200, { source: 'legacy' })
const stop = consumers(quern.url, ['Random', 'OldestFirst', 'Fair("company", Random)', 'NewestFirst'])
const t = await open(chromium.b, quern.url)
const read = []
for (let minute = 0; minute <= minutes; minute++) {
  await t.go(['#/overview', '#/keys?key=company', '#/fairness', '#/submissions', '#/consumers', '#/dead-letters'][Math.min(5, Math.floor((6 * minute) / (minutes + 1)))])
  if (minute > 0) await new Promise((later) => setTimeout(later, 60_000))
  read.push(await heap(t.page))
  console.log(`minute ${minute}: ${(read.at(-1) / 2 ** 20).toFixed(2)} MiB`)
}
await stop()
await chromium.stop()
await quern.stop()
const settled = read[Math.min(read.length - 1, 11)]
assert.ok(read.at(-1) < settled + 4 * 2 ** 20, `the heap grew from ${settled} to ${read.at(-1)} bytes`)
assert.deepEqual(t.wrong, [])
