// The settings of a queue and of the server, and changes of them.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { browser, call, eventually, open, server } from './harness.mjs'

const declared = JSON.parse(readFileSync(new URL('../src/settings.json', import.meta.url))).queue

let quern, chromium
before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

test('settings of a queue are changed in the page, and what is wrong stands at its field', async () => {
  const t = await open(chromium.b, quern.url)
  t.allow(422)
  await t.go('#/settings')
  await t.page.getByRole('button', { name: 'Change…' }).click()
  await eventually(async () => assert.ok(await t.page.getByRole('button', { name: 'Nothing changed' }).isDisabled()))
  const attempts = declared.find(setting => setting.name === 'max_attempts')
  await t.page.getByText(`${attempts.sentence}: ${attempts.range.replaceAll(/\d{4,}/g, (n) => Number(n).toLocaleString('en-US'))}`).waitFor() // as the server declares it
  await t.page.getByLabel('max_attempts').fill('2000')
  await t.page.getByRole('button', { name: 'Change 1' }).click()
  await t.page.locator('dd', { has: t.page.getByLabel('max_attempts') }).getByRole('alert').waitFor()
  assert.deepEqual(await t.axe(), [])
  await t.page.getByLabel('max_attempts').fill('7')
  await t.page.getByLabel('on_exhausted').selectOption('fail_submission')
  await t.page.getByLabel('retry_backoff').fill('250')
  await t.page.getByLabel('times').first().fill('0.5')
  await t.page.getByRole('button', { name: /^Change / }).click()
  await t.page.locator('label', { hasText: 'times' }).getByRole('alert').getByText('is 0.5').waitFor() // at the part of the back-off that is refused
  await t.page.getByLabel('times').first().fill('3')
  await t.page.getByLabel('at most').first().fill('60000')
  await t.page.getByLabel('draining', { exact: true }).check()
  await call(quern.url, 'PATCH', '/v1/queues/default', { settings: { max_expiries: 9 } }) // another client changes a different one meanwhile
  await eventually(async () => assert.equal(await t.page.getByLabel('max_expiries').inputValue(), '9'))
  await t.page.getByRole('button', { name: 'Change 4' }).click()
  await t.told('4 settings changed')
  const { settings } = await call(quern.url, 'GET', '/v1/queues/default')
  const got = { max_attempts: settings.max_attempts, on_exhausted: settings.on_exhausted, retry_backoff: settings.retry_backoff, draining: settings.draining, max_expiries: settings.max_expiries }
  assert.deepEqual(got, { max_attempts: 7, on_exhausted: 'fail_submission', retry_backoff: { base_ms: 250, factor: 3, cap_ms: 60000 }, draining: true, max_expiries: 9 })
  await t.page.locator('dl').getByText('up to 250 ms, times 3 per attempt, at most 1m').waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a back-off gets another kind, its fields and another jitter in the page', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go('#/settings')
  await t.page.getByRole('button', { name: 'Change…' }).click()
  const entry = t.page.locator('dd', { has: t.page.getByLabel('expiry_backoff') })
  await entry.getByLabel('kind').selectOption('list')
  await entry.getByLabel('jitter').selectOption('none')
  await t.page.getByLabel('expiry_backoff').fill('0, 5000')
  await t.page.getByLabel('expiry_backoff').press('Tab')
  await t.page.getByRole('button', { name: 'Change 1' }).click()
  const { settings } = await eventually(async () => {
    const queue = await call(quern.url, 'GET', '/v1/queues/default')
    assert.equal(queue.settings.expiry_backoff.kind, 'list')
    return queue
  })
  assert.deepEqual(settings.expiry_backoff, { kind: 'list', base_ms: 0, factor: 0, cap_ms: 0, delays_ms: [0, 5000], jitter: 'none' })
  await t.page.locator('dl').getByText('0s, then 5s').waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the options of the server stand with who set them', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go('#/settings')
  const options = t.page.getByRole('region', { name: 'Options of the server' })
  const listen = await options.getByRole('row', { name: /^listen/ }).textContent()
  assert.match(listen, /127\.0\.0\.1:0.*command/)
  await eventually(async () => assert.match(await options.getByRole('row', { name: /^fold_bytes/ }).textContent(), /16MiB.*default/))
  assert.deepEqual(t.wrong, [])
  await t.close()
})
