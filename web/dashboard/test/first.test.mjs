// The first picture of a page, before all of its data has come, says nothing false.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, insert, open, reserve, server } from './harness.mjs'

let quern, chromium, some

const base = '/v1/queues/default'

before(async () => {
  quern = await server()
  chromium = await browser()
  const { id } = await insert(quern.url, 40, { company: 'acme' })
  some = id
  await dead(quern.url, 3, { kind: 'broken' })
  const ended = await call(quern.url, 'POST', `${base}/rules`, { action: 'pause', match: { meta: { region: 'eu' } }, reason: 'it was down', actor: 'ana' })
  await call(quern.url, 'DELETE', `${base}/rules/${ended.id}`)
  await call(quern.url, 'POST', `${base}/rules`, { action: 'pause', match: { meta: { region: 'ap' } }, reason: 'it is down', actor: 'ana' })
  const { reservations } = await reserve(quern.url, { max: 4, strategy: 'SelectOnly("company", "acme", Fair("company", OldestFirst))', consumer: 'worker-1', timeout_ms: 3_600_000 })
  await call(quern.url, 'POST', `${base}/reservations/complete`, { items: reservations.slice(0, 1).map((r) => ({ token: r.token, output: 'done' })) })
  await call(quern.url, 'POST', `${base}/reservations/fail`, { items: reservations.slice(1, 2).map((r) => ({ token: r.token, error: 'HTTP 503', retry_after_ms: 3_600_000 })) })
  await call(quern.url, 'PUT', `${base}/schedules/nightly`, { spec: '30 2 * * *', tz: 'UTC', template: { meta: { company: 'acme' }, chunks: { count: 1, template: '{index}' } } })
  await call(quern.url, 'PUT', `${base}/strategies/nightly`, { strategy: 'OldestFirst' })
  const t = await open(chromium.b, quern.url) // a frame is up to a second old: one from before all this would rightly say that nothing is done
  await t.go('#/overview')
  await t.page.waitForFunction(() => /[1-9]\d* since the start/.test(document.getElementById('main').innerText))
  await t.close()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** Opens pages whose answers come apart, each a while after it was made, and notes each empty state that is shown. */
async function late() {
  const t = await open(chromium.b, quern.url)
  await t.page.addInitScript(() => {
    globalThis.empty = new Set()
    new MutationObserver(() => { for (const e of document.querySelectorAll('.empty, .says, .tile .d, .big')) globalThis.empty.add(e.textContent) }).observe(document, { subtree: true, childList: true, characterData: true })
  })
  let n = 0
  await t.context.route((u) => u.pathname.startsWith('/v1/') && u.pathname !== '/v1/events', async (route) => {
    const answer = await route.fetch().catch(() => undefined)
    await new Promise((later) => setTimeout(later, 60 * (n++ % 5)))
    await (answer ? route.fulfill({ response: answer }) : route.abort()).catch(() => {}) // the page may have gone on
  })
  return t
}

const shown = (t) => t.page.evaluate(() => [...globalThis.empty])

test('no page says that there is nothing before it knows', async () => {
  const t = await late()
  for (const page of ['overview', 'overview?range=24h', 'queues', 'submissions', `submissions/${some}`, `submissions/${some}/0`, 'keys', 'keys/company/acme', 'rules', 'reservations', 'consumers', 'consumers/worker-1', 'failing', 'dead-letters', 'schedules', 'fairness', 'strategies', 'operations', 'activity', 'settings']) {
    await t.go(`?load=${encodeURIComponent(page)}#/${page}`)
    await t.page.waitForFunction(() => !/Reading…/.test(document.getElementById('main').innerText), undefined, { timeout: 20_000 })
    const gone = await t.page.evaluate(() => [...globalThis.empty].filter((text) => /^(No|None|Nothing|Empty|0|The first)\b/.test(text) && ![...document.querySelectorAll('.empty, .says, .tile .d, .big')].some((e) => e.textContent === text)))
    assert.deepEqual(gone, [], page)
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the Overview of a queue that has just been filled never says that nothing is open', async () => {
  const t = await late()
  for (let round = 0; round < 4; round++) {
    const name = `new-${round}`
    await call(quern.url, 'PUT', `/v1/queues/${name}`, {})
    await call(quern.url, 'GET', `/v1/queues/${name}/diagnosis`) // the frame of an empty queue, up to a second before the next
    await call(quern.url, 'POST', `/v1/queues/${name}/submissions`, { meta: { company: 'acme' }, chunks: { count: 50, template: 'row {index}' } })
    await t.go(`?${name}#/overview?queue=${name}`)
    await t.page.getByText('50 wait: 50 can be handed out, but no consumer asks for work.').waitFor()
    assert.deepEqual((await shown(t)).filter((text) => /nothing is open|No open submission|No submission is open/i.test(text)), [], `round ${round}`)
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})
