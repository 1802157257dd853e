import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, live, looks, open, server, texts } from './harness.mjs'

let chromium, quern

/** A shard as people name it. */
const shown = (name) => name.replace('~', ', shard ')

before(async () => { [chromium, quern] = await Promise.all([browser(), server()]) })
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

test('a queue of several shards shows them and its groups, and each shard has its own pages', async () => {
  await call(quern.url, 'PUT', '/v1/queues/orders', { settings: { shards: 3 } })
  const of = {}
  for (let n = 0; n < 8; n++) {
    const { queue } = await call(quern.url, 'POST', '/v1/queues/orders/submissions', { group: `g${n}`, run_at: '2100-01-01T00:00:00Z', chunks: { count: 2, template: '{index}' } })
    of[`g${n}`] = queue === 'orders' ? 'orders~1' : queue
  }
  for (let n = 0; n < 4; n++) await call(quern.url, 'POST', '/v1/queues/orders/submissions', { group: `g${n}`, chunks: { count: 30, template: '{index}' } })
  await call(quern.url, 'POST', '/v1/queues/orders/reservations', { strategy: 'Fair("group", Random)', max: 10, timeout_ms: 3600_000 })
  for (const [scheme, width] of looks) {
    const t = await open(chromium.b, quern.url, { width, scheme })
    for (const [page, heading] of [['submissions', 'Submissions'], ['reservations', 'Reservations'], ['failing', 'Failing now'], ['dead-letters', 'Dead letters'], ['rules', 'Rules'], ['consumers', 'Consumers'], ['keys', 'Keys'], ['schedules', 'Schedules'], ['operations', 'Operations'], ['fairness', 'Fairness'], ['strategies', 'Strategies'], ['settings', 'Settings']]) {
      await t.page.goto(`${quern.url}/#/${page}?queue=orders`)
      await t.page.getByRole('heading', { level: 1, name: heading }).waitFor()
      await t.page.getByText('This page is about all shards of orders.').waitFor()
      await eventually(async () => assert.equal(await t.page.getByText('Reading…').count(), 0, page))
      assert.equal(await t.page.getByText('has several shards').count(), 0, page)
      assert.deepEqual(await t.axe(), [], `${page} ${scheme} ${width}: accessibility`)
      const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      assert.ok(over <= 0, `${page} ${scheme} ${width}: ${over} px stand out at the right`)
      if (page === 'keys') await t.page.getByText('8 of 8, most in flight first').waitFor()
      if (page === 'settings') assert.equal(await t.page.getByRole('definition').filter({ hasText: /^3/ }).count() > 0, true, 'the number of shards')
      if (page === 'fairness') await t.page.getByRole('group', { name: 'Ledgers' }).getByText('4 compete, 0 at limits').waitFor()
      if (page === 'strategies') {
        for (const [button, shows] of [['Explain', 'Explain'], ['Preview', 'Chunks that a consumer would get now'], ['Compare with', 'Compare']]) {
          await t.page.getByRole('button', { name: button, exact: true }).click()
          await t.page.getByRole('heading', { level: 2, name: shows, exact: true }).waitFor()
          if (button === 'Preview') await t.page.getByRole('columnheader', { name: 'Shard' }).waitFor()
        }
        assert.deepEqual(await t.axe(), [], `compared ${scheme} ${width}: accessibility`)
      }
      if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/shards-${page}-${scheme}-${width}.png`, fullPage: true })
      if (page !== 'submissions') continue
      for (const group of Object.keys(of)) await t.page.getByText(`group=${group}`, { exact: true }).first().waitFor()
    }
    await t.page.goto(`${quern.url}/#/overview?queue=orders`)
    await t.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await t.page.getByText('This page is about all shards of orders.').waitFor()
    const numbers = await call(quern.url, 'GET', '/v1/queues/orders/stats')
    await t.page.getByText(`in ${numbers.submissions_open} submissions`).waitFor()
    await t.page.getByRole('region', { name: 'Answer' }).getByText('Reading…').waitFor({ state: 'detached' })
    await t.page.getByRole('status').filter({ hasText: '3 shards' }).waitFor()
    const held = t.page.getByRole('main').locator('section').filter({ has: t.page.getByRole('heading', { name: 'In flight by' }) })
    await held.getByText(/in flight: [1-9]/).first().waitFor({ state: 'attached' })
    for (const group of ['g0', 'g1', 'g2', 'g3']) await held.getByRole('link', { name: group, exact: true }).waitFor()
    const shards = t.page.getByRole('region', { name: 'Shards' }).getByRole('row')
    await shards.nth(3).waitFor()
    assert.equal(await shards.count(), 4)
    const groups = t.page.getByRole('region', { name: 'Groups' }).getByRole('row')
    await groups.nth(8).waitFor()
    for (const [group, shard] of Object.entries(of)) {
      const row = groups.filter({ has: t.page.getByText(group, { exact: true }) })
      assert.equal(await row.getByRole('link').nth(1).textContent(), shard.slice('orders~'.length), group)
    }
    assert.deepEqual(await t.axe(), [], `${scheme} ${width}: accessibility`)
    const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    assert.ok(over <= 0, `${scheme} ${width}: ${over} px stand out at the right`)
    await call(quern.url, 'POST', '/v1/queues/orders/submissions', { group: 'g3', chunks: { count: 1000, template: '{index}' } })
    const { ready } = (await call(quern.url, 'GET', '/v1/queues/orders/shards')).items.find((s) => s.queue === of.g3)
    await shards.filter({ hasText: shown(of.g3) }).getByText(ready.toLocaleString('en-US'), { exact: true }).waitFor()
    await t.page.keyboard.press('Control+k') // the palette needs a queue that is followed as a whole
    await t.page.getByRole('listbox').getByText('Overview').waitFor()
    await t.page.keyboard.press('Escape')
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/shards-${scheme}-${width}.png`, fullPage: true })
    await shards.getByRole('link', { name: shown(of.g3), exact: true }).click()
    await live(t.page)
    for (const page of width < 1440 ? [] : ['overview', 'settings', 'submissions', 'keys', 'operations', 'rules', 'dead-letters', 'queues', 'nodes', 'plugins', 'activity']) {
      await t.go(`#/${page}?queue=${encodeURIComponent(of.g3)}`)
      await t.page.getByRole('heading', { level: 1 }).waitFor()
      await eventually(async () => assert.equal(await t.page.getByText('Reading…').count(), 0, page))
      assert.deepEqual((await t.page.evaluate(texts)).lines.filter((line) => line.includes('~')), [], `${page} shows the name that paths have`)
      assert.doesNotMatch(await t.page.title(), /~/)
    }
    await t.page.goto(`${quern.url}/#/submissions?queue=${encodeURIComponent(of.g3)}`)
    await live(t.page)
    assert.match(t.page.url(), new RegExp(`#/submissions\\?queue=${encodeURIComponent(of.g3)}$`))
    assert.deepEqual(t.wrong, [])
    await t.close()
  }
})

test('an operator drains a shard and reopens it', async () => {
  await call(quern.url, 'PUT', '/v1/queues/drained', { settings: { shards: 2 } })
  for (const [scheme, width] of looks) {
    const t = await open(chromium.b, quern.url, { width, scheme })
    await t.page.goto(`${quern.url}/#/overview?queue=drained`)
    const shard = t.page.getByRole('region', { name: 'Shards' }).getByRole('row').filter({ hasText: 'shard 2' })
    await shard.getByRole('button', { name: 'Drain shard 2' }).click()
    const asked = t.page.getByRole('dialog')
    await asked.getByText('Each of its groups moves to another shard').waitFor()
    assert.deepEqual(await t.axe(), [], `${scheme} ${width}: accessibility`)
    await asked.getByRole('button', { name: 'Drain' }).click()
    await shard.getByText('draining', { exact: true }).waitFor()
    const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    assert.ok(over <= 0, `${scheme} ${width}: ${over} px stand out at the right`)
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/drain-${scheme}-${width}.png` })
    await shard.getByRole('button', { name: 'Reopen shard 2' }).click()
    await shard.getByText('open', { exact: true }).waitFor()
    assert.equal((await call(quern.url, 'GET', '/v1/queues/drained/shards')).items[1].state, 'open')
    assert.deepEqual(t.wrong, [])
    await t.close()
  }
})

test('an operator moves a group, and keeps one where it is', async () => {
  await call(quern.url, 'PUT', '/v1/queues/moved', { settings: { shards: 3 } })
  for (const [n, [scheme, width]] of [...looks, ['light', 1280]].entries()) {
    const [empty, busy] = [`empty ${n}`, `busy/${n}`]
    const at = async (group) => call(quern.url, 'GET', `/v1/queues/moved/groups/${encodeURIComponent(group)}`)
    await call(quern.url, 'PUT', `/v1/queues/moved/groups/${encodeURIComponent(empty)}`, {})
    await call(quern.url, 'POST', '/v1/queues/moved/submissions', { group: busy, chunks: { count: 2, template: '{index}' } })
    const [from, stays] = [(await at(empty)).shard, (await at(busy)).shard]
    const to = 1 + (from % 3)
    const t = await open(chromium.b, quern.url, { width, scheme })
    await t.page.goto(`${quern.url}/#/overview?queue=moved`)
    const rows = t.page.getByRole('region', { name: 'Groups' }).getByRole('row')
    const row = (group) => rows.filter({ has: t.page.getByText(group, { exact: true }) })
    await row(empty).getByRole('button', { name: `Move ${empty}` }).click()
    const asked = t.page.getByRole('dialog')
    await asked.getByText('moves as soon as it has no open submissions').waitFor()
    await asked.getByLabel('To').selectOption(`shard ${to}`)
    assert.equal(await asked.getByLabel('To').locator('option').count(), 2, 'it can go to the two others')
    assert.deepEqual(await t.axe(), [], `${scheme} ${width}: accessibility`)
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/move-asked-${scheme}-${width}.png` })
    await asked.getByRole('button', { name: 'Move' }).click()
    await eventually(async () => assert.equal((await at(empty)).shard, to))
    await eventually(async () => assert.equal(await row(empty).getByRole('link').nth(1).textContent(), String(to)))
    await row(busy).getByRole('button', { name: `Move ${busy}` }).click()
    await asked.getByRole('button', { name: 'Move' }).click()
    await row(busy).getByText('when it has no open submissions').waitFor()
    assert.equal((await at(busy)).shard, stays)
    const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    assert.ok(over <= 0, `${scheme} ${width}: ${over} px stand out at the right`)
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/move-${scheme}-${width}.png`, fullPage: true })
    await row(busy).getByRole('button', { name: `Keep ${busy} in shard ${stays}` }).click()
    await asked.getByRole('button', { name: 'Keep' }).first().click()
    await eventually(async () => assert.equal((await at(busy)).moving_to, undefined))
    await row(busy).getByRole('button', { name: `Move ${busy}` }).waitFor()
    await t.go('#/activity')
    const log = t.page.getByRole('region', { name: 'What changed' }).getByRole('row')
    for (const told of ['sent group', 'kept group']) await log.filter({ hasText: told }).filter({ hasText: busy }).first().waitFor()
    assert.deepEqual(t.wrong, [])
    await t.close()
  }
})

test('a submission, the list of queues and the log name a shard by its queue and its number', async () => {
  await call(quern.url, 'PUT', '/v1/queues/parcels', { settings: { shards: 2, max_attempts: 4 } })
  const of = []
  for (let n = 0; !(of[1] && of[2]); n++) {
    const { id, shard } = await call(quern.url, 'POST', '/v1/queues/parcels/submissions', { group: `g${n}`, chunks: { count: 5, template: '{index}' } })
    of[shard] = id
  }
  const { items } = await call(quern.url, 'GET', '/v1/queues/parcels/shards')
  const t = await open(chromium.b, quern.url)
  for (const shard of [1, 2]) {
    await t.go(`#/submissions/${of[shard]}`)
    await t.page.getByRole('main').getByText(`parcels, shard ${shard}`, { exact: true }).waitFor()
  }
  await t.go('#/queues')
  const rows = t.page.getByRole('region', { name: 'All queues' }).getByRole('row')
  const row = (name) => rows.filter({ has: t.page.locator('td.first').getByText(name, { exact: true }) })
  await row('parcels').getByText('In 2 shards:').waitFor()
  const waiting = (name, want) => eventually(async () => assert.equal(Number(await row(name).locator('[data-label="Waiting"]').textContent()), want, name)) // the list is of the last second
  await waiting('parcels', items.reduce((n, s) => n + s.ready, 0))
  for (const { shard, ready } of items) await waiting(`parcels, shard ${shard}`, ready)
  const names = (await rows.locator('td.first').allTextContents()).map((text) => text.trim())
  assert.deepEqual(names.slice(names.indexOf('parcels'), names.indexOf('parcels') + 3), ['parcels', 'parcels, shard 1', 'parcels, shard 2'])
  assert.deepEqual(await t.axe(), [])

  await t.go('#/activity')
  const log = t.page.getByRole('region', { name: 'What changed' }).getByRole('row')
  const made = log.filter({ hasText: 'created shard 2 of parcels' })
  await made.waitFor()
  assert.equal((await made.locator('[data-label="Details"]').textContent()).trim(), 'max_attempts 4', 'only what differs from a queue that says nothing')
  assert.deepEqual(t.wrong, [])
  await t.close()
})
