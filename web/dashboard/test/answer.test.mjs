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
