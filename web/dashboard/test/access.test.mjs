import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { browser, call, eventually, live, open, server } from './harness.mjs'

let quern, chromium, dir, admin
const as = (token) => ({ Authorization: `Bearer ${token}` })
const make = async (name, scopes, more = {}) => (await call(quern.url, 'POST', '/v1/tokens', { name, scopes, ...more }, as(admin))).token
const status = async (path, headers = {}, method = 'GET') => (await fetch(quern.url + path, { method, headers })).status

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'quern-access-'))
  quern = await server(['serve', '--data', dir, '--auth'])
  admin = readFileSync(join(dir, 'admin-token'), 'utf8').trim()
  chromium = await browser()
  await call(quern.url, 'POST', '/v1/queues/default/submissions', { meta: { tenant: 'a' }, chunks: { count: 50, template: 'x' } }, as(admin))
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
  rmSync(dir, { recursive: true, force: true })
})

/** Opens a page and logs in. */
async function login(token, hash = '#/overview', size = {}) {
  const t = await open(chromium.b, quern.url, size)
  t.allow(401)
  await t.page.goto(`${quern.url}/${hash}`)
  await t.page.getByLabel('Access token').fill(token)
  await t.page.getByRole('button', { name: 'Log in' }).click()
  return t
}

test('a token logs in, no script can read what stands for it, and logging out ends it', async () => {
  const t = await open(chromium.b, quern.url)
  t.allow(401)
  await t.page.goto(quern.url + '/#/submissions')
  await t.page.getByRole('heading', { name: 'Log in to Quern' }).waitFor()
  assert.deepEqual(await t.axe(), [])
  await t.page.getByLabel('Access token').fill('qn_0000_wrong')
  await t.page.getByRole('button', { name: 'Log in' }).click()
  await t.page.getByRole('alert').filter({ hasText: 'token is not good' }).waitFor()
  await t.page.getByLabel('Access token').fill(admin)
  await t.page.getByRole('button', { name: 'Log in' }).click()
  await t.page.getByRole('heading', { name: 'Submissions', exact: true }).waitFor()
  await live(t.page)
  const me = await call(quern.url, 'GET', '/v1/whoami', undefined, as(admin))
  await t.page.locator('.me bdi').getByText(me.name).waitFor()

  const [cookie] = await t.context.cookies()
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, (await t.context.cookies()).length], [true, 'Strict', 1])
  const seen = await t.page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML]))
  assert.ok(!seen.includes(admin) && !seen.includes(admin.split('_')[2]) && !seen.includes(cookie.value), 'neither the token nor the cookie can be read in the page')
  await t.page.reload()
  await live(t.page)
  assert.deepEqual(await t.axe(), [])
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/access-in.png` })

  assert.equal(await status('/v1/queues', { Cookie: `${cookie.name}=${cookie.value}` }), 200)
  await t.page.getByRole('button', { name: 'Log out' }).click()
  await t.page.getByRole('heading', { name: 'Log in to Quern' }).waitFor()
  assert.deepEqual(await t.context.cookies(), [])
  assert.equal(await status('/v1/queues', { Cookie: `${cookie.name}=${cookie.value}` }), 401, 'the cookie of before is worth nothing')
  assert.equal(await t.page.getByText('tenant=a').count(), 0, 'what was shown is gone')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('tokens are made, shown once, rotated with an overlap, and revoked', async () => {
  const t = await login(admin, '#/tokens')
  await t.context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const form = t.page.getByRole('form', { name: 'New token' })
  await form.getByLabel('Name').fill('ci')
  await form.getByRole('checkbox', { name: /^produce/ }).check()
  await form.getByRole('checkbox', { name: /^read/ }).uncheck()
  await form.getByLabel('Only submissions with KEY=VALUE').fill('company=7')
  await form.getByRole('button', { name: 'Make token' }).click()
  const secret = t.page.getByRole('region', { name: 'The new secret' })
  await secret.getByRole('button', { name: 'Copy token' }).click()
  await t.told('Copied')
  const text = await t.page.evaluate(() => navigator.clipboard.readText())
  const me = await call(quern.url, 'GET', '/v1/whoami', undefined, as(text))
  assert.deepEqual([me.name, me.scopes, me.meta], ['ci', ['produce'], { company: 7 }])
  assert.ok(Math.abs(Date.parse(me.expires_at) - Date.now() - 90 * 86_400_000) < 600_000, 'it ends by itself unless that is not wanted')
  assert.deepEqual(await t.axe(), [])
  if (process.env.SHOTS) for (const width of [1440, 390]) { await t.page.setViewportSize({ width, height: 1000 }); await t.page.screenshot({ path: `${process.env.SHOTS}/access-tokens-${width}.png`, fullPage: true }) }
  await t.page.setViewportSize({ width: 1440, height: 900 })
  await secret.getByRole('button', { name: 'hide it' }).click()
  await t.page.reload()
  await t.page.getByRole('cell', { name: /^ci/ }).waitFor()
  assert.ok(!(await t.page.content()).includes(text), 'the text is shown once')

  await t.page.getByRole('button', { name: 'Rotate ci' }).click()
  await t.page.getByRole('dialog', { name: 'Rotate the secret of ci?' }).getByRole('button', { name: 'Rotate' }).click()
  const next = await secret.locator('pre').textContent()
  assert.notEqual(next, text)
  assert.deepEqual([await status('/v1/whoami', as(text)), await status('/v1/whoami', as(next))], [200, 200], 'both are good for an hour')
  await t.page.getByRole('button', { name: 'Revoke ci' }).click()
  assert.equal(await status('/v1/whoami', as(next)), 200, 'revoking asks first')
  await t.page.getByRole('dialog', { name: 'Revoke ci?' }).getByRole('button', { name: 'Revoke' }).click()
  await t.told('ci revoked')
  assert.deepEqual([await status('/v1/whoami', as(text)), await status('/v1/whoami', as(next))], [401, 401])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('what a token may not do is not offered', async () => {
  await call(quern.url, 'POST', '/v1/queues/default/rules', { action: 'block', match: { meta: { tenant: 'b' } }, reason: 'unpaid' }, as(admin))
  const reader = await login(await make('reader', ['read']), '#/submissions')
  await reader.page.getByRole('link', { name: /^\d{10,}$/ }).first().waitFor()
  await live(reader.page)
  assert.equal(await reader.page.getByRole('button', { name: 'New submission' }).count(), 0)
  assert.ok(await reader.page.getByRole('button', { name: 'Cancel', exact: true }).first().isDisabled())
  assert.equal(await reader.page.getByRole('checkbox').count(), 0, 'nothing to choose rows for')
  assert.ok(await reader.page.getByRole('button', { name: /^Lift rule/ }).isDisabled())
  assert.match(await reader.page.getByRole('button', { name: /^Lift rule/ }).getAttribute('title'), /needs the scope admin, which reader does not have/)
  assert.equal(await reader.page.getByRole('navigation').getByRole('link', { name: 'Tokens' }).count(), 0)
  for (const [page, absent] of [['keys?key=tenant', /^Set limit/], ['schedules', 'Create'], ['dead-letters', /^Redrive/], ['plugins', /Upload/], ['rules', 'Pause'], ['settings', 'Change…'], ['consumers', /^Drain/]]) {
    await reader.page.goto(`${quern.url}/#/${page}`)
    await live(reader.page)
    assert.equal(await reader.page.locator('main').getByRole('button', { name: absent, exact: typeof absent === 'string' }).count(), 0, page)
  }
  assert.deepEqual(reader.wrong, [])
  await reader.close()

  const worker = await login(await make('worker', ['read', 'consume']), '#/rules')
  await worker.page.getByRole('heading', { name: 'Set a rule' }).waitFor()
  assert.ok(await worker.page.getByRole('button', { name: 'block', exact: true }).isDisabled(), 'only admin blocks')
  await worker.page.getByLabel('KEY=VALUE').fill('tenant=c')
  await worker.page.getByText('It is recorded that worker did it').waitFor()
  await worker.page.getByRole('button', { name: 'Pause', exact: true }).last().click()
  await worker.told('Paused')
  const [, rule] = (await call(quern.url, 'GET', '/v1/queues/default/rules', undefined, as(admin))).items
  assert.equal(rule.actor, 'worker', 'the server knows who it was')
  assert.deepEqual(worker.wrong, [])
  await worker.close()

  const blind = await login(await make('blind', ['produce']))
  await blind.page.getByText('may not read queues').waitFor()
  await blind.close()
})

test('a token that is bound to a tenant begins with the page of its value, and is offered nothing that it may not see', async () => {
  const own = await call(quern.url, 'POST', '/v1/queues/default/submissions', { meta: { tenant: 'bound' }, chunks: { count: 3, template: 'x' } }, as(admin))
  const t = await login(await make('tenant', ['read', 'operate'], { meta: { tenant: 'bound' } }))
  await t.page.getByRole('heading', { name: 'tenant = bound' }).waitFor()
  await t.page.getByRole('region', { name: 'Diagnosis' }).getByText(/3 (can be handed out|are selected by no strategy)/).first().waitFor()
  await t.page.getByRole('link', { name: own.id }).waitFor()
  const next = await call(quern.url, 'POST', '/v1/queues/default/submissions', { meta: { tenant: 'bound' }, chunks: { count: 3, template: 'x' } }, as(admin))
  await t.page.getByRole('link', { name: next.id }).waitFor()
  const links = t.page.getByRole('navigation', { name: 'Pages' }).getByRole('link')
  assert.deepEqual((await links.allTextContents()).map((name) => name.replace(/[\d.,k]+$/, '')), ['Overview', 'Submissions', 'Reservations', 'Rules', 'Failing now', 'Dead letters'])
  for (const hash of await links.evaluateAll((all) => all.map((a) => a.hash))) { // a request that is refused is an error of the page
    await t.page.goto(quern.url + '/' + hash)
    await t.page.getByRole('heading', { level: 1 }).waitFor()
    await eventually(async () => assert.equal(await t.page.getByText('Reading…').count(), 0))
    assert.deepEqual([await t.page.getByRole('alert').count(), await t.page.getByText('tenant=a', { exact: true }).count()], [0, 0], hash)
    assert.deepEqual(await t.axe(), [], hash)
  }
  await t.page.keyboard.press('Control+k')
  await t.page.getByRole('combobox', { name: /Page, id/ }).fill('p')
  assert.equal(await t.page.getByRole('option', { name: /Plugins|Keys|Settings/ }).count(), 0)
  await t.page.keyboard.press('Escape')
  for (const hash of ['#/plugins', '#/settings', '#/keys', '#/queues']) {
    await t.page.goto(quern.url + '/' + hash)
    await t.page.getByText('this page would show more').waitFor()
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a token that is bound to a tenant finds the page of its value in a queue of several shards', async () => {
  await call(quern.url, 'PUT', '/v1/queues/parted', { settings: { shards: 3 } }, as(admin))
  const made = (body) => call(quern.url, 'POST', '/v1/queues/parted/submissions', { chunks: { count: 3, template: 'x' }, ...body }, as(admin))
  const t = await login(await make('grouped', ['read'], { meta: { group: 'acme' } }), '#/overview?queue=parted')
  await t.page.getByText('No submission of this queue has').waitFor()
  const own = await made({ group: 'acme' })
  await made({ group: 'other' })
  await t.page.getByRole('heading', { name: 'group = acme' }).waitFor()
  await t.page.getByRole('link', { name: own.id }).waitFor()
  assert.deepEqual(await t.axe(), [])
  await t.close()

  const shards = new Set()
  const ids = []
  for (let n = 0; shards.size < 2; n++) {
    const one = await made({ group: `g${n}`, meta: { tenant: 'wide' } })
    shards.add(one.shard)
    ids.push(one.id)
  }
  const wide = await login(await make('wide', ['read'], { meta: { tenant: 'wide' } }), '#/submissions?queue=parted')
  for (const id of ids) await wide.page.getByRole('link', { name: id }).waitFor() // of all shards, and no others
  assert.equal(await wide.page.getByRole('link', { name: own.id }).count(), 0)
  assert.deepEqual(await wide.axe(), [])
  await wide.page.goto(wide.page.url().replace('#/submissions', '#/overview'))
  const links = wide.page.getByRole('region', { name: 'Shards' }).getByRole('link')
  await eventually(async () => assert.deepEqual(await links.allTextContents(), [...shards].sort().map((n) => `parted, shard ${n}`)))
  assert.deepEqual(await wide.axe(), [])
  await links.first().click()
  await wide.page.getByRole('heading', { name: 'tenant = wide' }).waitFor()
  assert.deepEqual([...t.wrong, ...wide.wrong], [])
  await wide.close()
})

test('a session that ends asks for a token: when it expires, and when it is revoked, without a reload', async () => {
  const short = await login(await make('short', ['read'], { expires_at: new Date(Date.now() + 8000).toISOString() }))
  await live(short.page)
  await short.page.getByRole('heading', { name: 'Log in to Quern' }).waitFor()
  assert.equal(await short.page.getByText('tenant=a').count(), 0)
  await short.page.reload()
  await short.page.getByRole('heading', { name: 'Log in to Quern' }).waitFor()
  assert.deepEqual(short.wrong, [])
  await short.close()

  const text = await make('leaver', ['read'])
  const gone = await login(text)
  await live(gone.page)
  assert.match(await gone.page.locator('.me').getAttribute('title'), /The session ends at .* without an open page/, 'idle and absolute ends are said')
  await call(quern.url, 'DELETE', `/v1/tokens/${text.split('_')[1]}`, undefined, as(admin))
  await gone.page.getByRole('heading', { name: 'Log in to Quern' }).waitFor()
  assert.deepEqual(gone.wrong, [])
  await gone.close()
})

test('a page of another origin can neither post nor read with the login of this one', async () => {
  const t = await login(admin)
  await live(t.page)
  const rules = async () => (await call(quern.url, 'GET', '/v1/queues/default/rules', undefined, as(admin))).items.length
  const was = await rules()
  const other = createServer((_, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('<title>other</title>'))
  await new Promise((ready) => other.listen(0, '127.0.0.1', ready))
  const evil = await t.context.newPage()
  await evil.goto(`http://127.0.0.1:${other.address().port}/`) // another port is the same site: its cookies are sent along
  const answers = await evil.evaluate(async (url) => {
    const body = JSON.stringify({ action: 'pause', match: { queue: true } })
    const tries = [
      fetch(url + '/v1/queues/default/rules', { method: 'POST', mode: 'no-cors', credentials: 'include', body, headers: { 'Content-Type': 'text/plain' } }),
      fetch(url + '/v1/queues/default/rules', { method: 'POST', credentials: 'include', body, headers: { 'Content-Type': 'application/json' } }),
      fetch(url + '/v1/queues', { credentials: 'include' }),
      fetch(url + '/v1/session', { method: 'DELETE', credentials: 'include' }),
    ]
    const form = document.createElement('form')
    Object.assign(form, { action: url + '/v1/queues/default/rules', method: 'post', enctype: 'text/plain', target: 'hole' })
    form.append(Object.assign(document.createElement('input'), { name: body, value: '' }))
    document.body.append(Object.assign(document.createElement('iframe'), { name: 'hole' }), form)
    form.submit()
    return Promise.all(tries.map((one) => one.then((r) => (r.type === 'opaque' ? 'opaque' : r.status), () => 'refused')))
  }, quern.url)
  assert.deepEqual(answers, ['opaque', 'refused', 'refused', 'refused'], 'nothing can be read')
  await eventually(async () => assert.equal(await rules(), was, 'no rule was set'))
  assert.equal((await t.context.cookies()).length, 1, 'no one was logged out')
  await t.page.reload()
  await live(t.page)
  assert.equal(await rules(), was)
  other.close()
  await t.close()
})

test('where no token is needed the first one is made in the page, which goes on with it', async () => {
  const free = await server()
  const t = await open(chromium.b, free.url)
  t.allow(401) // a request from before, which is answered when the first token exists
  await t.go('#/tokens')
  await t.page.getByText('everyone who reaches the server may do everything').waitFor()
  await t.page.getByRole('form', { name: 'New token' }).getByLabel('Name').fill('ana')
  await t.page.getByRole('button', { name: 'Make token' }).click()
  const text = await t.page.getByRole('region', { name: 'The new secret' }).locator('pre').textContent()
  await t.page.locator('.me bdi').getByText('ana').waitFor()
  await live(t.page)
  assert.deepEqual([(await fetch(free.url + '/v1/queues')).status, (await fetch(free.url + '/v1/queues', { headers: as(text) })).status], [401, 200])
  assert.deepEqual(t.wrong, [])
  await t.close()
  await free.stop()
})

test('what was changed is told, with who did it, and filtered', async () => {
  const text = await make('ana', ['read', 'operate'])
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/tenant/values/a', { limit: 7 }, as(text))
  await call(quern.url, 'PUT', '/v1/queues/default/meta-keys/tenant/values/a', { limit: 1 }, { ...as(text), 'Quern-On-Behalf-Of': 'bo' })
  const t = await login(admin, '#/activity')
  const region = t.page.getByRole('region', { name: 'What changed' })
  const row = region.locator('tbody tr').filter({ hasText: 'for bo' })
  await row.getByText(/tenant/).first().waitFor()
  await eventually(async () => assert.match(await row.textContent(), /limit.*7.*→.*1/))
  assert.ok(await region.getByText('token ana').count() > 0, 'tokens are made by someone too')
  assert.ok(!(await t.page.content()).includes(text.split('_')[2]), 'no secret is shown')
  assert.deepEqual(await t.axe(), [])
  if (process.env.SHOTS) for (const width of [1440, 390]) { await t.page.setViewportSize({ width, height: 1000 }); await t.page.screenshot({ path: `${process.env.SHOTS}/access-activity-${width}.png`, fullPage: width === 390 }) }
  await t.page.setViewportSize({ width: 1440, height: 900 })
  await row.getByRole('button', { name: 'ana', exact: true }).click()
  await eventually(async () => assert.equal(await region.getByText('token ana').count(), 0, 'only what ana did'))
  await row.waitFor()
  await fetch(quern.url + '/v1/queues/default', { method: 'DELETE', headers: as(text) })
  await t.page.getByLabel('Outcome').selectOption('refused')
  const refused = region.locator('tbody tr').filter({ hasText: 'tried to delete queue default' })
  await eventually(async () => assert.match(await refused.textContent(), /forbidden.*takes the scope admin/))
  await eventually(async () => assert.equal(await row.count(), 0, 'only what was refused'))
  assert.deepEqual(t.wrong, [])
  await t.close()
})
