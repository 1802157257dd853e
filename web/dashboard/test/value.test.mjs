import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, eventually, insert, looks, open, reserve, server } from './harness.mjs'
import { hard, long, rightToLeft, turned } from './hard.mjs'

let quern, chromium, ids

before(async () => {
  quern = await server()
  chromium = await browser()
  ids = await hard(quern.url, { tenants: 10 })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const hash = (text) => `#/keys/tenant/${encodeURIComponent(text)}`
const sentence = (page) => page.getByRole('region', { name: 'Diagnosis' })

for (const [scheme, width] of looks) {
  test(`the page of a value says why its work waits, at ${width} px in ${scheme}`, async () => {
    const t = await open(chromium.b, quern.url, { width, height: width === 390 ? 844 : 900, scheme })
    t.allow(404)
    for (const [text, want] of [
      ['t0', /^Held: 7 in flight|^Ready: 50 can be handed out|^Not asked for: 50 are selected by no strategy/],
      [long('-a'), /^Held: 7 of 7 in flight, by ip-10-20-30-40.*; 293 wait\./],
      [rightToLeft, /^Paused: 93 are paused by tenant=שלום-עולם-לקוח; 7 in flight, by ip-10/],
      [turned, /^Paused: 83 are paused by tenant="invoice\\u202eexe\.txt"; 7 in flight/],
      ['large', /^Paused: 9\.00 M are paused by tenant=large\./],
      ['none-has-it', /^Empty: no open submission has tenant=none-has-it\./],
    ]) {
      await t.go(hash(text))
      await sentence(t.page).getByText(want).waitFor()
      if (text === rightToLeft) { // it does not turn the number behind it around
        const name = sentence(t.page).locator('p bdi').first()
        assert.equal(await name.textContent(), rightToLeft)
        const ends = await name.evaluate((e) => { const r = document.createRange(); r.setStart(e.nextSibling, 2); r.setEnd(e.nextSibling, 3); return [e.getClientRects()[0], r.getClientRects()[0]].map(({ left, right, top }) => ({ left, right, top })) })
        assert.ok(ends[1].top > ends[0].top + 5 || ends[1].left >= ends[0].right, JSON.stringify(ends))
      }
      if (text !== 'none-has-it') await t.page.getByRole('region', { name: 'Submissions' }).locator('tbody tr').first().waitFor()
      const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      assert.ok(over <= 0, `${text}: ${over} px stand out at the right`)
      if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/value-${text.slice(0, 4)}-${scheme}-${width}.png`, fullPage: true })
      assert.deepEqual(await t.axe(), [], text)
    }
    await t.go(hash(turned)) // the log has its name with escapes
    await t.page.getByRole('region', { name: 'What changed' }).getByTitle('show only value.set').waitFor()
    await t.go('#/submissions/' + ids.large)
    await sentence(t.page).getByText('Paused: 9.00 M are paused by tenant=large.').waitFor()
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

test('a value is reached from chips, strips, tables and the palette, which finds it once', async () => {
  const t = await open(chromium.b, quern.url)
  const there = (text) => t.page.waitForURL((u) => decodeURIComponent(u.hash) === `#/keys/tenant/${text}`)
  for (const typed of ['tenant t0', 'tenant=t0']) {
    await t.go('#/overview')
    await t.page.getByRole('button', { name: 'Newest open' }).or(t.page.getByRole('heading', { name: 'Overview' })).first().waitFor()
    await t.page.getByText('In flight by').waitFor()
    await t.page.keyboard.press('Control+k')
    await t.page.getByRole('combobox', { name: /^Page, id/ }).fill(typed)
    const found = t.page.getByRole('option').filter({ hasText: /^tenant=t0value$/ })
    await eventually(async () => assert.equal(await found.count(), 1, typed))
    await t.page.keyboard.press('Enter')
    await there('t0')
  }
  await t.go('#/overview')
  await t.page.getByRole('region', { name: 'Largest open submissions' }).getByRole('link', { name: 'tenant=large' }).click()
  await there('large')
  await t.go('#/overview?key=tenant')
  await t.page.locator('.strip').getByRole('link').filter({ hasText: 'שלום' }).click()
  await there(rightToLeft)
  await t.go('#/keys?key=tenant')
  await t.page.getByRole('region', { name: 'Values of tenant' }).getByRole('link', { name: 't0', exact: true }).click()
  await there('t0')
  await t.page.getByRole('button', { name: 'Show', exact: true }).click()
  await t.page.getByRole('region', { name: 'All rules' }).getByRole('link', { name: 'tenant=t1', exact: true }).click()
  await there('t1')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the failures of a value are grouped on its page, and redriven from there', async () => {
  const t = await open(chromium.b, quern.url)
  t.allow(404) // all of its chunks are dead: it is not counted
  await dead(quern.url, 12, { tenant: '7' })
  const left = async (query) => (await call(quern.url, 'GET', `/v1/queues/default/dead-letters/groups?${query}`)).items.reduce((n, g) => n + g.count, 0)
  const others = await left('meta.tenant=failed')
  await t.go('#/keys/tenant/s%3A7')
  const failures = t.page.getByRole('region', { name: 'Failures' })
  await failures.getByRole('row', { name: /connection refused.* 8 / }).waitFor()
  await failures.getByRole('link', { name: 'connection refused' }).click()
  await t.page.getByRole('button', { name: 'Remove the filter tenant=s:7' }).waitFor()
  const row = t.page.getByRole('region', { name: 'Dead chunks' }).locator('tbody tr')
  await eventually(async () => assert.equal(await row.count(), 8))
  await t.page.getByText(/dead chunks with this error of tenant="7"/).waitFor()
  await t.page.getByRole('button', { name: 'Redrive 8…' }).click()
  await t.page.getByRole('form', { name: 'Redrive' }).getByRole('button', { name: 'Redrive 8' }).click()
  await eventually(async () => assert.equal(await left('meta.tenant=s%3A7'), 4))
  assert.equal(await left('meta.tenant=failed'), others)

  await t.page.getByRole('button', { name: 'Remove the filter fingerprint' }).click()
  await t.page.getByLabel('Died').selectOption('1h')
  await t.page.getByText(/^4 dead chunks of tenant="7"\s+that died since/).waitFor()
  await t.page.getByRole('button', { name: 'Redrive 4…' }).click()
  await t.page.getByRole('form', { name: 'Redrive' }).getByRole('button', { name: 'Redrive 4' }).click()
  await eventually(async () => assert.equal(await left('meta.tenant=s%3A7'), 0))
  assert.equal(await left('meta.tenant=failed'), others)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('limit and weight are changed on the page of a value, and what changed is told', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go(hash('t0'))
  await t.page.getByRole('button', { name: 'Change…' }).click()
  await t.page.getByRole('spinbutton', { name: 'Limit' }).fill('0')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.told('tenant=t0: limit 0, weight 2')
  await sentence(t.page).getByText('Held: 50 wait, as tenant=t0 has a limit of 0.').waitFor()
  assert.equal((await call(quern.url, 'GET', '/v1/queues/default/meta-keys/tenant/values/t0')).limit, 0)
  await t.page.getByRole('region', { name: 'What changed' }).getByTitle('show only value.set').first().waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('why offers the strategies that consumers reserved by', async () => {
  await reserve(quern.url, { max: 1, strategy: 'SelectOnly("tenant", "failed", NewestFirst)' })
  const t = await open(chromium.b, quern.url)
  await t.go(`#/submissions/${ids.large}/5`)
  const list = t.page.getByRole('combobox', { name: 'A strategy of the last hour' })
  const text = 'SelectOnly("tenant", "failed", NewestFirst)'
  await list.selectOption(text)
  await eventually(async () => assert.equal(await t.page.getByRole('textbox', { name: 'Strategy of the consumer' }).inputValue(), text))
  await t.page.getByRole('button', { name: 'Ask why' }).click()
  await t.page.getByText('The chunk is').waitFor()
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the form that asks why stays where it is when the strategies come', async () => {
  const t = await open(chromium.b, quern.url)
  let arrive
  const held = new Promise((go) => { arrive = go })
  await t.page.route('**/strategies/in-use', async (route) => { await held; await route.continue() })
  await t.go(`#/submissions/${ids.large}/5`)
  const ask = t.page.getByRole('button', { name: 'Ask why' })
  await ask.waitFor()
  const form = t.page.locator('form').filter({ has: ask })
  const place = () => form.evaluate((f) => f.querySelector('button').getBoundingClientRect().top - f.getBoundingClientRect().top)
  const before = await place()
  arrive()
  await t.page.locator('select:enabled').filter({ hasText: 'failed' }).waitFor()
  assert.equal(await place(), before)
  await t.close()
})

test('what is written into the form that asks why replaces what was chosen there, though the strategies come in between', async () => {
  const t = await open(chromium.b, quern.url)
  let arrive
  const held = new Promise((go) => { arrive = go })
  await t.page.route('**/strategies/in-use', async (route) => { await held; await route.continue() })
  await t.go(`#/submissions/${ids.large}/5`)
  const field = t.page.getByLabel('Strategy of the consumer')
  await field.selectText()
  arrive()
  await t.page.locator('select:enabled').filter({ hasText: 'failed' }).waitFor()
  await t.page.keyboard.insertText('NewestFirst')
  assert.equal(await field.inputValue(), 'NewestFirst')
  await t.close()
})

test('a submission says for how long it has been worked on, since its first reservation', async () => {
  const { id } = await insert(quern.url, 5, { of: 'begun' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/submissions/' + id)
  const step = t.page.getByRole('list', { name: 'Timeline' }).getByRole('listitem').filter({ hasText: 'Worked on' })
  await step.getByText('not begun').waitFor()
  await reserve(quern.url, { max: 2, strategy: 'SelectOnly("of", "begun", OldestFirst)' })
  await step.getByText(/^for \d+m? ?\d*s?, 2 in flight$|^for <1s, 2 in flight$/).waitFor()
  const { first_reserved_at } = await call(quern.url, 'GET', `/v1/submissions/${id}/diagnosis`)
  assert.ok(Date.parse(first_reserved_at) > 0, `first_reserved_at: ${first_reserved_at}`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('values are listed by each of their numbers, in the order of the server', async () => {
  for (let n = 0; n < 3; n++) await insert(quern.url, 400, { tenant: 'often' })
  await insert(quern.url, 90, { tenant: 'shut' })
  await call(quern.url, 'POST', '/v1/queues/default/rules', { action: 'block', match: { meta: { tenant: 'shut' } }, reason: 'a test', actor: 'ana' })
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/tenant/values/heavy', { weight: 9 })
  const inPath = (value) => (typeof value === 'string' && /^-?\d+$/.test(value) ? `s:${value}` : String(value)) // another test leaves the text "7"
  await call(quern.url, 'POST', '/v1/queues/default/submissions', { meta: { tenant: 'later' }, run_at: new Date(Date.now() + 3_600_000).toISOString(), chunks: { count: 500, template: 'x' } })
  await insert(quern.url, 70, { tenant: 'broken' }, { on_exhausted: 'dead_letter' })
  const items = async (tenant, max, more) => ({ items: (await reserve(quern.url, { max, strategy: `SelectOnly("tenant", "${tenant}", OldestFirst)`, consumer: 'quick' })).reservations.map(({ token }) => ({ token, ...more })) })
  await call(quern.url, 'POST', '/v1/queues/default/reservations/fail', await items('broken', 60, { error: 'no', fatal: true }))
  await call(quern.url, 'POST', '/v1/queues/default/reservations/complete', await items('often', 300))
  const t = await open(chromium.b, quern.url)
  await t.go('#/keys?key=tenant')
  const list = t.page.getByRole('region', { name: 'Values of tenant' })
  for (const [sort, first] of [['waiting', 'later'], ['dead', 'broken'], ['done', 'often'], ['oldest'], ['paused', 'large'], ['weight', 'heavy'], ['submissions', 'often'], ['ready', 'often'], ['blocked', 'shut'], ['in_flight', undefined]]) {
    await t.page.getByRole('combobox', { name: /^Sort/ }).selectOption(sort)
    await t.page.getByText(sort === 'oldest' ? 'longest ready first' : `most ${sort.replace('_', ' ')} first`).waitFor()
    await eventually(async () => { // leases end meanwhile, so both are read again
      const { items } = await call(quern.url, 'GET', `/v1/queues/default/meta-keys/tenant/values?sort=${sort}&limit=3`)
      if (first) assert.equal(items[0].value, first, sort)
      assert.deepEqual(await list.locator('tbody tr td.first a').evaluateAll((all) => all.slice(0, 3).map((a) => decodeURIComponent(a.hash.split('/').at(-1)))), items.map((v) => inPath(v.value)), sort)
    })
    assert.equal(new URLSearchParams(t.page.url().split('?').at(-1)).get('sort') ?? 'in_flight', sort)
  }
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})
