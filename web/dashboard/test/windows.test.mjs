// Many windows of one browser, each on a queue of its own: a browser keeps six connections to a server, and all windows need these for
// their reads.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, live, open, proxy, server } from './harness.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const pages = ['overview', 'consumers', 'keys', 'schedules', 'submissions', 'rules']
const subscribers = async () => Number(/^quern_sse_subscribers (\d+)/m.exec(await (await fetch(quern.url + '/metrics')).text())[1])
const frame = (page) => page.evaluate(() => document.documentElement.dataset.frame)
const moves = async (page) => {
  const before = await frame(page)
  await eventually(async () => assert.notEqual(await frame(page), before, `${page.url()} stands still`))
}

/** Makes a queue that has as many chunks as its number says. */
async function queue(number) {
  const name = 'window-' + number
  await call(quern.url, 'PUT', '/v1/queues/' + name, {})
  await call(quern.url, 'POST', `/v1/queues/${name}/submissions`, { chunks: { count: number, template: 'x' } })
  return name
}

/** Cancels the submissions of a queue, and deletes it. */
async function drop(name) {
  for (const { id } of (await call(quern.url, 'GET', `/v1/queues/${name}/submissions`)).items) await call(quern.url, 'POST', `/v1/submissions/${id}/cancel`)
  await eventually(() => call(quern.url, 'DELETE', '/v1/queues/' + name))
}

/** Opens a window on each queue, and waits until it is live. */
async function windows(t, numbers, url = quern.url) {
  const all = []
  for (const number of numbers) {
    const page = all.length === 0 && t.page.url() === 'about:blank' ? t.page : await t.context.newPage()
    await page.goto(`${url}/#/${pages[number % pages.length]}?queue=${await queue(number)}`)
    await live(page)
    all.push(page)
  }
  return all
}

test('eight windows on as many queues are live at once, by one connection, each with the numbers of its queue', async () => {
  const way = await proxy(quern.url)
  const t = await open(chromium.b, way.url)
  const reads = []
  t.page.on('request', (r) => { if (r.url().includes('/v1/queues/')) reads.push(r.url()) })
  const all = await windows(t, Array.from({ length: 8 }, (_, i) => i + 1), way.url)
  for (const page of all) assert.equal(await page.evaluate(() => document.hidden), false)
  await eventually(async () => assert.equal(await subscribers(), 1))
  for (const page of all) await moves(page)
  for (const [i, page] of all.entries()) {
    await page.evaluate((name) => { location.hash = '#/overview?queue=' + name }, `window-${i + 1}`)
    await page.locator(`[aria-label="Ready"] .v[title="${i + 1}"]`).waitFor()
  }
  await call(quern.url, 'POST', '/v1/queues/window-7/submissions', { chunks: { count: 70, template: 'x' } })
  await all[6].locator('[aria-label="Ready"] .v[title="77"]').waitFor()
  await eventually(async () => assert.equal(await subscribers(), 1))
  assert.deepEqual(t.wrong, [])
  await t.close()
  await eventually(async () => assert.equal(await subscribers(), 0, 'the last window takes the stream with it'))
  await way.cut()
})

test('a window that opens on another queue does not have the others begin again', async () => {
  const t = await open(chromium.b, quern.url)
  const [first] = await windows(t, [21])
  const starts = []
  await moves(first)
  first.on('request', (r) => { if (/\/(timeseries|whoami)/.test(r.url())) starts.push(r.url()) })
  const others = await windows(t, [22, 23, 24])
  for (const page of [first, ...others]) await moves(page)
  assert.deepEqual(starts, [], 'what is read at the start of a stream was read again')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a queue that is deleted ends in its own window only, and comes back there', async () => {
  const t = await open(chromium.b, quern.url)
  t.allow(404)
  const [stays, goes] = await windows(t, [31, 32])
  await drop('window-32')
  await goes.getByText('There is no queue').first().waitFor()
  await moves(stays)
  await eventually(async () => assert.equal(await subscribers(), 1))
  await queue(32)
  await live(goes)
  await goes.evaluate(() => { location.hash = '#/overview?queue=window-32' })
  await goes.locator('[aria-label="Ready"] .v[title="32"]').waitFor()
  await moves(stays)
  await t.close()
})

test('a window on a queue that does not exist leaves the others alone', async () => {
  const t = await open(chromium.b, quern.url)
  t.allow(404)
  const lost = t.page
  await lost.goto(`${quern.url}/#/overview?queue=not-yet`)
  await lost.getByText('There is no queue').first().waitFor()
  const [good] = await windows(t, [41])
  await moves(good)
  await call(quern.url, 'PUT', '/v1/queues/not-yet', {})
  await live(lost)
  await eventually(async () => assert.equal(await subscribers(), 1))
  await moves(good)
  await t.close()
})

test('after the server was away all windows go on, by one connection', async () => {
  const way = await proxy(quern.url)
  const t = await open(chromium.b, way.url)
  const all = await windows(t, [51, 52, 53], way.url)
  t.calm(true)
  await way.cut()
  for (const page of all) await page.locator('[data-state="stale"]').waitFor()
  await way.restore()
  for (const page of all) await live(page)
  for (const page of all) await moves(page)
  await eventually(async () => assert.equal(await subscribers(), 1))
  await t.close()
  await way.cut()
})

test('closing windows has the stream leave out their queues', async () => {
  const way = await proxy(quern.url)
  const t = await open(chromium.b, way.url)
  const [first, second] = await windows(t, [61, 62], way.url)
  await eventually(() => assert.deepEqual(way.queues.at(-1), ['window-61', 'window-62']))
  await second.close()
  await eventually(() => assert.deepEqual(way.queues.at(-1), ['window-61']))
  await moves(first)
  assert.deepEqual(t.wrong, [])
  await t.close()
  await way.cut()
})
