import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { browser, call, eventually, looks, open, server } from './harness.mjs'

let chromium, quern
const dir = mkdtempSync(join(tmpdir(), 'quern-limits-'))

before(async () => { [chromium, quern] = await Promise.all([browser(), server(['serve', '--data', dir, '--memory-limit', '64MiB', '--max-live-submissions', '0'])]) })
after(async () => {
  await chromium?.stop()
  await quern?.stop()
  rmSync(dir, { recursive: true, force: true })
})

/** Inserts until an insert is refused because of the memory in use. */
async function fill() {
  const batch = { submissions: Array.from({ length: 1000 }, (_, run) => ({ meta: { run }, chunks: { count: 1, template: '{index}' } })) }
  for (let n = 0; n < 1000; n++) {
    const text = await call(quern.url, 'POST', '/v1/queues/default/submissions:batch', batch).then(JSON.stringify, (error) => error.message)
    if (text.includes('memory-limit')) return
  }
  assert.fail('a million submissions did not fill 64 MiB')
}

test('while the memory is full, the overview of a queue of one shard and of several says so, and the list of queues', async () => {
  await call(quern.url, 'PUT', '/v1/queues/orders', { settings: { shards: 2 } })
  await call(quern.url, 'POST', '/v1/queues/orders/submissions', { group: 'a', chunks: { count: 3, template: '{index}' } })
  const t = await open(chromium.b, quern.url, { width: looks[0][1], scheme: looks[0][0] })
  const banner = t.page.getByText('The memory is full.')
  const shows = async (name) => {
    await t.page.goto(`${quern.url}/#/overview?queue=${name}`)
    await t.page.getByRole('region', { name: 'Answer' }).waitFor()
  }
  for (const name of ['default', 'orders']) {
    await shows(name)
    assert.equal(await banner.count(), 0, `${name} is not full yet`)
  }
  for (const name of ['default', 'orders']) {
    await shows(name)
    await eventually(async () => {
      await fill() // the server frees memory now and then
      await banner.waitFor({ timeout: 2000 })
    })
    assert.deepEqual(await t.axe(), [], `${name}: accessibility`)
    if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/memory-full-${name}.png` })
  }
  await t.page.goto(`${quern.url}/#/queues`)
  await eventually(async () => {
    await fill()
    await t.page.getByText('inserts are refused: the server uses all memory that memory-limit allows').first().waitFor({ timeout: 2000 })
  })
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/memory-full-queues.png` })
  await call(quern.url, 'POST', '/v1/bulk-operations', { action: 'cancel', queue: 'default', filter: {} })
  await shows('orders')
  await eventually(async () => assert.equal(await banner.count(), 0, 'after the work was cancelled'))
  await t.close()
})
