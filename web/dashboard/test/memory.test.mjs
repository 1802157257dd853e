import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, insert, open, reserve, server } from './harness.mjs'
import { heap, replay } from './replay.mjs'

let quern, chromium, way

before(async () => {
  quern = await server()
  chromium = await browser()
  for (let i = 0; i < 40; i++) await insert(quern.url, 500, { company: `c${i}`, mode: i % 2 ? 'full' : 'preview' })
  await dead(quern.url, 120, { source: 'legacy' })
  for (let i = 0; i < 5; i++) await reserve(quern.url, { max: 20, strategy: 'Fair("company", Random)', consumer: `w${i}` })
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/company/values/c1', { limit: 3 })
  way = await replay(quern.url)
})
after(async () => {
  await way?.stop()
  await chromium?.stop()
  await quern?.stop()
})

/** A page keeps ten minutes of seconds; after that, more of them take no more room. */
const settled = 700
const more = 2000
const allowed = 0.5 * 2 ** 20

for (const page of ['overview', 'fairness', 'submissions', 'consumers', 'dead-letters', 'keys']) {
  test(`a tab left open at ${page} holds no more after ${settled + more} frames than after ${settled}`, async () => {
    const t = await open(chromium.b, way.url)
    await t.go('#/' + page).catch(() => {}) // it is live with the first frame
    const frames = async (n) => {
      for (let left = n; left > 0; left -= 50) {
        const at = way.send(Math.min(50, left))
        await t.page.waitForFunction((want) => document.documentElement.dataset.frame >= want, at)
      }
      return heap(t.page)
    }
    await frames(settled)
    const first = await frames(50)
    const last = await frames(more)
    console.log(`# ${page}: ${(first / 2 ** 20).toFixed(2)} MiB, then ${(last / 2 ** 20).toFixed(2)} MiB`)
    assert.ok(last - first < allowed, `${page}: ${first} bytes after ${settled} frames, ${last} after ${more} more`)
    assert.ok(await t.page.evaluate(() => document.querySelectorAll('*').length) < 4000)
    assert.deepEqual(t.wrong, [])
    await t.context.close()
  })
}
