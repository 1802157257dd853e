import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, dead, insert, manifest, open, reserve, scorer, server } from './harness.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** Drops files onto the page as a person does. */
async function drop(page, files) {
  const data = await page.evaluateHandle((list) => {
    const transfer = new DataTransfer()
    for (const { name, bytes } of list) transfer.items.add(new File([new Uint8Array(bytes)], name))
    return transfer
  }, files.map(({ name, content }) => ({ name, bytes: [...Buffer.from(content)] })))
  await page.dispatchEvent('.drop', 'dragover', { dataTransfer: data })
  await page.dispatchEvent('.drop', 'drop', { dataTransfer: data })
}

test('empty pages say what fills them, and the command that is copied works', async () => {
  const t = await open(chromium.b, quern.url)
  for (const page of ['submissions', 'keys', 'fairness', 'plugins', 'dead-letters']) {
    await t.go('#/' + page)
    await t.page.locator('.empty pre').first().waitFor()
    assert.match(await t.page.locator('.empty pre').first().textContent(), /^quern /, page)
    assert.deepEqual(await t.axe(), [], page)
  }
  assert.deepEqual(t.wrong, [])
  await t.context.close()
})

test('a plugin is dropped onto the page, checked, activated, shadowed, made a canary, rolled back', async () => {
  for (const [i, n] of [3, 1, 4, 1, 5, 9].entries()) await insert(quern.url, 1, { at: i }, { priority: n })
  const t = await open(chromium.b, quern.url)
  t.allow(422, 412)
  await t.go('#/plugins')
  await drop(t.page, [{ name: 'broken.wasm', content: 'not a module' }, { name: 'manifest.json', content: manifest('1.0.0', ['priority', 'age_ms']) }])
  const alert = t.page.getByRole('alert')
  await alert.waitFor()
  assert.match(await alert.textContent(), /request \S+/)
  assert.equal(await t.page.locator('.stages [data-state=done]').count(), 0, 'nothing of what was refused is said to have passed')
  await t.page.getByRole('status').filter({ hasText: /^$/ }).first().waitFor({ state: 'attached' })

  await drop(t.page, [{ name: 'order.wasm', content: scorer }, { name: 'manifest.json', content: manifest('1.0.0', ['priority', 'age_ms']) }])
  await t.page.locator('.stages [data-state=done]').nth(3).waitFor()
  await t.page.getByRole('link', { name: 'Open order 1.0.0' }).click()
  await t.page.getByRole('button', { name: /^Activate 1\.0\.0/ }).click()
  await t.page.getByText('order 1.0.0 scores from the next reservation on').waitFor()
  const one = () => reserve(quern.url, { max: 1, strategy: 'OrElse(Plugin("order", OldestFirst), OldestFirst)' })
  assert.equal((await one()).reservations[0].priority, 9, 'the plugin gives the highest priority first')

  await t.go('#/plugins')
  await t.page.getByLabel('Module of a plugin').setInputFiles([{ name: 'order.wasm', mimeType: 'application/wasm', buffer: scorer }, { name: 'm.json', mimeType: 'application/json', buffer: Buffer.from(manifest('2.0.0', ['limit:none', 'priority'])) }])
  await t.page.getByRole('link', { name: 'Open order 2.0.0' }).click()
  await t.page.getByRole('button', { name: 'Score what is ready' }).click()
  await t.page.getByText('5 candidates').waitFor()
  await t.page.getByText('with the active version').waitFor()
  const columns = await t.page.locator('.hist .col').evaluateAll((all) => all.map((c) => Number(/: ([\d,]+) candidates/.exec(c.title)[1])))
  assert.equal(columns.reduce((a, n) => a + n, 0), 5, 'the histogram has every candidate')
  await t.page.getByRole('button', { name: /^Shadow 2\.0\.0/ }).click()
  await t.page.getByRole('heading', { name: 'Shadow against active' }).waitFor()
  await t.page.getByRole('button', { name: 'End shadow' }).click()
  await t.page.getByRole('button', { name: /^Canary 2\.0\.0/ }).click()
  await t.page.getByLabel('Percent').fill('40')
  await t.page.getByRole('button', { name: 'Start canary' }).click()
  await t.page.getByText('canary 40 %').waitFor()
  assert.equal((await call(quern.url, 'GET', '/v1/plugins/order')).canary_percent, 40)
  await t.page.getByRole('button', { name: 'End canary' }).click()
  await t.page.getByRole('button', { name: /^Activate 2\.0\.0/ }).click()
  await t.page.getByText('order 2.0.0 scores from the next reservation on').waitFor()
  assert.equal((await one()).reservations[0].priority, 1, 'the second version gives the lowest first')
  await t.page.getByRole('button', { name: 'Roll back to 1.0.0' }).click()
  await t.page.getByText('order is back at 1.0.0').waitFor()
  assert.equal((await one()).reservations[0].priority, 5)

  await t.page.getByLabel('Breaker').selectOption('open')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await t.page.getByText('An operator holds it out of use.').waitFor()
  assert.equal((await call(quern.url, 'GET', '/v1/plugins/order')).state, 'held')
  assert.deepEqual(t.wrong, [])
  await t.context.close()
})

test('dead letters: grouped, inspected, redriven one by one, by filter and all at a pace; an operation is stopped', async () => {
  const id = await dead(quern.url, 600, { batch: 'doomed' })
  const letters = async () => (await call(quern.url, 'GET', '/v1/queues/default/dead-letters/groups')).items.reduce((n, g) => n + g.count, 0)
  const t = await open(chromium.b, quern.url)
  await t.go('#/dead-letters')
  await t.page.getByRole('button', { name: 'connection refused' }).click()
  await t.page.getByRole('button', { name: 'Remove the filter fingerprint' }).waitFor()
  const shown = await t.page.getByRole('region', { name: 'Dead chunks' }).locator('.error').allTextContents()
  assert.ok(shown.length > 0 && shown.every((text) => text.startsWith('connection refused')), `the filter holds: ${shown.slice(0, 3)}`)

  await t.page.locator('#main').focus()
  await t.page.keyboard.press('j')
  await t.page.keyboard.press('Enter')
  await t.page.getByRole('heading', { name: 'Ended tries' }).waitFor()
  await t.page.getByRole('cell', { name: 'importer-7' }).waitFor()
  const before = await letters()
  await t.page.getByRole('button', { name: 'Redrive' }).click()
  await t.page.getByText('ready again, with no try counted').waitFor()
  assert.equal(await letters(), before - 1)

  await t.go(`#/dead-letters?submission=${id}`)
  await t.page.getByRole('link', { name: `${id}/` }).first().waitFor()
  for (let i = 0; i < 3; i++) {
    await t.page.locator('#main').focus()
    await t.page.keyboard.press('j')
    await t.page.keyboard.press('x')
  }
  await t.page.getByRole('button', { name: 'Redrive 3' }).click()
  await t.page.getByText('3 of 3 redriven').waitFor()
  assert.equal(await letters(), before - 4)

  await t.go('#/dead-letters')
  await t.page.getByLabel('At most').fill('1')
  const many = String(before - 4)
  await t.page.getByRole('button', { name: `Redrive ${many}…` }).click()
  const go = t.page.getByRole('form', { name: 'Redrive' }).getByRole('button', { name: `Redrive ${many}` })
  assert.ok(await go.isDisabled(), 'an action on many wants the number typed')
  await t.page.getByLabel(`Type ${many} to go on`).fill(many)
  await go.click()
  await t.page.getByRole('button', { name: 'Stop' }).click()
  await t.page.getByText('cancelled').first().waitFor()
  assert.ok((await letters()) > 0, 'what was stopped did not do all')

  await t.page.getByLabel('At most').fill('')
  const rest = await letters()
  await t.page.getByRole('button', { name: `Redrive ${rest}…` }).click()
  await t.page.getByLabel(`Type ${rest} to go on`).fill(String(rest))
  await t.page.getByRole('form', { name: 'Redrive' }).getByRole('button', { name: `Redrive ${rest}` }).click()
  await t.page.getByText('completed').first().waitFor()
  await t.page.getByText('Nothing is dead').first().waitFor()
  assert.equal(await letters(), 0)
  assert.deepEqual(t.wrong, [])
  await t.context.close()
})

test('shares: who received what, who is owed, and the ledger inside of another', async () => {
  for (const company of ['acme', 'globex', 'initech']) await insert(quern.url, 3000, { company, mode: 'fair' })
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/company/values/acme', { weight: 2 })
  const strategy = 'SelectOnly("mode", "fair", Fair("company", Fair("$submission", OldestFirst)))'
  const take = async (n) => {
    const { reservations } = await reserve(quern.url, { max: n, strategy })
    await call(quern.url, 'POST', '/v1/queues/default/reservations/complete', { items: reservations.map((r) => ({ token: r.token })) })
  }
  await take(100)
  const t = await open(chromium.b, quern.url)
  await t.go('#/fairness')
  const row = t.page.getByRole('row').filter({ has: t.page.getByRole('cell', { name: 'acme', exact: true }) })
  await row.waitFor()
  for (let i = 0; i < 4; i++) await take(100)
  await row.getByRole('img', { name: 'received 50.0 %, entitled to 50.0 %' }).waitFor()
  await t.page.getByRole('button', { name: /↳ submission/ }).click()
  await t.page.getByText('acme /').waitFor()
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.context.close()
})

test('rows stay where they are while the pointer is over them, and new ones wait', async () => {
  await insert(quern.url, 5, { stay: 'yes' })
  const t = await open(chromium.b, quern.url)
  await t.go('#/submissions?meta.stay=yes')
  const rows = t.page.locator('tbody tr')
  await rows.first().hover()
  const first = await rows.first().textContent()
  const { id } = await insert(quern.url, 5, { stay: 'yes' })
  await t.page.getByRole('button', { name: '1 new' }).waitFor()
  assert.equal(await rows.count(), 1)
  assert.equal(await rows.first().textContent(), first, 'the row under the pointer must not move')
  await t.page.getByRole('button', { name: '1 new' }).click()
  await t.page.getByRole('link', { name: id }).waitFor()
  assert.equal(await rows.count(), 2)
  assert.deepEqual(t.wrong, [])
  await t.context.close()
})

test('the palette goes anywhere by keyboard', async () => {
  const { id } = await insert(quern.url, 5, { company: 'acme', palette: 'yes' })
  const t = await open(chromium.b, quern.url)
  t.allow(404)
  await t.go('#/overview')
  const go = async (text) => {
    await t.page.keyboard.press('Control+k')
    await t.page.getByRole('combobox', { name: 'Page, id' }).fill(text)
    assert.deepEqual(await t.axe(), [], 'the open palette')
    await t.page.keyboard.press('Enter')
  }
  await go('dead')
  await t.page.getByRole('heading', { name: 'Dead letters', exact: true }).waitFor()
  await go(id)
  await t.page.getByRole('heading', { name: 'Facts' }).waitFor()
  await go(`${id}/3`)
  await t.page.getByRole('heading', { name: 'Where it stands' }).waitFor()
  await go('company=acme')
  await t.page.getByRole('heading', { name: 'Submissions', exact: true }).waitFor()
  await go('order')
  await t.page.getByRole('heading', { name: 'Plugin', exact: true }).waitFor()
  await t.page.keyboard.press('Control+k')
  await t.page.keyboard.press('Escape')
  await t.page.locator('dialog[open]').waitFor({ state: 'hidden' })
  assert.deepEqual(t.wrong, [])
  await t.context.close()
})
