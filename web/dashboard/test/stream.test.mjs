import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, insert, open, proxy, reserve, server } from './harness.mjs'
import { replay } from './replay.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** Counts the reads of a page besides the stream. */
function reads(page, part) {
  const seen = []
  page.on('request', (r) => { if (r.method() === 'GET' && r.url().includes(part) && !r.url().includes('/events')) seen.push(r.url()) })
  return seen
}

test('the page of consumers follows the stream, and reads its list once', async () => {
  await insert(quern.url, 50, { of: 'stream' })
  const way = await proxy(quern.url)
  const t = await open(chromium.b, way.url)
  const lists = reads(t.page, '/consumers')
  await t.go('#/consumers')
  await t.page.getByText('No consumer holds a chunk').waitFor()
  for (const [i, name] of ['ant', 'bee', 'cat'].entries()) await reserve(quern.url, { max: i + 1, consumer: name })
  for (const name of ['ant', 'bee', 'cat']) await t.page.getByRole('link', { name }).waitFor()
  const names = await t.page.getByRole('region', { name: 'Consumers by name' }).getByRole('link').allTextContents()
  assert.deepEqual(names, ['cat', 'bee', 'ant'], 'who holds most comes first')
  const before = lists.length
  for (let i = 0; i < 4; i++) await reserve(quern.url, { max: 2, consumer: 'ant' })
  await t.page.getByRole('row').filter({ hasText: 'ant' }).getByRole('cell', { name: '9', exact: true }).waitFor()
  assert.equal(lists.length, before, 'what changed came by the stream')
  assert.ok(before <= 2, `the list was read ${before} times`)
  await t.go('#/keys')
  await t.go('#/consumers')
  await t.page.getByRole('link', { name: 'cat' }).waitFor()
  assert.ok(way.streams.includes('stats,keys,consumers'), `topics: ${way.streams}`)
  assert.deepEqual(t.wrong, [])
  await t.close()
  await way.cut()
})

test('a strip is drawn again when one of its cells changes, and not with every frame', async (one) => {
  await insert(quern.url, 5, { strip: 'one' })
  await reserve(quern.url, { max: 1, strategy: 'SelectOnly("strip", "one", Random)' })
  const told = await open(chromium.b, quern.url)
  await told.go('#/keys?key=strip')
  await told.page.locator('.strip canvas').waitFor() // from now on frames have it in flight
  await told.close()
  const way = await replay(quern.url)
  one.after(way.stop)
  const t = await open(chromium.b, way.url)
  await t.page.addInitScript(() => {
    const { clearRect } = CanvasRenderingContext2D.prototype
    globalThis.drawn = 0
    CanvasRenderingContext2D.prototype.clearRect = function (...of) { globalThis.drawn++; clearRect.apply(this, of) }
  })
  await t.go('#/keys?key=strip')
  await t.page.locator('.strip canvas').waitFor()
  for (let i = 0; i < 20; i++) {
    const at = way.send(1)
    await t.page.waitForFunction((want) => document.documentElement.dataset.frame >= want, at)
  }
  const drawn = await t.page.evaluate(() => globalThis.drawn)
  assert.ok(drawn > 2 && drawn < 15, `drawn ${drawn} times in 20 frames, in which four cells of five seconds ended`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the page of schedules is told what moves, and reads its list again only then', async () => {
  await call(quern.url, 'PUT', '/v1/queues/default/schedules/far', { spec: '@at 2099-01-01T00:00:00Z', template: { chunks: { count: 1, template: 'x' } } })
  const t = await open(chromium.b, quern.url)
  await t.go('#/schedules')
  await t.page.getByRole('button', { name: 'far', exact: true }).waitFor()
  const frames = (n) => t.page.evaluate(async (n) => {
    for (let seen = document.documentElement.dataset.frame; n > 0; await new Promise(requestAnimationFrame)) if (document.documentElement.dataset.frame !== seen) { seen = document.documentElement.dataset.frame; n-- }
  }, n)
  await frames(2)
  const lists = reads(t.page, '/schedules')
  await frames(4)
  assert.deepEqual(lists, [], 'nothing changed, and nothing was read')
  const { id } = await call(quern.url, 'POST', '/v1/queues/default/schedules/far/trigger')
  await t.page.getByRole('img', { name: 'The last 1: 1 open' }).waitFor()
  await call(quern.url, 'POST', `/v1/submissions/${id}/cancel`)
  await t.page.getByRole('img', { name: 'The last 1: 1 cancelled' }).waitFor()
  await call(quern.url, 'POST', '/v1/queues/default/schedules/far/pause?reason=holidays')
  await t.page.getByText('holidays').waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})
