import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, insert, open, reserve, server } from './harness.mjs'
import { heap, replay } from './replay.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
  for (let i = 0; i < 40; i++) await insert(quern.url, 500, { company: `c${i}`, mode: i % 2 ? 'full' : 'preview' })
  await dead(quern.url, 120, { source: 'legacy' })
  for (let i = 0; i < 5; i++) await reserve(quern.url, { max: 20, strategy: 'Fair("company", Random)', consumer: `w${i}` })
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/company/values/c1', { limit: 3 })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/**
 * A page keeps ten minutes of frames, and a few dozen other answers. After that, more frames take no more room: some round of frames leaves
 * the heap as it was. A leak of 200 bytes a frame adds 80 kB in each round, and never comes to rest.
 */
const filling = 600
const round = 400
const rounds = 10
const rest = 0.05 * 2 ** 20

const pages = process.env.ALL_PAGES ? ['overview', 'fairness', 'submissions', 'consumers', 'dead-letters', 'keys'] : ['overview', 'submissions'] // make soak: all

test('a tab left open comes to rest', { concurrency: 3 }, (all) => Promise.all(pages.map((page) => all.test(`at ${page}`, async (one) => {
  const way = await replay(quern.url)
  one.after(way.stop)
  const t = await open(chromium.b, way.url)
  await t.go('#/' + page)
  const frames = async (n, each) => {
    for (let left = n; left > 0; left -= each) {
      const at = way.send(each)
      await t.page.waitForFunction((want) => document.documentElement.dataset.frame >= want, at, { polling: 'raf' })
    }
  }
  await frames(filling, 50)
  const sizes = [await heap(t.page)]
  do {
    assert.ok(sizes.length <= rounds, `${page}: the heap grows from round to round of ${round} frames: ${sizes}`)
    await frames(round, 10) // few at a time, so that data outside of frames is read often
    sizes.push(await heap(t.page))
  } while (sizes.at(-1) - sizes.at(-2) > rest)
  console.log(`# ${page}: ${sizes.map((n) => (n / 2 ** 20).toFixed(2)).join(', ')} MiB`)
  assert.ok(await t.page.evaluate(() => document.querySelectorAll('*').length) < 4000)
  assert.deepEqual(t.wrong, [])
  await t.close()
}))))
