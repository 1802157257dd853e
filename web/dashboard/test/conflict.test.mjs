// Two people edit the same thing. The second to save sees the other's version, and chooses; nothing is overwritten unseen.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { browser, call, eventually, insert, manifest, open, server, upload } from './harness.mjs'

const base = '/v1/queues/default'
const kim = { 'Quern-On-Behalf-Of': 'kim' }
let quern, chromium
before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** A page, the conflict that it shows, and the values of a field in the conflict's table. */
async function page(hash) {
  const t = await open(chromium.b, quern.url)
  t.allow(404, 412)
  await t.go(hash)
  const conflict = t.page.getByRole('region', { name: 'Conflict', exact: true })
  const field = (name) => conflict.getByRole('row', { name: new RegExp(`^${name} `) }).locator('td').allTextContents()
  return {
    ...t, conflict, field,
    keep: () => conflict.getByRole('button', { name: 'Save yours' }).click(),
    take: () => conflict.getByRole('button', { name: 'Take theirs' }).click(),
    over: async () => {
      await conflict.waitFor({ state: 'detached' })
      assert.deepEqual(t.wrong, [])
      await t.close()
    },
  }
}

test('a value: the page says who changed what, and offers both', async () => {
  const value = `${base}/meta-keys/company/values/acme`
  await insert(quern.url, 5, { company: 'acme' })
  await call(quern.url, 'PUT', value, { limit: 3, weight: 2 })
  const t = await page('#/keys?key=company')
  const limit = t.page.getByRole('spinbutton', { name: 'Limit' })
  const begin = () => t.page.getByRole('button', { name: 'Set limit and weight of acme' }).click()
  const save = () => t.page.getByRole('button', { name: 'Save', exact: true }).click()
  await begin()
  await limit.fill('7')
  await call(quern.url, 'PUT', value, { limit: 9, weight: 5 }, kim)
  await save()
  await t.conflict.getByText('It changed while you edited it.').waitFor()
  assert.match(await t.conflict.getByRole('alert').textContent(), /kim set company=acme/)
  assert.deepEqual(await t.field('limit'), ['3', '9', '7'])
  assert.deepEqual(await t.field('weight'), ['2', '5', 'you did not change it'])
  const now = async () => { const v = await call(quern.url, 'GET', value); return [v.limit, v.weight] }
  assert.deepEqual(await now(), [9, 5], 'nothing is written yet')
  assert.deepEqual(await t.axe(), [])

  await call(quern.url, 'PUT', value, { limit: 10, weight: 5 }, kim) // and once more, while both are compared
  await t.keep()
  await eventually(async () => assert.deepEqual(await t.field('limit'), ['3', '10', '7']))
  await limit.fill('8') // a save writes the form's present values
  await t.keep()
  await t.told('company=acme: limit 8, weight 5')
  assert.deepEqual(await now(), [8, 5], 'the weight that only the other changed stays')
  await t.page.getByRole('button', { name: 'Undo' }).click()
  await eventually(async () => assert.deepEqual(await now(), [10, 5]))

  await begin()
  await limit.fill('7')
  await call(quern.url, 'PUT', value, { limit: 11, weight: 5 }, kim)
  await save()
  await t.take()
  await t.conflict.waitFor({ state: 'detached' })
  await t.page.locator('tbody').getByText('/ 11').waitFor()

  await begin()
  await limit.fill('12')
  await call(quern.url, 'DELETE', value, undefined, kim)
  await save()
  await eventually(async () => assert.deepEqual(await t.field('limit'), ['11', 'none', '12']))
  await t.keep()
  await eventually(async () => assert.deepEqual(await now(), [12, 5].with(1, null)))
  await t.over()
})

test('a value that another set first', async () => {
  const t = await page('#/keys/company/early')
  await t.page.getByRole('button', { name: 'Change…' }).click()
  await t.page.getByRole('spinbutton', { name: 'Limit' }).fill('4')
  await call(quern.url, 'PUT', `${base}/meta-keys/company/values/early`, { limit: 6 }, kim)
  await t.page.getByText('limit 6, weight 1').waitFor() // the page has the change, and the typed text stays
  await t.page.getByRole('button', { name: 'Save', exact: true }).click()
  await t.conflict.getByText('There is one already.').waitFor()
  assert.deepEqual(await t.field('limit'), ['6', '4'])
  await t.keep()
  await eventually(async () => assert.equal((await call(quern.url, 'GET', `${base}/meta-keys/company/values/early`)).limit, 4))
  await t.over()
})

test('a schedule: what is typed stays when another saves, and is compared', async () => {
  const path = `${base}/schedules/nightly`
  const definition = { spec: '30 2 * * *', tz: 'UTC', template: { meta: { kind: 'nightly' }, chunks: { count: 1, template: 'x' } } }
  const put = (change) => call(quern.url, 'PUT', path, { ...definition, ...change }, kim)
  await put({})
  const t = await page('#/schedules?name=nightly')
  const when = t.page.getByLabel('When')
  await eventually(async () => assert.equal(await when.inputValue(), '30 2 * * *'))
  await put({ spec: '31 2 * * *' })
  await eventually(async () => assert.equal(await when.inputValue(), '31 2 * * *', 'a form in which nothing was edited follows'))
  await when.fill('0 4 * * *')
  await put({ spec: '0 5 * * *', tz: 'Europe/Berlin' })
  await t.page.getByRole('region', { name: 'Schedules', exact: true }).getByText('0 5 * * *').waitFor() // the page knows of it
  assert.equal(await when.inputValue(), '0 4 * * *')
  await t.page.getByRole('button', { name: 'Save', exact: true }).click()
  await t.conflict.getByText(/kim changed schedule nightly/).waitFor()
  assert.deepEqual(await t.field('spec'), ['31 2 * * *', '0 5 * * *', '0 4 * * *'])
  assert.deepEqual(await t.field('tz'), ['UTC', 'Europe/Berlin', 'you did not change it'])
  assert.deepEqual(await t.axe(), [])
  await t.keep()
  await t.conflict.waitFor({ state: 'detached' })
  const { definition: now } = await call(quern.url, 'GET', path)
  assert.deepEqual([now.spec, now.tz], ['0 4 * * *', 'Europe/Berlin'])
  await when.fill('0 6 * * *') // the next edit begins with what this one saved
  await t.page.getByRole('button', { name: 'Save', exact: true }).click()
  await t.told(/nightly: .*06:00/)
  assert.equal((await call(quern.url, 'GET', path)).definition.spec, '0 6 * * *')

  await t.page.getByLabel('Submission, as JSON').fill('{"chunks":{"count":2,"template":"mine"}}')
  await put({ template: { chunks: { count: 3, template: 'theirs' } } })
  await t.page.getByRole('button', { name: 'Save', exact: true }).click()
  await eventually(async () => assert.match((await t.field('template')).join('|'), /"x".*\|.*"theirs".*\|.*"mine"/s))
  await t.take()
  await eventually(async () => assert.match(await t.page.getByLabel('Submission, as JSON').inputValue(), /theirs/))

  await when.fill('0 7 * * *')
  await call(quern.url, 'DELETE', path, undefined, kim)
  await t.page.getByText('There is no schedule').waitFor() // the form is gone with it
  await t.go('#/schedules')
  await t.page.getByLabel('Name').fill('nightly')
  await put({})
  await t.page.getByRole('button', { name: 'Create' }).click()
  await t.conflict.getByText('There is one already.').waitFor()
  await t.take()
  await t.page.getByRole('heading', { name: 'Change nightly' }).waitFor()
  await t.over()
})

test('a named strategy: one that was changed since it was opened is not overwritten unseen', async () => {
  const path = `${base}/strategies/nightly`
  const strategy = async () => (await call(quern.url, 'GET', path)).strategy
  await call(quern.url, 'PUT', path, { strategy: 'OldestFirst' })
  const t = await page('#/strategies')
  const text = t.page.getByRole('textbox', { name: 'Strategy', exact: true })
  const save = t.page.getByRole('button', { name: 'Save', exact: true })
  await t.page.getByRole('button', { name: 'Edit nightly' }).click()
  await eventually(async () => assert.equal(await t.page.getByLabel('Save as').inputValue(), 'nightly'))
  await text.fill('NewestFirst')
  await call(quern.url, 'PUT', path, { strategy: 'Random' }, kim)
  await save.click()
  await t.conflict.getByText(/kim changed strategy nightly/).waitFor()
  assert.deepEqual(await t.field('strategy'), ['OldestFirst', 'Random', 'NewestFirst'])
  assert.equal(await strategy(), 'Random')
  await t.take()
  await eventually(async () => assert.equal(await text.inputValue(), 'Random'))
  await text.fill('CustomPriority')
  await save.click()
  await eventually(async () => assert.equal(await strategy(), 'CustomPriority', 'after theirs was taken, an edit begins with it'))
  await text.fill('NewestFirst')
  await save.click()
  await eventually(async () => assert.equal(await strategy(), 'NewestFirst', 'and the next one with what was saved'))

  await call(quern.url, 'PUT', `${base}/strategies/other`, { strategy: 'Random' }, kim)
  await t.page.getByLabel('Save as').fill('other') // a name that is there, and that this page did not open
  await save.click()
  await t.conflict.getByText('There is one already.').waitFor()
  await t.keep()
  await eventually(async () => assert.equal((await call(quern.url, 'GET', `${base}/strategies/other`)).strategy, 'NewestFirst'))

  await call(quern.url, 'DELETE', `${base}/strategies/other`, undefined, kim)
  await text.fill('OldestFirst')
  await save.click()
  await t.conflict.getByText('It was deleted while you edited it.').waitFor()
  await t.keep()
  await eventually(async () => assert.equal((await call(quern.url, 'GET', `${base}/strategies/other`)).strategy, 'OldestFirst'))
  await t.over()
})

test('settings of a queue, and of a plugin', async () => {
  const t = await page('#/settings')
  await t.page.getByRole('button', { name: 'Change…' }).click()
  await t.page.getByLabel('max_attempts').fill('7')
  await call(quern.url, 'PATCH', base, { settings: { max_attempts: 4, max_expiries: 8 } }, kim)
  await eventually(async () => assert.equal(await t.page.getByLabel('max_expiries').inputValue(), '8'))
  await t.page.getByRole('button', { name: 'Change 1' }).click()
  await t.conflict.getByText(/kim changed the settings of queue default/).waitFor()
  assert.deepEqual((await t.field('max attempts')).slice(1), ['4', '7'])
  await t.keep()
  await t.told('1 setting changed')
  const { settings } = await call(quern.url, 'GET', base)
  assert.deepEqual([settings.max_attempts, settings.max_expiries], [7, 8])

  await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms']))
  const put = (body) => call(quern.url, 'PUT', '/v1/plugins/order/settings', body, kim)
  await t.go('#/plugins/order')
  const form = t.page.getByRole('form', { name: 'Settings of order' })
  await form.getByLabel('hold').selectOption('open')
  await call(quern.url, 'POST', '/v1/plugins/order/activate', { version: '1.0.0' }, kim) // another revision with the same settings is no conflict
  await form.getByRole('button', { name: 'Save' }).click()
  await t.told('order: settings saved')
  await form.getByLabel('hold').selectOption('closed')
  await put({ hold: '', log_level: 2 })
  await form.getByRole('button', { name: 'Save' }).click()
  await t.conflict.getByText(/kim changed the settings of plugin order/).waitFor()
  assert.deepEqual(await t.field('hold'), ['open', 'none', 'closed'])
  assert.deepEqual(await t.axe(), [])
  await t.keep()
  await t.conflict.waitFor({ state: 'detached' })
  const { settings: now } = await call(quern.url, 'GET', '/v1/plugins/order')
  assert.deepEqual([now.hold, now.log_level], ['closed', 2])
  await t.over()
})

test('the content of a dead chunk, and the priority of its submission', async () => {
  const made = await call(quern.url, 'POST', `${base}/submissions`, { meta: { company: 'both' }, chunks: { inline: ['customer 17', 'customer 18'] }, max_attempts: 1, on_exhausted: 'dead_letter' })
  const { reservations: [r] } = await call(quern.url, 'POST', `${base}/reservations`, { max: 1, strategy: 'SelectOnly("company", "both", OldestFirst)' })
  await call(quern.url, 'POST', `${base}/reservations/fail`, { items: [{ token: r.token, error: 'no such customer' }] })
  const path = `${base}/dead-letters/${made.id}/0`
  const t = await page(`#/submissions/${made.id}/0`)
  await t.page.getByRole('button', { name: 'Change the content…' }).click()
  await t.page.getByRole('textbox', { name: /New content/ }).fill('customer 71')
  await call(quern.url, 'PUT', `${path}/content`, { text: 'customer 99' }, kim)
  await t.page.getByRole('button', { name: 'Save the content' }).click()
  await t.conflict.getByText(/kim changed the content of chunk 0/).waitFor()
  assert.deepEqual(await t.field('content'), ['customer 17', 'customer 99', 'customer 71'])
  await t.keep()
  await t.told('The content is changed.')
  assert.equal((await call(quern.url, 'GET', path)).content.text, 'customer 71')

  await t.go(`#/submissions/${made.id}`)
  await t.page.getByLabel('New priority').fill('5')
  await call(quern.url, 'PATCH', `/v1/submissions/${made.id}`, { priority: 3 }, kim)
  await t.page.getByRole('button', { name: 'Change', exact: true }).click()
  await eventually(async () => assert.deepEqual(await t.field('priority'), ['0', '3', '5']))
  await t.take()
  await t.conflict.waitFor({ state: 'detached' })
  assert.equal((await call(quern.url, 'GET', `/v1/submissions/${made.id}`)).priority, 3)
  await t.over()
})

test('a rule that another has set is not changed unseen', async () => {
  const rule = { action: 'pause', match: { meta: { company: 'acme' } }, reason: 'their API is down', until: '2100-01-01T00:00:00Z' }
  const { id } = await call(quern.url, 'POST', `${base}/rules`, rule, kim)
  const now = async () => (await call(quern.url, 'GET', `${base}/rules`)).items.find((r) => r.id === id)
  const t = await page('#/rules?meta=company%3Dacme')
  const set = () => t.page.getByRole('button', { name: 'Pause', exact: true }).click()
  await t.page.getByLabel('Why').fill('a test')
  await set()
  await t.conflict.getByText(/There is one already.*kim paused company=acme/).waitFor()
  assert.deepEqual(await t.field('reason'), ['their API is down', 'a test'])
  assert.deepEqual(await t.field('until'), ['1 Jan 2100, 00:00:00', 'it is lifted'])
  assert.deepEqual(await t.axe(), [])
  await t.take()
  await t.conflict.waitFor({ state: 'detached' })
  assert.equal((await now()).reason, 'their API is down')
  await t.page.getByPlaceholder('company=acme').fill('company=acme')
  await t.page.getByLabel('Why').fill('a test')
  await set()
  await t.keep()
  await t.told('Paused')
  assert.deepEqual([(await now()).reason, (await now()).until], ['a test', undefined])
  await t.over()
})

test('a change that comes after the form looked, and before it writes, is not overwritten either', async () => {
  const { id } = await call(quern.url, 'POST', `${base}/submissions`, { meta: { company: 'late' }, chunks: { inline: ['customer 17'] }, max_attempts: 1, on_exhausted: 'dead_letter', priority: 7 })
  const { reservations: [r] } = await call(quern.url, 'POST', `${base}/reservations`, { max: 1, strategy: 'SelectOnly("company", "late", OldestFirst)' })
  await call(quern.url, 'POST', `${base}/reservations/fail`, { items: [{ token: r.token, error: 'no such customer' }] })
  const { id: open } = await call(quern.url, 'POST', `${base}/submissions`, { meta: { company: 'late' }, chunks: { count: 1, prefix: 'x/' } })
  const t = await page('#/settings')
  /** Makes another client write at the same moment as the page. */
  const overtake = (method, path, theirs) => {
    let first = true
    return t.page.route(path, async (route) => {
      if (route.request().method() === method && first) {
        first = false
        await theirs()
      }
      await route.fallback()
    })
  }
  const button = (name) => t.page.getByRole('button', { name, exact: true })

  await button('Change…').click()
  await t.page.getByLabel('max_attempts').fill('9')
  await overtake('PATCH', `**${base}`, () => call(quern.url, 'PATCH', base, { settings: { max_attempts: 5 } }, kim))
  await button('Change 1').click()
  await eventually(async () => assert.deepEqual((await t.field('max attempts')).slice(1), ['5', '9']))
  await t.take()
  await t.conflict.waitFor({ state: 'detached' })
  assert.equal((await call(quern.url, 'GET', base)).settings.max_attempts, 5)

  await t.go(`#/submissions/${id}/0`)
  await button('Change the content…').click()
  await t.page.getByRole('textbox', { name: /New content/ }).fill('customer 71')
  const content = `${base}/dead-letters/${id}/0/content`
  await overtake('PUT', `**${content}`, () => call(quern.url, 'PUT', content, { text: 'customer 99' }, kim))
  await button('Save the content').click()
  await eventually(async () => assert.deepEqual(await t.field('content'), ['customer 17', 'customer 99', 'customer 71']))
  await t.take()
  await t.conflict.waitFor({ state: 'detached' })

  await t.go(`#/submissions/${open}`)
  await t.page.getByLabel('New priority').fill('5')
  await overtake('PATCH', `**/v1/submissions/${open}`, () => call(quern.url, 'PATCH', `/v1/submissions/${open}`, { priority: 3 }, kim))
  await button('Change').click()
  await eventually(async () => assert.deepEqual(await t.field('priority'), ['0', '3', '5']))
  await t.take()
  await t.conflict.waitFor({ state: 'detached' })

  await t.go('#/rules?meta=company%3Dlate')
  await t.page.getByLabel('Why').fill('a test')
  const rule = { action: 'pause', match: { meta: { company: 'late' } }, reason: 'their API is down' }
  await overtake('POST', `**${base}/rules`, () => call(quern.url, 'POST', `${base}/rules`, rule, kim))
  await button('Pause').click()
  await t.conflict.getByText(/There is one already.*kim paused company=late/).waitFor()
  await t.take()
  await t.over()
})

test('every page that writes over what is there knows of conflicts', () => {
  const src = new URL('../src/', import.meta.url)
  const except = ['undo.ts', 'pages/submissions.tsx'] // these overwrite on purpose, and say so: an undo, and a priority for many
  const writes = readdirSync(src, { recursive: true }).filter((f) => /\.tsx?$/.test(f) && /\bcall(<[^(]*>)?\('(PUT|PATCH)'/.test(readFileSync(new URL(f, src), 'utf8')))
  assert.ok(writes.length >= 8, `only ${writes} write`)
  assert.deepEqual(writes.filter((f) => !except.includes(f) && !readFileSync(new URL(f, src), 'utf8').includes('useEdit(')), [])
})
