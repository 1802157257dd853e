// The questions of an operator in an incident, on hard data: each is answered from the Overview in at most five actions, and without typing
// an id. Typing into a field, or choosing in it, is an action as much as a click.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { browser, call, dead, eventually, insert, manifest, open, reserve, server, upload } from './harness.mjs'
import { full, hard } from './hard.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
  await hard(quern.url, full)
  await insert(quern.url, 1000, { company: 7 })
  await insert(quern.url, 1000, { company: 8 })
  await reserve(quern.url, { max: 1, strategy: 'SelectOnly("company", 7, MaxSimultaneous("company", 1, Fair("company", OldestFirst)))', consumer: 'crashed-worker-eu-3' })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const most = 5

/** Opens the Overview, and counts what the operator does from there. */
async function operator(start = '#/overview?key=company') {
  const t = await open(chromium.b, quern.url)
  await t.go(start)
  await t.page.getByText('In flight by').waitFor()
  let n = 0
  const act = (name) => async (where, ...more) => {
    n++
    assert.ok(n <= most, `${name} is action ${n}`)
    await where[name](...more)
  }
  const pages = t.page.getByRole('navigation', { name: 'Pages' })
  const click = act('click')
  return {
    ...t, click, fill: act('fill'), choose: act('selectOption'),
    to: (name) => click(pages.getByRole('link', { name })),
    strip: (text) => click(t.page.locator('.strip').getByRole('link', { name: text, exact: true })),
    /** The next question begins at no action. */
    next: () => { n = 0 },
    done: async () => { assert.deepEqual(t.wrong, []); await t.close() },
  }
}

test('why does company 7 not move, and cap it', async () => {
  const o = await operator()
  await o.strip('7')
  await o.page.getByRole('region', { name: 'Diagnosis' }).getByText(/^Held: 1 of 1 in flight, by crashed-worker-eu-3 for .*; 999 wait/).waitFor()
  await o.click(o.page.getByRole('button', { name: 'Change…' }))
  await o.fill(o.page.getByRole('spinbutton', { name: 'Limit' }), '3')
  await o.click(o.page.getByRole('button', { name: 'Save' }))
  await o.told('company=7: limit 3')
  assert.equal((await call(quern.url, 'GET', '/v1/queues/default/meta-keys/company/values/7')).limit, 3)
  await o.done()
})

test('pause it until tomorrow 09:00 with a reason, and lift that', async () => {
  const o = await operator()
  await o.strip('8')
  await o.click(o.page.getByRole('link', { name: 'Pause…' }))
  await o.fill(o.page.getByLabel('Why'), 'their API is down')
  await o.choose(o.page.getByLabel('For how long'), 'until tomorrow, 09:00')
  await o.click(o.page.getByRole('button', { name: 'Pause', exact: true }).last())
  await o.told('Paused, from the next reservation on')
  const ours = async () => (await call(quern.url, 'GET', '/v1/queues/default/rules')).items.find((r) => r.match.meta?.company === 8)
  const rule = await ours()
  assert.match(rule.until, /T09:00:00/) // the browser's time zone is UTC
  assert.equal(new Date(rule.until).getUTCDate(), new Date(Date.parse(rule.since) + 86_400_000).getUTCDate())
  assert.equal(rule.reason, 'their API is down')
  o.next()
  await o.click(o.page.getByRole('region', { name: 'Active rules' }).getByRole('button', { name: `Lift rule ${rule.id}` }))
  const asked = o.page.getByRole('dialog', { name: 'Lift the pause of company=8?' })
  await asked.getByText('1,000 chunks').waitFor()
  await o.fill(asked.getByLabel('Who'), 'ann')
  await o.click(asked.getByRole('button', { name: 'Lift' }))
  await eventually(async () => assert.equal(await ours(), undefined))
  await o.done()
})

test('a pause until a moment of the reader’s choice', async () => {
  const o = await operator()
  await o.strip('8')
  await o.click(o.page.getByRole('link', { name: 'Pause…' }))
  await o.choose(o.page.getByLabel('For how long'), 'until a time…')
  const set = o.page.getByRole('button', { name: 'Pause', exact: true }).last()
  assert.ok(await set.isDisabled(), 'without the time there is nothing to set')
  await o.fill(o.page.getByLabel('Until', { exact: true }), '2100-02-28T17:30')
  await o.click(set)
  await o.told('Paused, from the next reservation on')
  const rule = (await call(quern.url, 'GET', '/v1/queues/default/rules')).items.find((r) => r.match.meta?.company === 8)
  assert.equal(Date.parse(rule.until), Date.UTC(2100, 1, 28, 17, 30))
  await call(quern.url, 'DELETE', `/v1/queues/default/rules/${rule.id}`)
  await o.done()
})

test('the failing chunks of the last hour by kind, and half of one kind redriven', async () => {
  await dead(quern.url, 90, { tenant: 'half' })
  const groups = async () => Object.fromEntries((await call(quern.url, 'GET', '/v1/queues/default/dead-letters/groups')).items.map((g) => [g.pattern.slice(0, 10), g.count]))
  const before = await groups()
  const half = Math.floor(before['connection'] / 2)
  const o = await operator()
  await o.click(o.page.getByRole('link', { name: 'those of the last hour' }))
  await o.fill(o.page.getByLabel('Only the oldest'), String(half))
  await o.click(o.page.getByRole('region', { name: 'Groups of dead letters' }).getByRole('row').filter({ hasText: 'connection refused' }).getByRole('button', { name: /^Redrive group/ }))
  await o.fill(o.page.getByLabel(`Type ${half} to go on`), String(half)) // for more than a hundred, the number is typed
  await o.click(o.page.getByRole('form', { name: 'Redrive' }).getByRole('button', { name: `Redrive ${half.toLocaleString('en-US')}` }))
  await eventually(async () => assert.deepEqual(await groups(), { ...before, connection: before['connection'] - half }))
  await o.done()
})

test('who holds a chunk, free it', async () => {
  const sub = await insert(quern.url, 5, { for: 'stuck' })
  await reserve(quern.url, { max: 1, strategy: 'SelectOnly("for", "stuck", OldestFirst)', consumer: 'stuck-1' })
  const o = await operator()
  await o.to(/^Reservations/)
  const row = o.page.getByRole('region', { name: 'Reservations', exact: true }).locator('tbody tr').filter({ hasText: `${sub.id}/0` })
  await row.getByText('stuck-1').waitFor()
  await o.click(row.getByRole('button', { name: `Release chunk 0 of ${sub.id}` }))
  const asked = o.page.getByRole('dialog', { name: 'Take chunk 0 from stuck-1?' })
  await o.fill(asked.getByLabel('Who'), 'ann')
  await o.click(asked.getByRole('button', { name: 'Release' }))
  await o.told('chunk 0 taken from stuck-1')
  await o.done()
})

test('is it fair', async () => {
  const o = await operator()
  await o.to(/^Fairness/)
  await o.page.getByText('Furthest behind').waitFor()
  await o.page.getByText('the books agree').waitFor()
  await o.done()
})

test('what would a new strategy pick instead', async () => {
  const o = await operator()
  await o.to(/^Strategies/)
  await o.fill(o.page.getByRole('textbox', { name: 'Strategy', exact: true }), 'SelectOnly("company", 8, NewestFirst)')
  await o.fill(o.page.getByLabel('The other strategy'), 'SelectOnly("company", 7, OldestFirst)')
  await o.click(o.page.getByRole('button', { name: 'Compare with' }))
  await o.page.getByRole('heading', { name: 'Compare' }).waitFor()
  await o.done()
})

test('a plugin’s new version scores a share of the traffic, and goes back', async () => {
  for (const version of ['1.0.0', '2.0.0']) await upload(quern.url, manifest(version, ['priority', 'age_ms']))
  const plugin = () => call(quern.url, 'GET', '/v1/plugins/order')
  await eventually(async () => assert.equal((await call(quern.url, 'GET', '/v1/plugins/order/versions/2.0.0')).state, 'ready'))
  await call(quern.url, 'POST', '/v1/plugins/order/activate', { version: '1.0.0' }, { 'If-Match': (await plugin()).etag })
  const o = await operator()
  await o.to(/^Plugins/)
  await o.click(o.page.getByRole('link', { name: 'order', exact: true }))
  await o.click(o.page.getByRole('button', { name: /^Canary 2\.0\.0/ }))
  await o.click(o.page.getByRole('button', { name: 'Start canary' }))
  await eventually(async () => assert.ok((await plugin()).canary_percent > 0))
  await o.click(o.page.getByRole('button', { name: 'End canary' }))
  await eventually(async () => assert.ok(!(await plugin()).canary_percent))
  await o.done()
})

test('when is it done', async () => {
  await insert(quern.url, 100_000, { batch: 'eta' })
  const o = await operator()
  const pace = async () => {
    const { reservations } = await reserve(quern.url, { max: 50, strategy: 'SelectOnly("batch", "eta", OldestFirst)' })
    await call(quern.url, 'POST', '/v1/queues/default/reservations/complete', { items: reservations.map((r) => ({ token: r.token })) })
  }
  const submission = o.page.getByRole('region', { name: 'Largest open submissions' }).locator('tbody tr').filter({ hasText: 'batch=eta' })
  await o.click(submission.getByRole('link', { name: /^\d+$/ }))
  const timeline = o.page.getByRole('list', { name: 'Timeline' })
  await eventually(async () => { await pace(); assert.match(await timeline.textContent(), /in about/) })
  await o.done()
})

test('a cron schedule: when it is due next, and now', async () => {
  const o = await operator()
  await o.to(/^Schedules/)
  await o.fill(o.page.getByLabel('Name', { exact: true }), 'monthly')
  await o.fill(o.page.getByLabel('When', { exact: true }), '0 6 1 * *')
  await o.page.locator('.ticks li').filter({ hasText: '06:00' }).first().waitFor()
  await o.click(o.page.getByRole('button', { name: 'Create' }))
  await o.click(o.page.getByRole('button', { name: 'Trigger monthly' }))
  await o.told(/monthly inserted \d+/)
  assert.equal((await call(quern.url, 'GET', '/v1/queues/default/schedules/monthly')).definition.spec, '0 6 1 * *')
  await o.done()
})

test('what changed in the last hour, and who did it', async () => {
  await call(quern.url, 'POST', '/v1/queues/default/rules', { action: 'pause', match: { meta: { tenant: 't5' } }, reason: 'INC-312', actor: 'bob' })
  const o = await operator()
  await o.to(/^Activity/)
  await o.choose(o.page.getByLabel('When'), 'the last hour')
  const row = o.page.getByRole('region', { name: 'What changed' }).locator('tbody tr').filter({ hasText: 'bob' })
  await row.getByText('INC-312').waitFor()
  await o.done()
})

test('the chart has what was changed as marks, and names it', async () => {
  const o = await operator()
  const said = o.page.getByLabel('What changed lately')
  await said.waitFor()
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/company/values/8', { limit: 9 })
  await said.getByText('set company=8 to limit 9').waitFor()
  await said.getByText('company=8').first().waitFor()
  // Of the lines of the chart none is as dark as a mark, and none stands upright.
  await eventually(async () => assert.ok(await o.page.locator('.chart canvas').evaluate((c) => {
    const { width, height } = c
    const { data } = c.getContext('2d').getImageData(0, 0, width, height)
    const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue('--ink-2').trim().match(/[\da-f]{2}/gi).map((x) => parseInt(x, 16))
    for (let x = Math.floor(width / 4); x < width; x++) {
      let n = 0
      for (let y = 0; y < height; y++) if (data[4 * (y * width + x)] === r && data[4 * (y * width + x) + 1] === g && data[4 * (y * width + x) + 2] === b) n++
      if (n > height / 4) return true
    }
    return false
  }), 'no upright line'))
  await o.click(said.getByRole('link', { name: 'all' }))
  await o.page.getByRole('region', { name: 'What changed' }).getByTitle('show only value.set').first().waitFor()
  if (process.env.SHOTS) await o.page.screenshot({ path: `${process.env.SHOTS}/changes.png` })
  await o.done()
})

/** Faults that once made answers false on hard data, each with the tests that would find it again. */
const faults = {
  'an end that is foreseen without the limits and rules before it': [['engine/forecast_test.go', 'TestForecastsAreCalibrated'], ['engine/diagnosis/outlook_test.go', 'TestEachRuleIsAPart'], ['engine/diagnose_queue_test.go', 'TestDiagnosisOfAQueue(']],
  '“paused” on every value of which any chunk is paused': [['signals', 'Keys shows the share that rules hold, and a badge only where a rule names the value']],
  'a value that was always in flight, with gaps in its history': [['engine/frames_test.go', 'TestHeatKeepsABusyValue(']],
  '“?” in the place of a number, and a number in quotes': [['signals', 'a value that the frames have no room for has its number and its name as it is']],
  'a sliver of “skipped” at the end of every bar': [['signals', 'a bar has parts only of states that have chunks']],
  'a verdict that goes from “Held” to “Ready” and back at a limit': [['engine/diagnose_test.go', 'TestDiagnosisStaysHeld']],
  'a share of only those that are listed': [['signals', 'received is a share of what all tenants received, and not only of the hundred that are listed']],
  'ranges that are longer than the history, without a word': [['signals', 'a range that is longer than the history says where the history begins']],
  'an axis from 9.6e+6 to 9.6e+6': [['signals', 'the ends of a dry run\\\'s axis differ where its scores do']],
  'a button “Pause” that only freezes the page': [['signals', 'a view that is frozen says so beside its dot, and moves again']],
}

test('each of the ten faults that made answers false has a test', () => {
  assert.equal(Object.keys(faults).length, 10)
  for (const [fault, tests] of Object.entries(faults)) {
    for (const [file, name] of tests) {
      const path = file.includes('/') ? `../../../${file}` : `${file}.test.mjs`
      assert.ok(readFileSync(new URL(path, import.meta.url), 'utf8').includes(file.includes('/') ? `func ${name}` : `test('${name}'`), `${fault}: ${file} has no test ${name}`)
    }
  }
})
