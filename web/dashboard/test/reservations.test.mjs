import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, insert, looks, open, reserve, server } from './harness.mjs'
import { consumer, hard, long, rightToLeft } from './hard.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
  await hard(quern.url, { tenants: 5 })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const rows = (page, name = 'Reservations') => page.getByRole('region', { name, exact: true }).locator('tbody tr')

for (const [scheme, width] of looks) {
  test(`who holds what is on a page, at ${width} px in ${scheme}`, async () => {
    const t = await open(chromium.b, quern.url, { width, height: width === 390 ? 844 : 900, scheme })
    await t.go('#/reservations')
    await rows(t.page).nth(20).waitFor()
    const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    assert.ok(over <= 0, `${over} px stand out at the right`)
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/reservations-${scheme}-${width}.png`, fullPage: true })
    assert.deepEqual(await t.axe(), [])
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

// The operator's question, in three actions from the Overview and without typing an id; the name is asked for once.
test('who holds a chunk, free it', async () => {
  const sub = await insert(quern.url, 5, { for: 'stuck' })
  await reserve(quern.url, { max: 3, strategy: 'SelectOnly("for", "stuck", OldestFirst)', consumer: 'stuck-1' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/overview')
  await t.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Reservations' }).click() // 1
  const row = rows(t.page).filter({ hasText: `${sub.id}/1` })
  await row.getByText('stuck-1').waitFor()
  await row.getByRole('button', { name: `Release chunk 1 of ${sub.id}` }).click() // 2
  const asked = t.page.getByRole('dialog', { name: 'Take chunk 1 from stuck-1?' })
  await asked.getByText('1 chunk is offered again at once').waitFor()
  assert.deepEqual(await t.axe(), [])
  await asked.getByLabel('Who').fill('ann')
  await asked.getByRole('button', { name: 'Release' }).click() // 3
  await t.told('chunk 1 taken from stuck-1')
  await eventually(async () => assert.equal((await call(quern.url, 'GET', `/v1/submissions/${sub.id}/chunks/1`)).state, 'ready'))
  const log = await call(quern.url, 'GET', '/v1/audit?action=reservation.release')
  assert.deepEqual([log.items[0].actor, log.items[0].before.consumer, log.items[0].target], ['ann', 'stuck-1', `submission ${sub.id} chunk 1`])

  await t.go(`#/submissions/${sub.id}/0`) // the page of a chunk has its holder, and the holder's page has its chunks
  await t.page.getByRole('button', { name: `Release chunk 0 of ${sub.id}` }).waitFor()
  const { held_since } = await call(quern.url, 'GET', `/v1/submissions/${sub.id}/chunks/0`)
  const since = await t.page.evaluate((at) => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' }).format(new Date(at)), held_since)
  await t.page.getByRole('definition').filter({ hasText: `${since}, ` }).filter({ hasText: / ago$/ }).first().waitFor()
  await t.page.getByRole('link', { name: 'stuck-1' }).click()
  await t.page.getByText('by deadline', { exact: true }).first().waitFor()
  await eventually(async () => assert.equal(await rows(t.page).count(), 2))
  await rows(t.page).getByRole('link', { name: `${sub.id}/2` }).click()
  await t.page.getByRole('button', { name: `Release chunk 2 of ${sub.id}` }).waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

for (const [scheme, width] of looks) {
  test(`what a consumer says of its work is on the pages of its reservations and of the chunk, at ${width} px in ${scheme}`, async () => {
    const name = `told-${width}-${scheme}`
    const note = '<b>page</b> 3 of a long report, ' + 'with many words '.repeat(13)
    const sub = await insert(quern.url, 2, { for: name })
    const { reservations: [{ token }] } = await reserve(quern.url, { max: 2, strategy: `SelectOnly("for", "${name}", OldestFirst)`, consumer: name })
    const t = await open(chromium.b, quern.url, { width, height: width === 390 ? 844 : 900, scheme })
    await t.go(`#/reservations?consumer=${name}`)
    await eventually(async () => assert.equal(await rows(t.page).count(), 2))
    assert.equal(await t.page.getByRole('progressbar').count(), 0)
    await call(quern.url, 'POST', '/v1/queues/default/reservations/extend', { items: [{ token, progress: 0.4, note }] })
    const fits = async () => {
      const bar = t.page.getByRole('progressbar', { name: 'Progress' })
      await bar.waitFor()
      assert.equal(await bar.count(), 1)
      assert.equal(await bar.getAttribute('aria-valuenow'), '40')
      await t.page.getByText('40 %', { exact: true }).waitFor()
      await t.page.getByText('<b>page</b> 3').waitFor()
      const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      assert.ok(over <= 0, `${over} px stand out at the right`)
      assert.deepEqual(await t.axe(), [])
    }
    await fits()
    await t.go(`#/submissions/${sub.id}/0`)
    await fits()
    await call(quern.url, 'POST', '/v1/queues/default/reservations/complete', { items: [{ token }] })
    await t.page.getByRole('progressbar', { name: 'Progress' }).waitFor({ state: 'detached' })
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

test('what one consumer holds is taken from the list of it, all at once', async () => {
  const sub = await insert(quern.url, 150, { for: 'crashed' })
  for (const max of [100, 30]) await reserve(quern.url, { max, strategy: 'SelectOnly("for", "crashed", OldestFirst)', consumer: 'crashed-1' })
  const t = await open(chromium.b, quern.url)
  t.allow(404) // a consumer that holds nothing is forgotten
  await t.go('#/reservations?consumer=crashed-1')
  await t.page.getByRole('button', { name: 'Release all 130 chunks of crashed-1' }).click()
  const asked = t.page.getByRole('dialog', { name: 'Take 130 from crashed-1?' })
  await asked.getByText('130 chunks are offered again at once').waitFor()
  await asked.getByLabel('Who').fill('ann')
  assert.ok(await asked.getByRole('button', { name: 'Release 130' }).isDisabled(), 'an action on many wants the number typed')
  await asked.getByLabel('Type 130 to go on').fill('130')
  assert.deepEqual(await t.axe(), [])
  await asked.getByRole('button', { name: 'Release 130' }).click()
  await t.told('130 chunks taken from crashed-1')
  await t.page.getByText('No reservation matches the filters.').waitFor()
  assert.equal((await call(quern.url, 'GET', `/v1/submissions/${sub.id}`)).ready, 150)
  assert.equal((await call(quern.url, 'GET', '/v1/audit?action=consumer.release')).items[0].actor, 'ann')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('reservations are filtered, and a value has its holders', async () => {
  const t = await open(chromium.b, quern.url)
  const seven = (name) => eventually(async () => assert.equal(await rows(t.page, name).count(), 7))
  await t.go('#/reservations')
  await t.page.getByRole('combobox', { name: /^Of/ }).selectOption('value')
  await t.page.getByLabel('What to filter by').fill(`tenant=${rightToLeft}`)
  await t.page.getByRole('button', { name: 'Add filter' }).click()
  await seven('Reservations')
  await t.page.getByRole('button', { name: 'Overdue' }).click()
  await t.page.getByText('No reservation matches the filters.').waitFor()
  await t.page.getByRole('button', { name: /^Remove the filter tenant=/ }).click()
  await t.page.getByRole('button', { name: 'All', exact: true }).click()
  await t.page.getByLabel('What to filter by').fill(consumer)
  await t.page.getByRole('button', { name: 'Add filter' }).click()
  await eventually(async () => assert.equal(await rows(t.page).count(), 21))
  await t.go(`#/keys/tenant/${encodeURIComponent(long('-a'))}`)
  await seven('Holders')
  await t.page.getByRole('region', { name: 'Holders' }).getByRole('button', { name: /^Release chunk/ }).first().waitFor()
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('Back in a list of several pages is the page before, and not the one where the reader came from', async () => {
  await insert(quern.url, 150, { for: 'pages' })
  await reserve(quern.url, { max: 150, strategy: 'SelectOnly("for", "pages", OldestFirst)', consumer: 'many' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/overview')
  await t.go('#/reservations?consumer=many')
  await rows(t.page).nth(99).waitFor()
  await t.page.getByRole('link', { name: 'Next', exact: true }).click()
  await eventually(async () => assert.equal(await rows(t.page).count(), 50))
  await t.page.getByRole('button', { name: 'Back', exact: true }).click()
  await eventually(async () => assert.equal(await rows(t.page).count(), 100))
  assert.match(t.page.url(), /#\/reservations\?consumer=many$/)
  assert.deepEqual(t.wrong, [])
  await t.close()
})
