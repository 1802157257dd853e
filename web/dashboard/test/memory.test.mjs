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

/** A page keeps ten minutes of seconds, and of what it reads besides a few dozen answers; after that, more of them take no more room. */
const settled = 760
const more = 800
const allowed = 0.5 * 2 ** 20

for (const page of ['overview', 'fairness', 'submissions', 'consumers', 'dead-letters', 'keys']) {
  test(`a tab left open at ${page} holds no more after ${settled + more} frames than after ${settled}`, async () => {
    const t = await open(chromium.b, way.url)
    await t.go('#/' + page).catch(() => {}) // it is live with the first frame
    const frames = async (n, each) => {
      for (let left = n; left > 0; left -= each) {
        const at = way.send(each)
        await t.page.waitForFunction((want) => document.documentElement.dataset.frame >= want, at)
      }
    }
    await frames(600, 50)
    await frames(settled - 600, 4) // few at a time, so that what is not in frames is read often
    const first = await heap(t.page)
    await frames(more, 4)
    const last = await heap(t.page)
    console.log(`# ${page}: ${(first / 2 ** 20).toFixed(2)} MiB, then ${(last / 2 ** 20).toFixed(2)} MiB`)
    assert.ok(last - first < allowed, `${page}: ${first} bytes after ${settled} frames, ${last} after ${more} more`)
    assert.ok(await t.page.evaluate(() => document.querySelectorAll('*').length) < 4000)
    assert.deepEqual(t.wrong, [])
    await t.context.close()
  })
}
