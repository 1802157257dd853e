// A change in Activity that has its earlier state is undone from there.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, manifest, open, server, upload } from './harness.mjs'
import { replay } from './replay.mjs'

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
const get = (path) => call(quern.url, 'GET', path)

/** Undoes the latest change of an action. Its question must say what the undo does. */
async function undo(t, action, question) {
  await t.go('#/activity?action=' + action)
  const row = t.page.getByRole('row').filter({ has: t.page.getByTitle(`show only ${action}`, { exact: true }) }).first()
  await row.getByRole('button', { name: /^Undo: / }).click()
  const asked = t.page.getByRole('dialog', { name: question })
  await asked.getByRole('button', { name: 'Undo' }).click()
  await asked.waitFor({ state: 'detached' })
}

test('settings of a queue go back to what they were, those that were not set too', async () => {
  const was = (await get(base)).settings
  await call(quern.url, 'PATCH', base, { settings: { max_attempts: 7, retention_seconds: 86_400, draining: true, requeue: 'tail', retry_backoff: { base_ms: 250, factor: 3, cap_ms: 60_000 } } })
  await call(quern.url, 'PATCH', base, { settings: { consumer_grace_ms: 1234 } }) // another change after it stays
  const t = await open(chromium.b, quern.url)
  await t.go('#/activity?action=queue.change')
  await t.page.getByRole('row').filter({ hasText: 'max_attempts' }).getByRole('button', { name: /^Undo: .* changed the settings of queue default, / }).click()
  const asked = t.page.getByRole('dialog', { name: /^Undo: queue default: max_attempts 10, .*again\?$/ })
  await asked.getByRole('button', { name: 'Undo' }).click()
  await t.told('again: done')
  assert.deepEqual((await get(base)).settings, { ...was, consumer_grace_ms: 1234 })
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a question stays open while the time that is looked back to moves on', async (one) => {
  await call(quern.url, 'PATCH', base, { settings: { max_attempts: 8 } })
  const way = await replay(quern.url)
  one.after(way.stop)
  const t = await open(chromium.b, way.url)
  const reads = []
  t.page.on('response', (r) => { if (r.url().includes('/v1/audit?')) reads.push(r.url()) })
  await t.go('#/activity?action=queue.change')
  await t.page.getByRole('button', { name: /^Undo: .* changed the settings of queue default, / }).first().click()
  const asked = t.page.getByRole('dialog', { name: /^Undo: queue default: max_attempts/ })
  await asked.waitFor()
  way.send(100)
  await eventually(() => assert.ok(new Set(reads).size > 1, 'nothing was read from another minute on'))
  await t.page.getByRole('button', { name: 'Keep as it is' }).click({ timeout: 2000 })
  await asked.waitFor({ state: 'detached' })
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('limits, weights and named strategies go back to what they were', async () => {
  const value = `${base}/meta-keys/company/values/undo`
  const rate = { max: 50, per_ms: 60_000 }
  await call(quern.url, 'PUT', value, { limit: 3, rate })
  await call(quern.url, 'PUT', value, { limit: 5, weight: 2 })
  const t = await open(chromium.b, quern.url)
  await undo(t, 'value.set', 'Undo: company=undo: limit 3, weight 1, rate 50/1m again?')
  await eventually(async () => { const v = await get(value); assert.deepEqual([v.limit, v.weight, v.rate], [3, null, rate]) })
  await call(quern.url, 'PUT', value, { limit: 3, weight: 4 })
  await call(quern.url, 'DELETE', value)
  await undo(t, 'value.delete', 'Undo: company=undo: limit 3, weight 4 again?')
  await eventually(async () => { const { limit, weight } = await get(value); assert.deepEqual({ limit, weight }, { limit: 3, weight: 4 }) })
  const strategy = `${base}/strategies/nightly`
  await call(quern.url, 'PUT', strategy, { strategy: 'OldestFirst' })
  await call(quern.url, 'PUT', strategy, { strategy: 'Random' })
  await undo(t, 'strategy.change', 'Undo: strategy nightly as it was?')
  await eventually(async () => assert.equal((await get(strategy)).strategy, 'OldestFirst'))
  await call(quern.url, 'DELETE', strategy)
  await undo(t, 'strategy.delete', 'Undo: strategy nightly as it was?')
  await eventually(async () => assert.equal((await get(strategy)).strategy, 'OldestFirst'))
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('what was in use of a plugin is in use again: active, canary, shadow and its settings', async () => {
  const one = (await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms'], 'undone'))).sha256
  const two = (await upload(quern.url, manifest('2.0.0', ['age_ms', 'priority'], 'undone'))).sha256
  const path = '/v1/plugins/undone'
  const post = (verb, body) => call(quern.url, 'POST', `${path}/${verb}`, body)
  const used = async () => { const p = await get(path); return { active: p.active?.sha256, shadow: p.shadow?.sha256, canary: p.canary?.sha256, percent: p.canary_percent } }
  const short = (sha256) => sha256.slice(0, 8)
  const uses = (want) => eventually(async () => assert.deepEqual(await used(), { active: undefined, shadow: undefined, canary: undefined, percent: 0, ...want }))
  const t = await open(chromium.b, quern.url)
  await post('activate', { version: one })
  await undo(t, 'plugin.activate', 'Undo: plugin undone: out of use again?')
  await uses({})
  await post('activate', { version: one })
  await post('canary', { version: two, percent: 20 })
  await post('shadow', { version: two })
  await post('deactivate')
  await undo(t, 'plugin.deactivate', `Undo: plugin undone: ${short(one)} active, ${short(two)} as shadow, ${short(two)} as canary for 20 % again?`)
  await uses({ active: one, shadow: two, canary: two, percent: 20 })
  await post('canary', { version: '', percent: 0 })
  await undo(t, 'plugin.canary', `Undo: plugin undone: ${short(two)} as canary for 20 % again?`)
  await uses({ active: one, shadow: two, canary: two, percent: 20 })
  await post('shadow', { version: '' })
  await undo(t, 'plugin.shadow', `Undo: plugin undone: ${short(two)} as shadow again?`)
  await uses({ active: one, shadow: two, canary: two, percent: 20 })
  await post('activate', { version: two })
  await undo(t, 'plugin.activate', `Undo: plugin undone: ${short(one)} active, ${short(two)} as shadow, ${short(two)} as canary for 20 % again?`)
  await uses({ active: one, shadow: two, canary: two, percent: 20 })
  await call(quern.url, 'PUT', `${path}/settings`, { record_every: 7 })
  await call(quern.url, 'PUT', `${path}/settings`, { hold: 'open' })
  await undo(t, 'plugin.settings', 'Undo: plugin undone: its settings as they were?')
  await eventually(async () => { const { settings } = await get(path); assert.deepEqual([settings.hold ?? '', settings.record_every], ['', 7]) })
  assert.deepEqual(t.wrong, [])
  await t.close()
})
