import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, insert, looks, manifest, open, reserve, server, upload } from './harness.mjs'
import { consumer, hard, long, rightToLeft } from './hard.mjs'

let quern, chromium, ids

before(async () => {
  quern = await server()
  chromium = await browser()
  ids = await hard(quern.url, { tenants: 12 })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const pages = () => [
  ['overview', '#/overview', (p) => p.getByRole('region', { name: 'Largest open submissions' }).locator('tbody tr').nth(3).waitFor()],
  ['keys', '#/keys?key=tenant', (p) => p.getByRole('button', { name: 'Set limit and weight of t0' }).waitFor()],
  ['submissions', '#/submissions', (p) => p.getByRole('button', { name: 'Cancel', exact: true }).nth(5).waitFor()],
  ['submission', `#/submissions/${ids.large}`, (p) => p.getByRole('heading', { name: 'Facts' }).waitFor()],
  ['reservations', '#/reservations', (p) => p.getByRole('region', { name: 'Reservations' }).locator('tbody tr').nth(20).waitFor()],
  ['consumers', '#/consumers', (p) => p.getByRole('button', { name: /^Drain/ }).waitFor()],
  ['consumer', `#/consumers/${encodeURIComponent(consumer)}`, (p) => p.getByRole('region', { name: 'Reservations' }).locator('tbody tr').nth(3).waitFor()],
  ['fairness', '#/fairness', (p) => p.getByRole('region', { name: 'Shares by tenant' }).locator('tbody tr').nth(0).waitFor()],
  ['rules', '#/rules', (p) => p.getByRole('region', { name: 'Active rules' }).locator('tbody tr').nth(4).waitFor()],
  ['schedules', '#/schedules', (p) => p.getByRole('button', { name: /^Trigger/ }).waitFor()],
  ['dead-letters', '#/dead-letters', (p) => p.getByRole('region', { name: 'Dead chunks' }).locator('tbody tr').nth(5).waitFor()],
  ['strategies', '#/strategies', async (p) => {
    await p.getByText('asked in this order').waitFor() // it moves the buttons down, away from under a click
    await p.getByRole('button', { name: 'Explain' }).click()
    await p.getByRole('heading', { name: 'Explain' }).waitFor()
  }],
]

/** The parts of a page's tables that are hidden without scrolling sideways: buttons, links, states and times, and cells that stand out. */
const hidden = (page) => page.evaluate(() => {
  const out = []
  for (const region of document.querySelectorAll('main .scroll')) {
    const box = region.getBoundingClientRect()
    const name = region.getAttribute('aria-label')
    for (const one of region.querySelectorAll('td button:not(.copy), td a, td .state, td.note')) {
      const { left, right } = one.getBoundingClientRect()
      const pinned = one.closest('.acts') ? null : one.closest('tr').querySelector('.acts')
      const end = pinned && getComputedStyle(pinned).position === 'sticky' ? pinned.getBoundingClientRect().left : box.right
      if (right - left > 0 && (left < box.left - 1 || right > end + 1)) out.push(`${name}: “${one.textContent.slice(0, 40)}” at ${Math.round(left)} to ${Math.round(right)} of ${Math.round(box.left)} to ${Math.round(box.right)}`)
    }
  }
  return out.slice(0, 5)
})

/** Finds the texts that have characters which reverse the direction of text. */
const turning = (page) => page.evaluate(() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT)
  const found = []
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    for (const text of n.nodeType === Node.TEXT_NODE ? [n.data] : [n.title, n.ariaLabel]) if (/[\u202a-\u202e\u2066-\u2069]/.test(text ?? '')) found.push(text)
  }
  return found
})

/** Other widths move parts of the page, but hide and colour nothing else, so axe has nothing new to say there. */
for (const [scheme, first, others] of looks.map(([scheme, width]) => [scheme, width, width === 1440 ? [2560, 1280] : []])) {
  test(`tables of hard data at ${[first, ...others].join(', ')} px, ${scheme}: every button, link and state is in sight, and no character turns text around`, async () => {
    const height = first === 390 ? 844 : 900
    const t = await open(chromium.b, quern.url, { width: first, height, scheme })
    const cut = []
    for (const [name, hash, ready] of pages()) {
      await t.page.setViewportSize({ width: first, height })
      await t.go(hash)
      await ready(t.page)
      assert.deepEqual(await turning(t.page), [], name)
      assert.deepEqual(await t.axe(), [], name)
      for (const width of [first, ...others]) {
        await t.page.setViewportSize({ width, height })
        for (const one of await hidden(t.page)) cut.push(`${name}, ${width}: ${one}`)
        const over = await t.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
        if (over > 0) cut.push(`${name}, ${width}: ${over} px stand out at the right`)
        if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/hard-${name}-${scheme}-${width}.png`, fullPage: width === 390 })
      }
    }
    assert.deepEqual(cut, [])
    await t.page.setViewportSize({ width: first, height })
    await t.go('#/keys?key=tenant')
    await t.page.getByText('invoice\\u202eexe.txt').first().waitFor()
    await t.page.getByText(rightToLeft, { exact: true }).first().waitFor()
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

test('a long name is cut in its middle, says all of itself, and is copied whole', async () => {
  const t = await open(chromium.b, quern.url)
  await t.context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await t.go('#/keys?key=tenant')
  const cell = t.page.getByRole('cell', { name: /^customer-.*-a( |$)/ })
  await cell.waitFor()
  const text = await cell.locator('bdi').textContent()
  assert.ok(text.length <= 28 && text.startsWith('customer-of') && text.endsWith('-a') && text.includes('…'), text)
  assert.equal(await cell.locator('bdi').getAttribute('title'), long('-a'))
  await cell.hover()
  await cell.getByRole('button', { name: 'Copy all of it' }).click()
  await t.told('Copied')
  assert.equal(await t.page.evaluate(() => navigator.clipboard.readText()), long('-a'))
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a diagnosis says long names without their middles', async () => {
  const t = await open(chromium.b, quern.url, { width: 390, height: 844 })
  await t.go(`#/keys/tenant/${encodeURIComponent(long('-a'))}`)
  const says = t.page.getByRole('region', { name: 'Diagnosis' })
  await says.getByText('7 of 7 in flight').first().waitFor()
  const text = await says.textContent()
  assert.ok(!/\S{60}/.test(text) && text.includes('…'), text)
  assert.ok(await says.locator(`[title*="${long('-a')}"]`).count() > 0, 'the title has all of it')
  assert.deepEqual(await t.axe(), [])
  await t.close()
})

test('a chunk that waits says what holds its submission, and what a strategy of the last hour says', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go(`#/submissions/${ids.large}/7`)
  await t.page.getByRole('region', { name: 'Diagnosis' }).getByText('paused by tenant=large').first().waitFor()
  await t.page.getByRole('button', { name: 'Ask why' }).click()
  await t.page.getByText('The chunk is ready.').waitFor()
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('nothing of a plugin, its versions and its records is out of sight at 1280 px', async () => {
  const one = await upload(quern.url, manifest('1.0.0', ['priority'], 'wide'))
  const two = await upload(quern.url, manifest('2.0.0-a-long-prerelease.20260101', ['age_ms'], 'wide'))
  await call(quern.url, 'POST', '/v1/plugins/wide/activate', { version: one.sha256 })
  for (const [verb, body] of [['canary', { percent: 20 }], ['shadow', {}]]) await call(quern.url, 'POST', `/v1/plugins/wide/${verb}`, { version: two.sha256, ...body })
  const t = await open(chromium.b, quern.url, { width: 1280 })
  for (const [hash, ready] of [['#/plugins/wide', 'End canary'], ['#/plugins', 'Copy CLI'], ['#/rules', 'Pause']]) {
    await t.go(hash)
    await t.page.getByRole('button', { name: ready, exact: true }).first().waitFor()
    await t.page.locator('main table tbody tr').first().waitFor()
    const over = await t.page.evaluate(() => [...document.querySelectorAll('main .scroll')].filter((s) => s.scrollWidth > s.clientWidth).map((s) => s.getAttribute('aria-label')))
    assert.deepEqual(over, [], hash)
  }
  await t.close()
})

test('a plugin can be deleted at 390 px, too', async () => {
  const one = await upload(quern.url, manifest('1.0.0', ['priority'], 'narrow'))
  const two = await upload(quern.url, manifest('2.0.0-a-long-prerelease.20260101', ['age_ms'], 'narrow'))
  await call(quern.url, 'POST', '/v1/plugins/narrow/activate', { version: one.sha256 })
  await call(quern.url, 'POST', '/v1/plugins/narrow/canary', { version: two.sha256, percent: 20 })
  const t = await open(chromium.b, quern.url, { width: 390, height: 844 })
  await t.go('#/plugins/narrow')
  await t.page.getByRole('button', { name: 'End canary' }).waitFor()
  assert.deepEqual(await hidden(t.page), [])
  assert.deepEqual(await t.axe(), [])
  await t.close()
})

test('what is not there says so under a heading, and an empty queue names itself in its commands', async () => {
  await call(quern.url, 'PUT', '/v1/queues/bare', {})
  const t = await open(chromium.b, quern.url)
  t.allow(404)
  for (const [hash, heading] of [['#/overview?queue=gone', 'No such queue'], ['#/nowhere', 'No such page']]) {
    await t.page.goto(`${quern.url}/${hash}`)
    await t.page.getByRole('heading', { level: 1, name: heading }).waitFor()
    assert.deepEqual(await t.axe(), [])
  }
  for (const page of ['overview', 'keys', 'submissions']) {
    await t.go(`#/${page}?queue=bare`)
    await t.page.getByText(/^quern submit --queue bare /).first().waitFor()
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('the map of nine million chunks shows all of them, and opens to single ones', async () => {
  const t = await open(chromium.b, quern.url)
  await t.go(`#/submissions/${ids.large}`)
  const cells = t.page.locator('.map a')
  await t.page.getByText('0 to 8,999,999 of 9,000,000; a cell is 18,000 chunks, of which one in 9 is looked at').waitFor()
  await eventually(async () => assert.equal(await cells.count(), 500))
  await cells.nth(250).click()
  await t.page.getByText('4,500,000 to 4,517,999 of 9,000,000; a cell is 36 chunks: click one').waitFor()
  await cells.nth(499).click()
  await t.page.getByText('4,517,964 to 4,517,999 of 9,000,000; a cell is one chunk').waitFor()
  await t.page.getByRole('button', { name: 'All chunks' }).click()
  await t.page.getByText('0 to 8,999,999 of').waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

for (const width of [1440, 390]) {
  test(`five rules are one line at ${width} px, the largest first, and open to all of them`, async () => {
    const t = await open(chromium.b, quern.url, { width, height: 844 })
    await t.go('#/overview')
    const line = t.page.getByRole('region', { name: 'Rules that hold work back' })
    await eventually(async () => assert.match(await line.textContent(), /5 rules hold 9\.0 M: *tenant=large 9\.0 M/))
    const { height } = await line.boundingBox()
    assert.ok(height <= 44, `the line is ${height} px high`)
    const { y } = await t.page.getByRole('heading', { name: 'Overview' }).boundingBox()
    assert.ok(y < 300, `the page begins at ${y} px`)
    assert.equal(await line.locator('[role=status], [aria-live]').count(), 0, 'nothing that ticks is announced')
    await line.getByRole('button', { name: 'Show' }).click()
    const rows = line.locator('tbody tr')
    await eventually(async () => assert.equal(await rows.count(), 5))
    const held = await rows.locator('[data-label="Holds back"] [title]').evaluateAll((all) => all.map((n) => Number(n.title.replaceAll(',', ''))))
    assert.deepEqual(held, [9_000_000, 200, 93, 83, 50])
    assert.equal(await line.getByRole('button', { name: /^Lift rule/ }).count(), 5)
    await line.getByRole('button', { name: 'Hide' }).click()
    await eventually(async () => assert.equal(await rows.count(), 0))
    assert.deepEqual(t.wrong, [])
    await t.close()
  })
}

test('Back shows a page where it was left, though its lists are read only then', async () => {
  const t = await open(chromium.b, quern.url, { width: 1000, height: 300 })
  await t.page.route((url) => url.pathname.startsWith('/v1/'), async (route) => {
    await new Promise((later) => setTimeout(later, 150))
    await route.fallback().catch(() => {})
  })
  const place = () => t.page.evaluate(() => Math.round(scrollY))
  for (const [name, hash, ready] of pages().filter(([name]) => name !== 'strategies')) {
    await t.go(hash)
    await ready(t.page)
    await t.page.evaluate(() => scrollTo(0, (document.documentElement.scrollHeight - innerHeight) * 0.7))
    const left = await place()
    assert.ok(left > 100, `${name} is too short for this test: ${left} px`)
    await t.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))))
    await t.page.evaluate(() => { location.hash = '#/settings' })
    await t.page.getByRole('heading', { name: 'Settings', exact: true }).waitFor()
    await eventually(async () => assert.equal(await place(), 0, `after ${name}, the next page begins at its top`))
    await t.page.goBack()
    await ready(t.page)
    await eventually(async () => assert.ok(Math.abs(await place() - left) <= 2, `${name} is at ${await place()} px, not at ${left}`))
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a block of the whole queue is lifted only by who said so and knows what it lets go', async () => {
  await call(quern.url, 'PUT', '/v1/queues/halted', {})
  await call(quern.url, 'POST', '/v1/queues/halted/submissions', { chunks: { count: 1234, template: 'x' } })
  await call(quern.url, 'POST', '/v1/queues/halted/rules', { action: 'block', match: { queue: true }, reason: 'the far side lost its data', actor: 'ana' })
  const active = async () => (await call(quern.url, 'GET', '/v1/queues/halted/rules')).items.length
  const t = await open(chromium.b, quern.url, { me: '' })
  await t.go('#/overview?queue=halted')
  const lift = t.page.getByRole('button', { name: /^Lift rule/ })
  await lift.click()
  const asked = t.page.getByRole('dialog', { name: 'Lift the block of the whole queue?' })
  await asked.getByText('1,234 chunks').waitFor()
  assert.equal(await active(), 1, 'one tap lifts nothing')
  assert.deepEqual(await t.axe(), [], 'the open question')
  if (process.env.SHOTS) await t.page.screenshot({ path: `${process.env.SHOTS}/lift-light-1440.png` })
  await t.page.keyboard.press('Escape')
  await asked.waitFor({ state: 'hidden' })
  assert.equal(await active(), 1)
  await lift.click()
  await asked.getByLabel('Type 1234 to go on').fill('1234')
  await asked.getByRole('button', { name: 'Lift' }).click()
  assert.equal(await active(), 1, 'a name is asked for')
  await asked.getByRole('textbox', { name: 'Who' }).fill('bo')
  await asked.getByRole('button', { name: 'Lift' }).click()
  await t.told('Lifted')
  const [past] = (await call(quern.url, 'GET', '/v1/queues/halted/rules?state=ended')).items
  assert.equal(past.lifted_by, 'bo')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a queue that there is not is named, with those that there are, and is shown when it is made', async () => {
  await call(quern.url, 'PUT', '/v1/queues/other', {})
  const t = await open(chromium.b, quern.url)
  t.allow(404, 422)
  await t.page.goto(quern.url + '/#/submissions?queue=defualt')
  await t.page.getByText('There is no queue “defualt”').waitFor()
  await t.page.getByRole('link', { name: 'other', exact: true }).click()
  await t.page.getByText('No submissions. The first one').waitFor()
  await t.page.goto(quern.url + '/#/overview?queue=to-come')
  await t.page.getByText('There is no queue “to-come”').waitFor()
  await call(quern.url, 'PUT', '/v1/queues/to-come', {})
  await t.page.getByRole('heading', { name: 'Overview' }).waitFor()
  await t.page.goto(quern.url + '/#/submissions/%zz')
  await t.page.getByRole('alert').first().waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a schedule that is paused has no next time', async () => {
  await call(quern.url, 'PUT', '/v1/queues/default/schedules/still', { spec: '* * * * * *', seconds: true, template: { chunks: { count: 1, template: 'x' } }, enabled: true })
  await call(quern.url, 'POST', '/v1/queues/default/schedules/still/pause')
  const t = await open(chromium.b, quern.url)
  await t.go('#/schedules?find=still')
  const row = t.page.getByRole('row').filter({ hasText: 'still' })
  await row.getByText('paused', { exact: true }).waitFor()
  assert.doesNotMatch(await row.textContent(), /in \d+s|in <1s/)
  await row.getByText('none while it is paused').waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('when a submission is done: what is paused is no progress, and is named apart', async () => {
  const { id } = await insert(quern.url, 100_000, { tenant: 'eta' })
  const strategy = 'SelectOnly("tenant", "eta", OldestFirst)'
  const t = await open(chromium.b, quern.url)
  await t.go(`#/submissions/${id}`)
  const timeline = t.page.getByRole('list', { name: 'Timeline' })
  const work = async () => {
    const { reservations } = await reserve(quern.url, { max: 10, strategy })
    await call(quern.url, 'POST', '/v1/queues/default/reservations/complete', { items: reservations.map((r) => ({ token: r.token })) })
  }
  await eventually(async () => {
    await work()
    const says = await timeline.textContent()
    assert.match(says, /in about/, `${says}: ${JSON.stringify(await call(quern.url, 'GET', `/v1/submissions/${id}/diagnosis`))}`)
  })
  const rule = await call(quern.url, 'POST', '/v1/queues/default/rules', { action: 'pause', match: { submission: id }, reason: 'x' })
  await t.page.getByText(/not while .+ chunks are paused/).waitFor()
  await t.page.getByRole('link', { name: 'Chunks 99800 to 99999: 200 paused' }).waitFor() // on the map
  assert.doesNotMatch(await timeline.textContent(), /in about/)
  await call(quern.url, 'DELETE', `/v1/queues/default/rules/${rule.id}`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('Fairness begins with the ledger of most tenants', async () => {
  await reserve(quern.url, { max: 1, strategy: 'Fair("tenant", Random)', consumer }) // the other ledgers are of one tenant each, and came before it
  const { items } = await call(quern.url, 'GET', '/v1/queues/default/ledgers')
  assert.ok(items.length > 3 && items[0].active + items[0].blocked === 1, `${items.length} ledgers`)
  const t = await open(chromium.b, quern.url)
  await t.go('#/fairness')
  const pressed = t.page.getByRole('group', { name: 'Ledgers' }).locator('[aria-pressed=true]')
  await pressed.waitFor()
  assert.match(await pressed.textContent(), /Fair tenant Random/)
  assert.deepEqual(t.wrong, [])
  await t.close()
})
