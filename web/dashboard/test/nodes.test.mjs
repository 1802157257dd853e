import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, database, insert, launch, live, looks, open, proxy, server } from './harness.mjs'

let chromium, postgres

before(async () => { [chromium, postgres] = await Promise.all([browser(), database()]) })
after(async () => {
  await chromium?.stop()
  await postgres?.stop()
})

const node = (name) => launch(['serve', '--cluster', postgres.url, '--accept-async', '--node', name])

/** Nothing is wrong with the page as it is. */
async function sound(t, name) {
  assert.deepEqual(await t.axe(), [], `${name}: accessibility`)
  const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert.ok(over <= 0, `${name}: ${over} px stand out at the right`)
  assert.deepEqual(await t.violations(), [], `${name}: content security policy`)
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/${name}.png` })
}

test('a single server says that it is in no cluster, and which document has more', async () => {
  const quern = await server()
  const [self] = (await call(quern.url, 'GET', '/v1/nodes')).items
  for (const [scheme, width] of looks) {
    const t = await open(chromium.b, quern.url, { width, scheme })
    await t.go('#/nodes')
    const said = t.page.getByRole('link', { name: 'Run several servers as a cluster' })
    await said.waitFor()
    assert.match(await t.page.locator('p.alone').textContent(), new RegExp(`^This server, ${self.name}, is in no cluster\\. It serves all queues, since .+\\. Run several servers as a cluster\\.$`))
    await sound(t, `alone-${scheme}-${width}`)
    await said.click()
    await t.page.getByRole('heading', { level: 1, name: /A cluster/ }).waitFor()
    assert.deepEqual(t.wrong, [])
    await t.close()
  }
  await quern.stop()
})

test('the page says that its node is gone, and goes on when another one answers at its address', async () => {
  const a = node('a')
  const way = await proxy(await a.ready)
  await insert(way.url, 50, { of: 'nodes' })
  const b = node('b')
  const row = (t, name) => t.page.getByRole('row').filter({ has: t.page.getByText(name, { exact: true }) })
  for (const [scheme, width] of looks) {
    const t = await open(chromium.b, way.url, { width, scheme })
    await t.go('#/nodes')
    await row(t, 'a').getByText('answers this page').waitFor()
    await row(t, 'a').getByText('serves').waitFor()
    await row(t, 'b').getByText('owns no queue').waitFor()
    assert.match(await row(t, 'a').textContent(), /default.*[0-4]\.\d s.*[0-4]\.\d s/, 'its lease, and how old its last heartbeat is')
    await sound(t, `nodes-${scheme}-${width}`)
    assert.deepEqual(t.wrong, [])
    await t.close()
  }
  const t = await open(chromium.b, way.url)
  await t.go('#/nodes')
  await row(t, 'b').waitFor()
  t.calm(true) // the browser tells of connections that fail
  await a.kill()
  await t.page.locator('.banner').getByText('The node a is gone').waitFor()
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/gone.png` })
  way.lead(await b.ready)
  await t.told('Node b now answers this page, instead of a')
  await live(t.page)
  await row(t, 'b').getByText('answers this page').waitFor()
  await row(t, 'b').getByRole('link', { name: 'default' }).waitFor()
  await t.page.getByText('is gone').waitFor({ state: 'detached' })
  await row(t, 'a').waitFor({ state: 'detached' })
  await t.page.locator('nav').getByRole('link', { name: 'Submissions' }).click()
  await t.page.getByText('of=nodes').waitFor() // a submission that the dead node had accepted
  assert.deepEqual(t.wrong, [])
  await t.close()
  await way.cut()
  await b.stop()
})
