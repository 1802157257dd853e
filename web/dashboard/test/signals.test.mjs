// The page must not give small false signals, on data with more values than it has room for.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { transformSync } from 'esbuild'
import { readFileSync } from 'node:fs'
import { browser, call, eventually, insert, manifest, open, reserve, server, upload } from './harness.mjs'

let quern, chromium, large

const busy = 120
const base = '/v1/queues/default'

before(async () => {
  quern = await server()
  chromium = await browser()
  const submissions = Array.from({ length: busy }, (_, i) => ({ meta: { tenant: 1000 + i }, chunks: { count: 20, template: 'row {index}' } }))
  await call(quern.url, 'POST', `${base}/submissions:batch`, { submissions })
  await reserve(quern.url, { max: 2 * busy, strategy: 'Fair("tenant", OldestFirst)', consumer: 'w1' })
  large = (await insert(quern.url, 1_000_000, { company: 'large' })).id
  await insert(quern.url, 50, { company: 'held' })
  const few = await insert(quern.url, 112, { company: 'large' })
  await call(quern.url, 'POST', `${base}/rules`, { action: 'pause', match: { submission: few.id }, reason: 'INC-1', actor: 'ana' })
  await call(quern.url, 'POST', `${base}/rules`, { action: 'pause', match: { meta: { company: 'held' } }, reason: 'INC-2', actor: 'ana' })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

test('a value that the frames have no room for has its number and its name as it is', async () => {
  const t = await open(chromium.b, quern.url)
  for (const tenant of [1000, 1000 + busy - 1]) {
    await t.go(`#/keys/tenant/${tenant}`)
    const strip = t.page.locator('.strip')
    await eventually(async () => assert.match(await strip.locator('.val').textContent(), new RegExp(`^${tenant}$`)))
    await eventually(async () => assert.match(await strip.locator('.gauge b').textContent(), /^2 in flight: 2$/))
  }
  await t.go('#/overview?key=tenant')
  const rows = t.page.locator('.strip .gauge b')
  await eventually(async () => assert.equal(await rows.count(), 12))
  for (const text of await rows.allTextContents()) assert.match(text, /^2 in flight: 2$/)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a bar has parts only of states that have chunks', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go(`#/submissions/${large}`)
  const bar = t.page.getByRole('main').locator('.bar[role="img"]').first()
  await bar.waitFor()
  assert.deepEqual(await bar.locator('i').evaluateAll((all) => all.map((i) => i.className)), ['ready'])
  await t.close()
})

test('Keys shows the share that rules hold, and a badge only where a rule names the value', async () => {
  for (const [scheme, width] of [['light', 1280], ['dark', 390]]) {
    const t = await open(chromium.b, quern.url, { width, scheme })
    await t.go('#/keys?key=company')
    const row = (name) => t.page.getByRole('row').filter({ has: t.page.getByRole('cell', { name, exact: true }) })
    const held = row('held').getByRole('link', { name: 'paused', exact: true })
    await eventually(async () => assert.equal(await held.getAttribute('class'), 'badge'))
    const share = row('large').getByRole('link', { name: '<0.1 % paused' })
    assert.equal(await share.getAttribute('class'), 'note')
    assert.match(await share.getAttribute('title'), /^112 of 1,000,112 ready chunks/)
    assert.deepEqual(await t.axe(), [])
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/keys-share-${scheme}-${width}.png` })
    await t.close()
  }
})

test('an age in a list of values does not move with each second, and has room to grow', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go('#/keys?key=company')
  const row = t.page.getByRole('row').filter({ has: t.page.getByRole('cell', { name: 'large', exact: true }) })
  const age = row.locator('[data-label="Oldest"]')
  await age.getByText(/\d/).waitFor()
  const frame = () => t.page.evaluate(() => document.documentElement.dataset.frame)
  const ages = new Set()
  for (let n = 0, last = ''; n < 8; n++) { // frames are a second apart
    await eventually(async () => assert.notEqual(await frame(), last))
    last = await frame()
    ages.add(await age.textContent())
  }
  assert.ok(ages.size <= 2, [...ages].join(', '))
  const least = await t.page.getByRole('columnheader', { name: 'Oldest' }).evaluate((th) => parseFloat(getComputedStyle(th).minWidth))
  assert.ok(least > 60, `${least} px`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a range that is longer than the history says where the history begins', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go('#/overview?range=24h')
  await t.page.getByText(/history begins at \d/).waitFor()
  await t.close()
})

test('numbers that are rounded up to a unit have that unit, and long ones are grouped', async () => {
  const { code } = transformSync(readFileSync(new URL('../src/format.ts', import.meta.url), 'utf8').replace(/^import .*$/gm, ''), { loader: 'ts', format: 'esm' })
  const { bytes, short } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  assert.deepEqual([0.25, 9999, 10_000, 99_949, 99_950, 999_499, 999_500, 1e6, 999.6e6, 999.6e9, 1234e12].map(short),
    ['0.3', '9,999', '10.0 k', '99.9 k', '100 k', '999 k', '1.0 M', '1.0 M', '1.0 G', '1.0 T', '1,234 T'])
  assert.deepEqual([1023, 1024, 2 ** 20 - 1, 1023.9 * 2 ** 20, 2 ** 30 - 1, 2 ** 41].map((n) => bytes(n).replace('\u00a0', ' ')),
    ['1023 B', '1.0 KiB', '1.0 MiB', '1,023.9 MiB', '1.0 GiB', '2,048.0 GiB'])
})

test('the lines of a chart have at most 200 points, which are averages that stay where they are as time goes on', async () => {
  const { code } = transformSync(readFileSync(new URL('../src/calm.ts', import.meta.url)), { loader: 'ts', format: 'esm' })
  const { averaged, calmStep } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  assert.deepEqual([60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400].map(calmStep), [1, 5, 30, 120, 600, 3600, 4 * 3600])
  const series = (from, n, step) => { const at = Array.from({ length: n }, (_, i) => (from + i * step) * 1000); return { at, done_rate: at.map((t) => (t / 1000) % 10) } }
  const rough = series(1000, 600, 1)
  const calm = averaged(rough, calmStep(600))
  assert.equal(calm.at.length, 120)
  assert.deepEqual(calm.done_rate.slice(0, 4), [2, 7, 2, 7])
  assert.deepEqual(averaged(series(1001, 600, 1), 5).done_rate.slice(1, 119), calm.done_rate.slice(1, 119), 'a second later the whole steps are the same')
  assert.equal(averaged(rough, 1), rough)
  const t = await open(chromium.b, quern.url)
  await t.page.route(/timeseries\?step=minute/, async (route) => {
    const now = Math.floor(Date.now() / 60_000) * 60
    const { at } = series(now - 86_400, 1440, 60)
    const columns = ['ready', 'waiting', 'reserved', 'dead', 'inserted_rate', 'reserved_rate', 'done_rate', 'failed_rate']
    await route.fulfill({ json: { at, ...Object.fromEntries(columns.map((c) => [c, at.map((_, i) => (i % 2) * 100)])) } })
  })
  await t.go('#/overview?range=24h')
  await t.page.getByText('each point is the average of 10m').waitFor()
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/calm-1440.png` })
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('received is a share of what all tenants received, and not only of the hundred that are listed', async () => {
  const t = await open(chromium.b, quern.url)
  const [ledger] = (await call(quern.url, 'GET', `${base}/ledgers`)).items
  await t.go(`#/fairness?ledger=${encodeURIComponent(ledger.id)}`)
  await t.page.getByRole('region', { name: 'Shares by tenant' }).locator('tbody tr').nth(99).waitFor()
  await reserve(quern.url, { max: 4 * busy, strategy: 'Fair("tenant", OldestFirst)', consumer: 'w1' })
  const share = t.page.getByRole('region', { name: 'Shares by tenant' }).locator('[data-label="Received"]')
  await eventually(async () => assert.equal(await share.first().textContent(), `${(100 / busy).toFixed(1)} %`))
  await t.close()
})

test('the ends of a dry run\'s axis differ where its scores do', async () => {
  await call(quern.url, 'PUT', '/v1/queues/axis', {})
  await call(quern.url, 'POST', '/v1/queues/axis/submissions:batch', { submissions: Array.from({ length: 40 }, (_, i) => ({ priority: 960_000 + i, chunks: { count: 1, template: 'x' } })) })
  await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms'], 'axis'))
  const t = await open(chromium.b, quern.url)
  await t.go('#/plugins/axis?queue=axis')
  await t.page.getByRole('button', { name: 'Score ready chunks' }).click()
  const ends = t.page.locator('.hist figcaption .mono')
  await ends.first().waitFor()
  const [from, to] = (await ends.allTextContents()).map((text) => Number(text.replaceAll(',', '')))
  assert.ok(to - from > 100 && from > 1_000_000, `${from} to ${to}`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a view that is frozen says so beside its dot, and moves again', async () => {
  const t = await open(chromium.b, quern.url, { width: 390 })
  await t.go('#/overview')
  const button = t.page.getByRole('button', { name: 'Freeze view' })
  await button.click()
  await t.page.locator('.live [data-state="frozen"]').waitFor()
  assert.equal(await button.getAttribute('aria-pressed'), 'true')
  assert.deepEqual(await t.axe(), [])
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/frozen-390.png`, fullPage: true })
  await button.click()
  await t.page.locator('.live [data-state="live"]').waitFor()
  await t.close()
})
