import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, consumers, dead, eventually, insert, live, looks, manifest, misread, open, proxy, renumbered, reserve, server, stats, texts, upload } from './harness.mjs'

const huge = '9223372036854775807'
const companies = ['acme', 'globex', 'initech', 'umbrella', 'hooli', 'stark', 'wayne', 'tyrell', 'wonka', 'cyberdyne', 'soylent', 'oscorp', 'aperture']
let quern, chromium, stopConsumers, submission, failed, held

before(async () => {
  quern = await server()
  chromium = await browser()
  // Its chunks are never handed out, so the reason can be asked for at any moment.
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/source/values/held', { limit: 0 })
  held = (await insert(quern.url, 20_000, { source: 'held', mode: 'full' })).id
  for (const [i, company] of companies.entries()) {
    for (const mode of ['full', 'preview']) {
      const { id } = await insert(quern.url, 20_000 * (1 + (i % 4)), { company, mode }, { priority: i % 5 })
      if (company === 'oscorp') submission = id // a large one: it is worked on for as long as the tests run
    }
  }
  for (const [company, limit] of [['acme', 5], ['globex', 8], ['hooli', 3]]) await call(quern.url, 'PUT', `/v1/queues/default/meta-keys/company/values/${company}`, { limit })
  await call(quern.url, 'PUT', '/v1/queues/default/strategies/nightly', { strategy: 'MaxSimultaneous("company", 5, OldestFirst)' })
  for (const [company, weight] of [['stark', 3], ['wayne', 2]]) await call(quern.url, 'PUT', `/v1/queues/default/meta-keys/company/values/${company}`, { weight })
  failed = await dead(quern.url, 200, { company: 'acme', source: 'legacy' })
  await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms']))
  await upload(quern.url, manifest('2.0.0', ['limit:none', 'priority']))
  await call(quern.url, 'POST', '/v1/plugins/order/activate', { version: '1.0.0' })
  await call(quern.url, 'POST', '/v1/plugins/order/shadow', { version: '2.0.0' })
  await call(quern.url, 'PUT', '/v1/queues/default/schedules/nightly', { spec: '30 2 * * 1-5', tz: 'Europe/Amsterdam', template: { meta: { kind: 'nightly' }, chunks: { count: 100, template: 'part {index}' } } })
  await call(quern.url, 'PUT', '/v1/queues/default/schedules/heartbeat', { spec: '@every 1h', template: { meta: { kind: 'heartbeat' }, chunks: { count: 1, template: 'x' } } })
  await call(quern.url, 'POST', '/v1/queues/default/rules', { action: 'pause', match: { meta: { company: 'initech' } }, reason: 'their API is down, INC-311', actor: 'ana', until: new Date(Date.now() + 5_400_000).toISOString() })
  const past = await call(quern.url, 'POST', '/v1/queues/default/rules', { action: 'pause', match: { meta: { company: 'oscorp' } }, reason: 'a deployment', actor: 'ana' })
  await call(quern.url, 'DELETE', `/v1/queues/default/rules/${past.id}?actor=bo`)
  await call(quern.url, 'POST', '/v1/bulk-operations', { queue: 'default', action: 'reprioritize', priority: 4, filter: { meta: { company: 'oscorp' } }, actor: 'ana' })
  await call(quern.url, 'POST', '/v1/bulk-operations', { queue: 'default', action: 'redrive', rate_per_second: 1, filter: { fingerprint: '0123456789abcdef' }, actor: 'ana', dry_run: true })
  await reserve(quern.url, { max: 12, strategy: 'OldestFirst', consumer: 'hoarder' })
  stopConsumers = consumers(quern.url, ['Random', 'OldestFirst', 'SelectOnly("mode", "preview", Random)', 'Fair("company", Random)', 'CustomPriority', 'Fair("mode", Fair("company", OldestFirst))', 'NewestFirst', 'Plugin("order", Random)'])
  if (process.env.SHOTS) await new Promise((shown) => setTimeout(shown, 400_000)) // pictures show the past; tests do not need it
})
after(async () => {
  await stopConsumers?.()
  await chromium?.stop()
  await quern?.stop()
})

const number = (text) => Number(text.replaceAll(/[^\d]/g, ''))
/** The exact number of a tile, from its title: the shown number may be shortened. */
const tile = async (page, name) => number(await page.getByRole('region', { name, exact: true }).locator('.v').getAttribute('title'))
const until = (page, fn, arg) => page.waitForFunction(fn, arg)

const pages = () => [
  ['overview', '#/overview', (p) => p.locator('.chart canvas').waitFor()],
  ['keys', '#/keys?key=company', (p) => p.getByRole('cell', { name: 'acme', exact: true }).waitFor()],
  ['submissions', '#/submissions', (p) => p.locator('tbody tr').nth(5).waitFor()],
  ['submission', `#/submissions/${submission}`, (p) => p.locator('.map a').nth(100).waitFor()],
  ['submission-failed', `#/submissions/${failed}`, (p) => p.getByText('inspect and redrive').first().waitFor()],
  ['chunk', `#/submissions/${held}/19990`, async (p) => {
    await p.getByLabel('Strategy of the consumer').fill('OrElse(SelectOnly("mode", "full", OldestFirst), MaxSimultaneous("company", 1, OldestFirst))')
    await p.getByRole('button', { name: 'Ask why' }).click()
    await p.getByText('Branch 2').first().waitFor()
  }],
  ['chunk-dead', `#/submissions/${failed}/1`, (p) => p.getByRole('cell', { name: 'importer-7' }).waitFor()],
  ['fairness', '#/fairness', (p) => p.locator('.shares .tick').nth(5).waitFor()],
  ['plugins', '#/plugins', (p) => p.getByRole('link', { name: 'order', exact: true }).waitFor()],
  ['plugin', '#/plugins/order?version=2.0.0&want=8', async (p) => {
    await p.getByRole('button', { name: 'Score ready chunks' }).click()
    await p.getByText('would be taken.').waitFor()
  }],
  ['consumers', '#/consumers', (p) => p.getByRole('link', { name: 'worker-1', exact: true }).waitFor()],
  ['consumer', '#/consumers/hoarder', (p) => p.locator('.gauge').nth(3).waitFor()],
  ['rules', '#/rules', async (p) => {
    await p.getByRole('region', { name: 'Active rules' }).getByText('their API is down').waitFor()
    await p.getByRole('region', { name: 'Past rules' }).getByText('a deployment').waitFor()
  }],
  ['schedules', '#/schedules?name=nightly', async (p) => {
    await p.getByRole('button', { name: 'nightly', exact: true }).waitFor()
    await p.locator('.ticks li').nth(4).waitFor()
  }],
  ['dead-letters', '#/dead-letters', async (p) => {
    await p.getByRole('button', { name: 'connection refused' }).waitFor()
    await p.getByRole('link', { name: failed }).first().waitFor()
  }],
  ['strategies', '#/strategies', async (p) => {
    await p.getByText('asked in this order').waitFor()
    await p.getByText('asked in this order').waitFor() // it moves the buttons down, away from under a click
    await p.getByRole('button', { name: 'Explain' }).click()
    await p.getByRole('heading', { name: 'Explain' }).waitFor()
  }],
  ['operations', '#/operations', async (p) => {
    await p.getByRole('region', { name: 'Ended operations' }).getByText('reprioritize').waitFor()
    await p.getByRole('region', { name: 'Lag' }).waitFor()
  }],
  ['submission-new', '#/submissions?new=yes&state=open', async (p) => {
    await p.getByRole('button', { name: /^Times, attempts/ }).click()
    await p.getByRole('button', { name: 'given here' }).click()
    await p.getByLabel('Attachment').waitFor()
  }],
  ['settings', '#/settings', (p) => p.getByText('reservation_timeout_ms').waitFor()],
]

for (const [scheme, width] of looks) {
  test(`every page, ${scheme}, ${width} px: no error, no violation, accessible, nothing cut off`, async () => {
    const t = await open(chromium.b, quern.url, { width, height: width === 390 ? 844 : 1000, scheme })
    for (const [name, hash, ready] of pages()) {
      await t.go(hash)
      await ready(t.page)
      assert.deepEqual(await t.axe(), [], `${name}: accessibility`)
      const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      assert.ok(over <= 0, `${name}: ${over} px stand out at the right`)
      assert.deepEqual(await t.violations(), [], `${name}: content security policy`)
      if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/${name}-${scheme}-${width}.png`, fullPage: !(width === 1440 && ['dead-letters', 'submissions', 'strategies', 'keys'].includes(name)) })
    }
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

for (const n of process.env.ALL_PAGES ? [1, 2, 4149] : [1, 4149]) { // make soak: all
  test(`every page says ${n} of each thing as a reader would`, async () => {
    const way = await renumbered(quern.url, n)
    const t = await open(chromium.b, way.url)
    t.calm(true)
    for (const [name, hash] of pages()) {
      await t.go(hash)
      await t.page.locator('main h1').waitFor()
      await t.page.waitForFunction(() => !document.querySelector('main').textContent.includes('Reading…'))
      assert.deepEqual(misread(await t.page.evaluate(texts)), [], name)
    }
    await t.close()
    way.close()
  })
}

test('numbers move without a reload, and a frozen view holds them', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go('#/overview')
  const was = await t.page.getByRole('region', { name: 'Done', exact: true }).locator('.d').textContent()
  await until(t.page, (old) => document.querySelector('[aria-label="Done"] .d').textContent !== old, was)
  const ready = await tile(t.page, 'Ready')
  await insert(quern.url, 700_000, { company: 'acme', mode: 'full' })
  await until(t.page, (n) => Number(document.querySelector('[aria-label="Ready"] .v').title.replaceAll(',', '')) > n, ready + 600_000)

  await t.page.getByRole('button', { name: 'Freeze view' }).click()
  await t.page.locator('[data-state="frozen"]').waitFor()
  const held = await tile(t.page, 'Ready')
  await insert(quern.url, 500_000, { company: 'globex', mode: 'full' })
  const other = await open(chromium.b, quern.url)
  await other.go('#/overview')
  await until(other.page, (n) => Number(document.querySelector('[aria-label="Ready"] .v').title.replaceAll(',', '')) > n, held + 400_000)
  assert.equal(await tile(t.page, 'Ready'), held, 'a frozen page must not move')
  await t.page.getByRole('button', { name: 'Freeze view', pressed: true }).click()
  await until(t.page, (n) => Number(document.querySelector('[aria-label="Ready"] .v').title.replaceAll(',', '')) > n, held + 400_000)
  assert.deepEqual([...t.wrong, ...other.wrong], [])
  await t.close()
  await other.close()
})

test('a stream that is cut is marked stale, comes back, and goes on from the last event', async () => {
  const way = await proxy(quern.url)
  const t = await open(chromium.b, way.url)
  await t.go('#/overview')
  const first = await t.page.evaluate(() => document.documentElement.dataset.frame)
  await until(t.page, (frame) => Date.parse(document.documentElement.dataset.frame) - Date.parse(frame) >= 3000, first)
  assert.equal(way.streams.length, 1, 'a stream that is followed is not opened again')
  t.calm(true)
  await way.cut()
  await t.page.locator('[data-state="stale"]').waitFor()
  await eventually(async () => assert.match(await t.page.locator('.live').textContent(), /last update \d+ s ago/))
  assert.equal(way.seen.length, 0)
  await way.restore()
  await live(t.page)
  assert.ok(way.seen.length > 0, 'the browser must say which event it had last')
  assert.match(way.seen[0], /^[a-z0-9]+-[a-z0-9]+-[a-z0-9]+$/)
  await t.close()
  await way.cut()
})

test('a limit that is set in the page is obeyed by the next reservation; one that was changed elsewhere is not overwritten', async () => {
  await insert(quern.url, 100_000, { tenant: 'solo' })
  const t = await open(chromium.b, quern.url)
  t.allow(412)
  await t.go('#/keys?key=tenant')
  const set = () => t.page.getByRole('button', { name: 'Set limit and weight of solo' }).click()
  await set()
  await t.page.getByRole('spinbutton', { name: 'Limit' }).fill('2')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.told('tenant=solo: limit 2')
  await stopConsumers() // no other consumer takes chunks of it
  const free = 2 - (await call(quern.url, 'GET', '/v1/queues/default/meta-keys/tenant/values/solo')).in_flight
  const got = await reserve(quern.url, { max: 50, strategy: 'SelectOnly("tenant", "solo", Random)' })
  assert.equal(got.reservations.length, free)
  assert.equal((await reserve(quern.url, { max: 50, strategy: 'SelectOnly("tenant", "solo", Random)' })).reservations.length, 0)
  const solo = t.page.locator('tbody tr', { hasText: 'solo' })
  await solo.locator('.badge').getByText(/^(\d+m )?\d+s$/).waitFor() // for how long it has been at its limit

  await set()
  await t.page.getByRole('spinbutton', { name: 'Limit' }).fill('70') // first: a form without changes follows the changes of others
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/tenant/values/solo', { limit: 9 })
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.page.getByRole('region', { name: 'Conflict' }).getByText('It changed while you edited it').waitFor()
  assert.equal((await call(quern.url, 'GET', '/v1/queues/default/meta-keys/tenant/values/solo')).limit, 9)
  await t.page.getByRole('button', { name: 'Leave as it is' }).click()
  await t.page.locator('tbody').getByText(/\/ 9$/).waitFor()
  await set()
  await t.page.getByRole('spinbutton', { name: 'Limit' }).fill('')
  await t.page.getByRole('spinbutton', { name: 'Weight' }).fill('2.5')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.told('tenant=solo: no limit, weight 2.5')
  await set()
  await t.page.getByRole('textbox', { name: 'Rate' }).fill('50/90s')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.told('tenant=solo: no limit, weight 2.5, rate 50/90s')
  await solo.getByText('50/90s').waitFor()
  const now = await call(quern.url, 'GET', '/v1/queues/default/meta-keys/tenant/values/solo')
  assert.deepEqual([now.limit, now.weight, now.rate], [null, 2.5, { max: 50, per_ms: 90_000 }])
  await set()
  await t.page.getByRole('spinbutton', { name: 'Most submissions' }).fill('1')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.told('tenant=solo: no limit, weight 2.5, rate 50/90s, at most 1 open submission')
  const quota = await call(quern.url, 'GET', '/v1/queues/default/meta-keys/tenant/values/solo')
  assert.deepEqual([quota.weight, quota.rate, quota.quota], [2.5, { max: 50, per_ms: 90_000 }, { submissions: 1 }])
  const refused = await fetch(`${quern.url}/v1/queues/default/submissions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ meta: { tenant: 'solo' }, chunks: { count: 1, template: 'x' } }) })
  assert.deepEqual([refused.status, (await refused.json()).code], [429, 'limit_reached'])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('strategies are checked while they are written, named, compared; chunks are asked why', async () => {
  const t = await open(chromium.b, quern.url)
  t.allow(404, 422)
  await t.go('#/strategies')
  const text = t.page.getByRole('textbox', { name: 'Strategy', exact: true })
  await text.fill('SelectOnly("mode", "preview"')
  await t.page.getByRole('alert').waitFor()
  await text.fill('MaxSimultaneous("company", 3, Random)')
  await t.page.getByText('asked in this order').waitFor()
  await t.page.getByLabel('Save as').fill('careful')
  await t.page.getByRole('button', { name: 'Save', exact: true }).click()
  await t.told('careful is at version 1')
  assert.equal((await call(quern.url, 'GET', '/v1/queues/default/strategies/careful')).strategy, 'MaxSimultaneous("company", 3, Random)')
  await t.page.getByRole('button', { name: 'Compare with' }).click()
  await t.page.getByRole('heading', { name: 'Compare' }).waitFor()
  await t.page.reload()
  await eventually(async () => assert.equal(await text.inputValue(), 'MaxSimultaneous("company", 3, Random)', 'the address holds the text'))

  await t.go('#/submissions/1')
  await t.page.getByRole('alert').filter({ hasText: /request \S+/ }).waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('submissions are filtered by address, opened by keyboard, changed and cancelled', async () => {
  // later: the consumers of this file would finish it while the page is looked at
  const { id } = await call(quern.url, 'POST', '/v1/queues/default/submissions', { meta: { company: 'only-here', big: 1 }, chunks: { count: 50, template: 'x' }, run_at: '2100-01-01T00:00:00Z' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/submissions?meta.company=only-here&state=open')
  await t.page.getByRole('link', { name: id }).waitFor()
  await eventually(async () => assert.equal(await t.page.getByRole('region', { name: 'Submissions' }).locator('tbody tr').count(), 1))
  await t.page.getByRole('combobox', { name: 'Age' }).selectOption('over a day')
  await t.page.getByText('No submission of this queue matches').waitFor()
  await t.page.getByRole('combobox', { name: 'Age' }).selectOption('under 1 h')
  await t.page.getByRole('link', { name: id }).waitFor()
  await t.page.locator('#main').focus()
  await t.page.keyboard.press('j')
  await t.page.keyboard.press('Enter')
  await t.page.getByRole('heading', { name: 'Facts' }).waitFor()
  await t.page.getByLabel('New priority').fill('77')
  await t.page.getByRole('button', { name: 'Change' }).click()
  await t.told('Priority 77')
  assert.equal((await call(quern.url, 'GET', '/v1/submissions/' + id)).priority, 77)
  await t.page.getByRole('button', { name: 'Cancel' }).click()
  assert.equal((await call(quern.url, 'GET', '/v1/submissions/' + id)).state, 'open', 'a cancel asks first')
  await t.page.getByRole('dialog', { name: /^Skip \d+ chunks? for good/ }).getByRole('button', { name: 'Cancel' }).click()
  await t.page.getByText('cancelled').first().waitFor()
  assert.equal((await call(quern.url, 'GET', '/v1/submissions/' + id)).state, 'cancelled')
  await t.page.keyboard.press('g')
  await t.page.keyboard.press('k')
  await t.page.getByRole('heading', { name: 'Keys', exact: true }).waitFor()
  assert.deepEqual(t.wrong, [])
  // from here on the page may ask for the deleted submission
  await t.go('#/submissions/' + id)
  await t.page.getByRole('button', { name: 'Delete…', exact: true }).click()
  await t.page.getByRole('dialog', { name: `Delete submission ${id} for good?` }).getByRole('button', { name: 'Delete' }).click()
  await t.told(`Submission ${id} deleted`)
  await t.page.getByRole('region', { name: 'Submissions' }).waitFor()
  assert.equal((await fetch(quern.url + '/v1/submissions/' + id)).status, 404)
  await t.close()
})

test('whole numbers beyond 2^53 keep their digits', async () => {
  const body = `{"meta":{"account":${huge}},"chunks":{"count":3,"template":"x"}}`
  const response = await fetch(quern.url + '/v1/queues/default/submissions', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
  assert.equal(response.status, 201)
  const t = await open(chromium.b, quern.url)
  await t.go('#/keys?key=account')
  await t.page.getByRole('cell', { name: huge, exact: true }).waitFor()
  await t.page.getByRole('button', { name: `Set limit and weight of ${huge}` }).click()
  await t.page.getByRole('spinbutton', { name: 'Limit' }).fill('1')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.told(`account=${huge}: limit 1`)
  assert.equal((await call(quern.url, 'GET', `/v1/queues/default/meta-keys/account/values/${huge}`)).limit, 1)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a million chunks of ten thousand values: the pages stay small, and any value can be found', async () => {
  await stopConsumers() // on a slow page they finish whole values before those are counted
  stopConsumers = undefined
  await call(quern.url, 'PUT', '/v1/queues/default', { settings: { durability: 'relaxed' } })
  const all = Array.from({ length: 10_000 }, (_, customer) => ({ meta: { customer }, chunks: { count: 100, template: 'row {index}' } }))
  for (let next = 0; next < all.length; next += 1000) await call(quern.url, 'POST', '/v1/queues/default/submissions:batch', { submissions: all.slice(next, next + 1000) })
  const large = await insert(quern.url, 1_000_000, { customer: 77 })
  const now = await stats(quern.url)
  assert.ok(now.submissions_open >= 10_000 && now.ready >= 1_900_000, `${now.submissions_open} submissions, ${now.ready} chunks`)
  await reserve(quern.url, { max: 100, strategy: 'Fair("customer", OldestFirst)' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/keys?key=customer')
  await t.page.getByText('of 10,000').first().waitFor()
  await until(t.page, () => document.querySelectorAll('tbody tr').length === 100)
  await t.page.getByRole('button', { name: 'Show 1,000' }).click()
  await until(t.page, () => document.querySelectorAll('tbody tr').length === 1000)
  const find = t.page.locator('input[name="find"]') // by its role, a slow browser looks for a minute among a thousand rows
  await find.fill('9876')
  await find.press('Enter')
  await until(t.page, () => document.querySelectorAll('tbody tr').length === 1)
  await t.page.getByRole('cell', { name: '9876', exact: true }).waitFor()
  await t.go('#/overview?key=customer')
  await t.page.getByText('10,000 values').waitFor()
  assert.ok(await t.page.evaluate(() => document.querySelectorAll('*').length) < 1500, 'the overview shows the busiest, not all')
  await t.go('#/submissions/' + large.id)
  await until(t.page, () => document.querySelectorAll('.map a').length === 500)
  await t.page.getByText('a cell is 2,000 chunks').waitFor()
  await t.page.locator('.map a').nth(250).click()
  await t.page.getByText('500,000 to 501,999').waitFor()
  await t.go('#/fairness')
  await t.page.getByRole('button', { name: 'customer Fair' }).click()
  await until(t.page, () => document.querySelectorAll('.shares').length === 100)
  await t.go('#/submissions')
  await until(t.page, () => document.querySelectorAll('[aria-label="Submissions"] tbody tr').length === 50)
  assert.deepEqual(t.wrong, [])
  await t.close()
})
