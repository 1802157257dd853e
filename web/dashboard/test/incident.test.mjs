// An operator's acts in an incident, and their undo: each act names its consequences, is recorded under a name, and can be undone where
// that is possible.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, eventually, insert, live, open, proxy, reserve, server } from './harness.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const base = '/v1/queues/default'
const acts = async (action) => (await call(quern.url, 'GET', '/v1/audit?action=' + action)).items

test('quiet and drain say what follows in numbers, take a name, and are undone', async () => {
  await insert(quern.url, 20, { of: 'quiet' })
  await reserve(quern.url, { max: 7, strategy: 'SelectOnly("of", "quiet", OldestFirst)', consumer: 'calm-1' })
  const t = await open(chromium.b, quern.url, { me: '' })
  await t.go('#/consumers')
  const state = async () => (await call(quern.url, 'GET', `${base}/consumers/calm-1`))
  for (const [verb, question, fact] of [['Quiet', 'Keep new work from calm-1?', 'quiet'], ['Drain', 'Drain calm-1?', 'draining']]) {
    await t.page.getByRole('button', { name: `${verb} calm-1` }).click()
    const asked = t.page.getByRole('dialog', { name: question })
    await asked.getByText('7 chunks').waitFor()
    if (verb === 'Quiet') {
      await asked.getByRole('button', { name: verb }).click() // without a name nothing is done
      assert.equal((await state()).quiet, false)
      await asked.getByLabel('Who').fill('Zoë Żak')
    }
    await asked.getByRole('button', { name: verb }).click()
    await eventually(async () => assert.equal((await state())[fact], true))
    await t.page.getByRole('button', { name: 'Undo: resume consumer calm-1' }).click()
    await t.told('resume consumer calm-1: done')
    await eventually(async () => assert.equal((await state())[fact], false))
    assert.equal((await acts('consumer.' + verb.toLowerCase()))[0].actor, 'Zoë Żak')
    await t.page.getByRole('button', { name: `Drain calm-1` }).waitFor()
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('what was changed is undone: a lifted rule at once, a limit from the activity', async () => {
  await insert(quern.url, 30, { company: 'undo' })
  const t = await open(chromium.b, quern.url)
  const rule = await call(quern.url, 'POST', `${base}/rules`, { action: 'pause', match: { meta: { company: 'undo' } }, reason: 'INC-9' })
  await t.go('#/rules')
  await t.page.getByRole('region', { name: 'Active rules' }).getByRole('button', { name: `Lift rule ${rule.id}` }).click()
  await t.page.getByRole('dialog').getByRole('button', { name: 'Lift' }).click()
  await t.page.getByRole('button', { name: 'Undo: pause company=undo again' }).click()
  await eventually(async () => {
    const [again] = (await call(quern.url, 'GET', `${base}/rules`)).items
    assert.deepEqual([again?.match.meta.company, again?.reason, again?.actor], ['undo', 'INC-9', 'ann'])
  })
  const value = `${base}/meta-keys/company/values/undo`
  await call(quern.url, 'PUT', value, { limit: 3 })
  await call(quern.url, 'PUT', value, { limit: 5, weight: 2 })
  await t.go('#/activity')
  const row = t.page.getByRole('region', { name: 'What changed' }).locator('tbody tr').filter({ hasText: 'to limit 5 and weight 2' }).first()
  await row.getByRole('button', { name: /^Undo: .* set company=undo to limit 5 and weight 2, / }).click()
  const asked = t.page.getByRole('dialog', { name: 'Undo: company=undo: limit 3, weight 1 again?' })
  await asked.getByRole('button', { name: 'Undo' }).click()
  await eventually(async () => {
    const { limit, weight } = await call(quern.url, 'GET', value)
    assert.deepEqual([limit, weight], [3, null])
  })
  for (const { id } of (await call(quern.url, 'GET', `${base}/rules`)).items) await call(quern.url, 'DELETE', `${base}/rules/${id}`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('of dead letters the oldest so many are redriven', async () => {
  const first = await dead(quern.url, 60, { batch: 'first' })
  const second = await dead(quern.url, 40, { batch: 'second' })
  const left = async (id) => (await call(quern.url, 'GET', '/v1/submissions/' + id)).dead
  const t = await open(chromium.b, quern.url)
  await t.go('#/dead-letters')
  await t.page.getByLabel('Only the oldest').fill('60')
  await t.page.getByText('those that died first of 100').waitFor()
  await t.page.getByRole('button', { name: 'Redrive 60…' }).click()
  await t.page.getByRole('form', { name: 'Redrive' }).getByRole('button', { name: 'Redrive 60' }).click()
  await eventually(async () => assert.deepEqual([await left(first), await left(second)], [0, 40]))
  assert.equal((await acts('bulk.start'))[0].actor, 'ann')
  await call(quern.url, 'POST', '/v1/bulk-operations', { queue: 'default', action: 'delete' })
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the chart goes back up to 30 days, and shows a part of its time', async () => {
  const t = await open(chromium.b, quern.url)
  const steps = []
  t.page.on('request', (r) => { const m = /timeseries\?step=(\w+)/.exec(r.url()); if (m) steps.push(m[1]) })
  await t.go('#/overview')
  const back = t.page.getByRole('group', { name: 'How far back' })
  for (const [name, step] of [['1 h', 'minute'], ['24 h', 'minute'], ['7 d', 'hour'], ['30 d', 'hour']]) {
    await back.getByRole('button', { name, exact: true }).click()
    await eventually(async () => assert.equal(steps.at(-1), step, name))
    await t.page.getByText(`a point ${step === 'hour' ? 'an' : 'a'} ${step};`).waitFor()
  }
  await back.getByRole('button', { name: '10 min', exact: true }).click()
  const chart = t.page.getByRole('img', { name: /^Throughput/ })
  await chart.locator('.u-over').waitFor()
  await eventually(async () => {
    const box = await chart.locator('.u-over').boundingBox()
    await t.page.mouse.move(box.x + box.width * 0.3, box.y + 40)
    await t.page.mouse.down()
    await t.page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 4 })
    await t.page.mouse.up()
    const q = new URLSearchParams(new URL(t.page.url()).hash.split('?')[1])
    assert.ok(Number(q.get('to')) > Number(q.get('from')), t.page.url())
  })
  await back.getByRole('button', { name: 'zoomed ×' }).click()
  await back.getByRole('button', { name: '10 min', pressed: true }).waitFor()
  const shown = () => { const q = new URLSearchParams(new URL(t.page.url()).hash.split('?')[1]); return Number(q.get('to')) - Number(q.get('from')) }
  await chart.focus()
  await t.page.keyboard.press('+')
  await eventually(async () => assert.ok(shown() > 0, t.page.url()))
  const before = shown()
  await t.page.keyboard.press('-')
  await eventually(async () => assert.ok(shown() > before, t.page.url()))
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the strip of a value has what was changed of it as marks', async () => {
  await insert(quern.url, 30, { company: 'marked' })
  await reserve(quern.url, { max: 2, strategy: 'SelectOnly("company", "marked", OldestFirst)' })
  await call(quern.url, 'PUT', `${base}/meta-keys/company/values/marked`, { limit: 4 })
  await call(quern.url, 'PUT', `${base}/meta-keys/company/values/other`, { limit: 4 })
  const t = await open(chromium.b, quern.url)
  await t.go('#/keys/company/marked')
  await t.page.getByRole('img', { name: '1 change' }).waitFor()
  const { left, right, at } = await t.page.evaluate(() => {
    const box = document.querySelector('.marks').getBoundingClientRect()
    return { left: box.left, right: box.right, at: document.querySelector('.marks i').getBoundingClientRect().left }
  })
  assert.ok(at > (left + right) / 2 && at <= right, 'it happened a moment ago')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('windows of one browser are live at once, by one stream', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go('#/overview')
  const others = []
  let past = 0
  for (const hash of ['overview', 'keys', 'consumers']) {
    const page = await t.context.newPage()
    page.on('request', (r) => { if (r.url().endsWith('/timeseries')) past++ })
    await page.goto(`${quern.url}/#/${hash}`)
    await live(page)
    others.push(page)
  }
  for (const page of [t.page, ...others]) {
    const frame = () => page.evaluate(() => document.documentElement.dataset.frame)
    const before = await frame()
    await eventually(async () => assert.notEqual(await frame(), before, page.url()))
  }
  const subscribers = async () => Number(/^quern_sse_subscribers (\d+)/m.exec(await (await fetch(quern.url + '/metrics')).text())[1])
  await eventually(async () => assert.equal(await subscribers(), 1))
  await eventually(async () => assert.ok(past > 0, 'who comes later reads the past, which the stream told before'))
  for (const page of others) await page.close()
  await eventually(async () => assert.equal(await subscribers(), 1))
  const before = await t.page.evaluate(() => document.documentElement.dataset.frame)
  await eventually(async () => assert.notEqual(await t.page.evaluate(() => document.documentElement.dataset.frame), before, 'the one that stays goes on'))
  assert.deepEqual(t.wrong, [])
  await t.close()
  await eventually(async () => assert.equal(await subscribers(), 0, 'the last one takes the stream with it'))
})

test('numbers that are not those of now are dimmed, and it is said above them', async () => {
  const way = await proxy(quern.url)
  const t = await open(chromium.b, way.url)
  await t.go('#/overview')
  const dimmed = () => t.page.evaluate(() => Number(getComputedStyle(document.querySelector('main > .tile')).opacity))
  assert.equal(await dimmed(), 1)
  t.calm(true)
  await way.cut()
  await t.page.getByText('No news from the server for').waitFor()
  assert.ok((await dimmed()) < 0.6)
  await way.restore()
  await live(t.page)
  assert.equal(await dimmed(), 1)
  await t.close()
  await way.cut()
})

test('fairness is one sentence, a histogram of lags, and who is furthest from their due', async () => {
  for (let i = 0; i < 200; i++) await insert(quern.url, 20, { tenant: `f${i}` })
  const strategy = 'Fair("tenant", OldestFirst)'
  const { reservations } = await reserve(quern.url, { max: 150, strategy, consumer: 'fair-1' })
  assert.equal(reservations.length, 150)
  await call(quern.url, 'POST', `${base}/reservations/complete`, { items: reservations.map((r) => ({ token: r.token })) })
  const t = await open(chromium.b, quern.url)
  await t.go('#/fairness')
  await t.page.getByRole('region', { name: 'How fair it is' }).getByText(/^No one is owed/).waitFor()
  const [ledger] = (await call(quern.url, 'GET', `${base}/ledgers`)).items
  const of = await call(quern.url, 'GET', `${base}/ledgers/${ledger.id}`)
  assert.equal(of.lags.reduce((n, c) => n + c.tenants, 0), of.tenants, 'each tenant is in one class')
  const columns = await t.page.locator('.hist .col').evaluateAll((all) => all.map((c) => Number(/: ([\d,]+) tenants/.exec(c.title)[1].replace(',', ''))))
  assert.equal(columns.reduce((a, n) => a + n, 0), of.tenants)
  await t.page.getByRole('region', { name: 'Owed most' }).locator('tbody tr').first().waitFor()
  await t.page.getByRole('region', { name: 'Ahead most' }).locator('tbody tr').first().waitFor()
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a comparison names the chunks that only one strategy would hand out', async () => {
  const old = await insert(quern.url, 150, { of: 'compare' })
  const young = await insert(quern.url, 150, { of: 'compare' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/strategies')
  await t.page.getByText('asked in this order').waitFor()
  await t.page.getByRole('textbox', { name: 'Strategy', exact: true }).fill('SelectOnly("of", "compare", OldestFirst)')
  await t.page.getByLabel('The other strategy').fill('SelectOnly("of", "compare", NewestFirst)')
  await t.page.getByRole('button', { name: 'Compare with' }).click()
  for (const [name, id] of [['Only A', old.id], ['Only B', young.id]]) {
    const rows = t.page.getByRole('region', { name, exact: true }).locator('tbody tr')
    await rows.nth(49).waitFor()
    assert.equal(await rows.filter({ hasText: id }).count(), 50, 'the first of a hundred')
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('on paper there are the numbers, and nothing to press', async () => {
  const t = await open(chromium.b, quern.url, { scheme: 'dark' })
  await t.go('#/overview')
  await t.page.emulateMedia({ media: 'print' })
  assert.ok(!(await t.page.getByRole('navigation', { name: 'Pages' }).isVisible()))
  assert.ok(await t.page.getByRole('region', { name: 'Ready', exact: true }).isVisible())
  assert.ok(!(await t.page.getByRole('button', { name: 'Pause', exact: true }).isVisible()))
  const ink = await t.page.evaluate(() => getComputedStyle(document.body).color)
  assert.equal(ink, 'rgb(29, 27, 22)', 'dark on white, whatever the theme')
  await t.page.emulateMedia({ media: null })
  await t.go('#/activity')
  const what = t.page.getByTitle('show only queue.create', { exact: true }).first()
  await what.waitFor()
  await t.page.emulateMedia({ media: 'print' })
  assert.ok(await what.isVisible(), 'what was done is read on paper, though it is pressed on the screen')
  await t.close()
})
