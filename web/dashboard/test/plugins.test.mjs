import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { browser, call, eventually, insert, manifest, open, reserve, server, upload } from './harness.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

test('the scores of live traffic are shown by version, with what was taken of them', async () => {
  for (let i = 0; i < 40; i++) await insert(quern.url, 1, { at: i }, { priority: i })
  await upload(quern.url, manifest('1.0.0', ['priority', 'limit:none'], 'seen'))
  const t = await open(chromium.b, quern.url)
  await t.go('#/plugins/seen')
  await eventually(async () => assert.match(await t.page.getByText('No version is in use').textContent(), /Activate one/, 'what is not active scores nothing, and the page says so'))
  await t.page.getByRole('button', { name: /^Activate 1\.0\.0/ }).click()
  await t.page.getByText('1.0.0 has scored nothing yet').waitFor()
  await eventually(async () => assert.match(await t.page.locator('.empty pre').first().textContent(), /^quern reserve .*Plugin\("seen"/))
  const one = await reserve(quern.url, { max: 3, strategy: 'Plugin("seen", explore=0, OldestFirst)' })
  assert.deepEqual(one.reservations.map((r) => r.priority), [39, 38, 37])
  const card = t.page.locator('section', { has: t.page.getByRole('heading', { name: 'Scores of live traffic' }) })
  await card.getByText('candidates that were sampled').waitFor()
  const bars = await card.locator('.hist .col').evaluateAll((all) => all.map((c) => /: ([\d,]+) candidates?, ([\d,]+) taken/.exec(c.title).slice(1).map(Number)))
  assert.deepEqual([bars.reduce((n, [c]) => n + c, 0), bars.reduce((n, [, c]) => n + c, 0)], [40, 3], 'every candidate, and the three that were taken')
  assert.deepEqual(bars.at(-1), [2, 2], 'the highest scores are those that were taken')
  await card.getByText('Scores as a table').click()
  await eventually(async () => assert.equal(await card.getByRole('row').count(), bars.length + 1, 'the table says the same'))
  const { sha256 } = await upload(quern.url, manifest('2.0.0', ['limit:none', 'priority'], 'seen'))
  await call(quern.url, 'POST', '/v1/plugins/seen/shadow', { version: sha256 })
  await reserve(quern.url, { max: 1, strategy: 'Plugin("seen", explore=0, OldestFirst)' })
  await card.getByRole('button', { name: '2.0.0 shadow' }).click()
  await card.getByText('a shadow decides nothing').waitFor()
  await eventually(() => assert.match(t.page.url(), /scores=/, 'the address says which version is shown'))
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a module is downloaded as it was uploaded, and versions and plugins are deleted after a question unless they are in use', async () => {
  const v = await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms'], 'gone'))
  await call(quern.url, 'POST', '/v1/plugins/gone/activate', { version: '1.0.0' })
  const old = await upload(quern.url, manifest('0.9.0', ['priority', 'age_ms'], 'gone'))
  await call(quern.url, 'PUT', '/v1/queues/default/strategies/by-gone', { strategy: 'OrElse(Plugin("gone", OldestFirst), OldestFirst)' })
  const t = await open(chromium.b, quern.url)
  t.allow(409)
  await t.go('#/plugins/gone')
  const [file] = await Promise.all([t.page.waitForEvent('download'), t.page.getByRole('link', { name: 'Download the module of 1.0.0' }).click()])
  assert.equal(file.suggestedFilename(), `gone-${v.sha256.slice(0, 8)}.wasm`)
  const served = Buffer.from(await (await fetch(`${quern.url}/v1/plugins/gone/versions/${v.sha256}/wasm`)).arrayBuffer())
  assert.ok(readFileSync(await file.path()).equals(served) && served.length === v.size)

  await t.page.getByRole('button', { name: 'Delete gone 1.0.0' }).click()
  const version = t.page.getByRole('dialog', { name: 'Delete gone 1.0.0?', exact: true })
  await eventually(async () => assert.match(await version.textContent(), /in use \(active\)/))
  assert.equal(await version.getByRole('button', { name: 'Delete' }).count(), 0, 'what is in use cannot be deleted')
  await t.page.keyboard.press('Escape')
  await version.waitFor({ state: 'detached' })
  await t.page.getByRole('button', { name: 'Delete gone', exact: true }).click()
  await eventually(async () => assert.match(await t.page.getByRole('dialog', { name: 'Delete gone?', exact: true }).textContent(), /deactivate it first/))
  await t.page.keyboard.press('Escape')

  await t.page.getByRole('button', { name: 'Delete gone 0.9.0' }).click()
  await t.page.getByRole('dialog', { name: 'Delete gone 0.9.0?', exact: true }).getByRole('button', { name: 'Delete' }).click()
  await t.told('gone 0.9.0 deleted')
  assert.deepEqual((await call(quern.url, 'GET', '/v1/plugins/gone/versions')).items.map((x) => x.sha256), [v.sha256], `${old.sha256} is gone`)

  // It is activated elsewhere while the question is open: the server refuses, and the page shows why.
  await call(quern.url, 'POST', '/v1/plugins/gone/deactivate')
  await t.page.getByText('inactive').waitFor()
  await t.page.getByRole('button', { name: 'Freeze view' }).click()
  await t.page.getByRole('button', { name: 'Delete gone', exact: true }).click()
  t.allow(412)
  await call(quern.url, 'POST', '/v1/plugins/gone/activate', { version: '1.0.0' })
  const whole = t.page.getByRole('dialog', { name: 'Delete gone?', exact: true })
  await whole.getByRole('button', { name: 'Delete' }).click()
  await eventually(async () => assert.match(await whole.getByRole('alert').textContent(), /revision .*request \S+/))
  await call(quern.url, 'POST', '/v1/plugins/gone/deactivate')
  t.allow(404) // the page may read it just after it is gone
  await t.page.reload() // and reads the revision of now
  await t.page.getByText('inactive').waitFor()
  await t.page.getByRole('button', { name: 'Delete gone', exact: true }).click()
  await whole.getByRole('button', { name: 'Delete' }).click()
  await whole.getByRole('alert').filter({ hasText: 'by-gone' }).waitFor() // the refusal lists the strategies that name it
  assert.equal((await call(quern.url, 'GET', '/v1/plugins')).items.filter((p) => p.name === 'gone').length, 1)
  await whole.getByRole('button', { name: 'Delete all the same' }).click()
  await t.page.getByRole('heading', { name: 'Uploaded' }).waitFor()
  assert.deepEqual((await call(quern.url, 'GET', '/v1/plugins')).items.filter((p) => p.name === 'gone'), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})
