// The Overview is an answer: one sentence of the server, whose names lead to their pages.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, eventually, insert, looks, open, reserve, server } from './harness.mjs'

let quern, chromium

const base = '/v1/queues/default'

before(async () => {
  quern = await server()
  chromium = await browser()
  await call(quern.url, 'PUT', `${base}/meta-keys/company/values/7`, { limit: 1 })
  await call(quern.url, 'PUT', `${base}/meta-keys/company/values/off`, { limit: 0 })
  await insert(quern.url, 40, { company: 7 })
  await insert(quern.url, 30, { company: 'off' })
  await insert(quern.url, 200, { region: 'ap' })
  await dead(quern.url, 3, { kind: 'broken' })
  await call(quern.url, 'POST', `${base}/rules`, { action: 'pause', match: { meta: { region: 'ap' } }, reason: 'INC-1', actor: 'ana' })
  await reserve(quern.url, { max: 1, strategy: 'SelectOnly("company", 7, OldestFirst)', consumer: 'crashed-eu-3', timeout_ms: 3_600_000 })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const answer = (page) => page.getByRole('region', { name: 'Answer' })

for (const [scheme, width] of looks) {
  test(`the Overview begins with what waits for what, at ${width} px in ${scheme}`, async () => {
    const t = await open(chromium.b, quern.url, { width, scheme })
    await t.go('#/overview')
    await eventually(async () => assert.match(await answer(t.page).locator('p').first().textContent(),
      /^269 wait: 200 are paused by region=ap; 69 behind the limits of 2 values of company \(company=off has a limit of 0, company=7 has 1 of 1 in flight\); 1 is in flight; 3 dead letters\.$/))
    const said = await call(quern.url, 'GET', `${base}/diagnosis`)
    assert.equal(await answer(t.page).locator('p').first().textContent(), said.sentence)
    const [above, below] = await Promise.all([answer(t.page), t.page.getByRole('region', { name: 'Ready', exact: true })].map((l) => l.boundingBox()))
    assert.ok(above.y + above.height <= below.y, 'the sentence is not above the tiles')
    assert.deepEqual(await t.axe(), [])
    for (const [name, hash] of [['company=7', '#/keys/company/7'], ['region=ap', '#/rules'], ['3 dead letters', '#/dead-letters']]) {
      await answer(t.page).getByRole('link', { name, exact: true }).click()
      await t.page.waitForURL((u) => u.hash === hash)
      await t.go('#/overview')
    }
    await t.page.getByRole('region', { name: 'In flight', exact: true }).getByRole('link').click()
    await t.page.waitForURL((u) => u.hash === '#/reservations')
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

test('the submission with most chunks left comes first, and all of them are one click away', async () => {
  const large = await insert(quern.url, 5000, { company: 'large' })
  await insert(quern.url, 1, { company: 'newest' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/overview')
  const card = t.page.getByRole('region', { name: 'Largest open submissions' })
  await eventually(async () => assert.match(await card.locator('tbody tr').first().textContent(), new RegExp(large.id)))
  await t.page.getByRole('link', { name: 'all of them', exact: true }).click()
  await t.page.waitForURL((u) => u.hash === '#/submissions?sort=largest')
  const first = t.page.getByRole('main').locator('tbody tr').first()
  await eventually(async () => assert.match(await first.textContent(), new RegExp(large.id)))
  await t.page.getByRole('button', { name: 'Newest', exact: true }).click()
  await eventually(async () => assert.match(await first.textContent(), /company=newest/))
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

for (const [scheme, width] of looks) {
  test(`all queues are on one page, those that need someone first, at ${width} px in ${scheme}`, async () => {
    for (let i = 0; i < 25; i++) await call(quern.url, 'PUT', `/v1/queues/team-${i}`, {})
    await call(quern.url, 'POST', '/v1/queues/team-7/submissions', { chunks: { count: 12, template: 'row {index}' } })
    const t = await open(chromium.b, quern.url, { width, scheme })
    await t.go('#/queues')
    const rows = t.page.getByRole('main').locator('tbody tr')
    await eventually(async () => assert.match(await rows.filter({ hasText: 'team-7' }).textContent(), /no consumer asks for work.*\d+ wait: \d+ can be handed out, but no consumer asks for work\./))
    await eventually(async () => assert.deepEqual([await rows.count(), /team-7|default/.test(await rows.first().textContent())], [26, true]))
    assert.deepEqual(await t.axe(), [])
    const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    assert.ok(over <= 0, `${over} px stand out at the right`)
    await t.page.getByRole('searchbox', { name: 'Name' }).fill('team-1')
    await eventually(async () => assert.equal(await rows.count(), 11))
    await rows.getByRole('link', { name: 'team-12', exact: true }).click()
    await t.page.waitForURL((u) => u.hash === '#/overview?queue=team-12')
    const selector = t.page.getByRole('combobox', { name: 'queue' })
    assert.deepEqual(await selector.locator('option').allTextContents(), ['team-12', 'all 26 queues…'])
    await selector.selectOption('')
    await t.page.waitForURL((u) => u.hash.startsWith('#/queues'))
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

test('what fails now is one row for each kind of error, and is tried now at a click', async () => {
  const made = await insert(quern.url, 30, { company: 'failing' })
  const { reservations } = await reserve(quern.url, { max: 30, strategy: 'SelectOnly("company", "failing", OldestFirst)' })
  await call(quern.url, 'POST', `${base}/reservations/fail`, { items: reservations.map((r, i) => ({ token: r.token, error: i < 20 ? `HTTP 503 from ${(i * 37 + 170).toString(16)}${i}` : 'no route', retry_after_ms: 3_600_000 })) })
  const t = await open(chromium.b, quern.url)
  await t.go('#/failing')
  const rows = t.page.getByRole('region', { name: 'Failing now' }).locator('tbody tr')
  await eventually(async () => assert.deepEqual(await rows.locator('b').allTextContents(), ['HTTP <n> from <n>', 'no route']))
  assert.match(await rows.first().textContent(), /1× 100 %.*20/)
  assert.deepEqual(await t.axe(), [])
  await rows.first().getByRole('link', { name: 'an example' }).click()
  await t.page.waitForURL((u) => u.hash.startsWith(`#/submissions/${made.id}/`))
  await t.go('#/failing')
  await rows.first().getByRole('button', { name: /^Run now/ }).click()
  await t.told('20 chunks are tried now')
  await eventually(async () => assert.deepEqual(await rows.locator('b').allTextContents(), ['no route']))
  const now = await call(quern.url, 'GET', `/v1/submissions/${made.id}`)
  assert.deepEqual([now.ready, now.waiting], [20, 10])
  const badge = t.page.getByRole('navigation').getByRole('link', { name: /^Failing now/ })
  await eventually(async () => assert.match(await badge.textContent(), /10$/))
  await rows.first().getByRole('button', { name: /^Run half now/ }).click()
  await t.told('5 chunks are tried now')
  await eventually(async () => assert.equal((await call(quern.url, 'GET', `/v1/submissions/${made.id}`)).waiting, 5))
  await eventually(async () => assert.match(await rows.first().textContent(), /1× 100 %5/))
  const { items } = await call(quern.url, 'GET', `${base}/retries?meta.company=failing`)
  assert.deepEqual([items.length, items[0].error, items[0].attempts, items[0].meta.company], [5, 'no route', 1, 'failing'])
  await rows.first().getByRole('button', { name: /^Give up/ }).click()
  const question = t.page.getByRole('dialog')
  assert.match(await question.textContent(), /Give up 5 chunks\?.*on_exhausted/)
  assert.deepEqual(await t.axe(), [])
  await question.getByRole('button', { name: 'Give up 5', exact: true }).click()
  await t.told('5 chunks are given up')
  await eventually(async () => assert.equal((await call(quern.url, 'GET', `/v1/submissions/${made.id}`)).dead, 5))
  await eventually(async () => assert.equal(await rows.count(), 0))
  assert.deepEqual(t.wrong, [])
  await t.close()
})
