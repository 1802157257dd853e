// The blocks of a strategy and its text are two sides of one thing.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, insert, manifest, open, server, upload } from './harness.mjs'

let quern, chromium
before(async () => {
  quern = await server()
  chromium = await browser()
  await insert(quern.url, 100, { company: 'acme', mode: 'preview' })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

async function editor(text) {
  const t = await open(chromium.b, quern.url)
  t.allow(422)
  await t.go('#/strategies?text=' + encodeURIComponent(text))
  const field = t.page.getByRole('textbox', { name: 'Strategy', exact: true })
  await t.page.getByRole('group', { name: 'Blocks' }).waitFor()
  await t.page.locator('#block-keys option[value="company"]').waitFor({ state: 'attached' }) // the page has the keys from the stream
  const becomes = async (want) => {
    await t.page.waitForFunction((w) => document.getElementById('strategy-text').value === w, want, { timeout: 20_000 })
      .catch(async () => assert.equal(await field.inputValue(), want))
    assert.equal(new URLSearchParams((await t.page.evaluate(() => location.hash)).split('?')[1]).get('text'), want, 'the address holds the text')
  }
  const block = (at) => t.page.getByLabel(`Block ${at}`, { exact: true })
  return { ...t, field, becomes, block }
}

test('a strategy is built from its blocks', async () => {
  const t = await editor('Random')
  await t.page.getByLabel('Put a block around Random (the strategy)').selectOption('OrElse')
  await t.becomes('OrElse(Random, OldestFirst)')
  await t.block('1').selectOption('SelectOnly')
  await t.becomes('OrElse(SelectOnly("company", "", Random), OldestFirst)')
  await t.page.getByLabel('key', { exact: true }).fill('mode')
  await t.page.getByLabel('is', { exact: true }).pressSequentially('9223372036854775807') // the focus stays while each key changes the text
  await t.becomes('OrElse(SelectOnly("mode", 9223372036854775807, Random), OldestFirst)')
  await t.page.getByLabel('is', { exact: true }).fill('s:7')
  await t.becomes('OrElse(SelectOnly("mode", "7", Random), OldestFirst)')
  await t.block('1').selectOption('SelectAny') // the value stays, and so does the list
  await t.page.getByLabel('is one of').fill('["7", 9223372036854775807, "b"]')
  await t.becomes('OrElse(SelectAny("mode", [9223372036854775807, "7", "b"], Random), OldestFirst)')
  await t.block('1').selectOption('Except')
  await t.becomes('OrElse(Except("mode", [9223372036854775807, "7", "b"], Random), OldestFirst)')
  await t.page.getByLabel('is none of').fill('["7"]')
  await t.block('1').selectOption('SelectOnly')
  await t.becomes('OrElse(SelectOnly("mode", "7", Random), OldestFirst)')
  await t.page.getByRole('button', { name: 'Add an alternative to OrElse (the strategy)' }).click()
  await t.block('3').selectOption('Fair')
  await t.page.getByLabel('share out').selectOption('time')
  await t.becomes('OrElse(SelectOnly("mode", "7", Random), OldestFirst, Fair("company", time, OldestFirst))')
  await t.page.getByRole('button', { name: 'Fair (3) earlier' }).click()
  await t.becomes('OrElse(SelectOnly("mode", "7", Random), Fair("company", time, OldestFirst), OldestFirst)')
  await t.page.getByRole('button', { name: 'Remove OldestFirst (3)' }).click()
  await t.becomes('OrElse(SelectOnly("mode", "7", Random), Fair("company", time, OldestFirst))')
  await t.page.getByRole('button', { name: 'Remove SelectOnly (1)' }).click() // its inner block stays
  await t.becomes('OrElse(Random, Fair("company", time, OldestFirst))')
  await t.page.getByRole('button', { name: 'Remove Random (1)' }).click() // of two alternatives the other is left
  await t.becomes('Fair("company", time, OldestFirst)')
  await t.block('the strategy').selectOption('Score')
  await t.page.getByLabel('score', { exact: true }).fill('priority*10 - attempts')
  await t.becomes('Score(priority*10 - attempts, OldestFirst)')
  await t.page.getByLabel('window').fill('64')
  await t.becomes('Score(priority*10 - attempts, window=64, OldestFirst)')
  await t.page.getByLabel('window').fill('')
  await t.becomes('Score(priority*10 - attempts, OldestFirst)')
  await t.block('the strategy').selectOption('PreferDistinct')
  await t.becomes('PreferDistinct("company", 1, OldestFirst)')
  await t.page.getByLabel('last from').fill('') // without a number, the fewest in flight come first
  await t.becomes('PreferDistinct("company", OldestFirst)')
  await t.page.getByLabel('last from').fill('3')
  await t.becomes('PreferDistinct("company", 3, OldestFirst)')
  await t.block('the strategy').selectOption('Plugin')
  await t.page.getByLabel('name', { exact: true }).fill('deadline')
  await t.page.getByLabel('config').fill('{"weight":3}')
  await t.becomes('Plugin("deadline", {"weight":3}, OldestFirst)')
  await t.page.getByLabel('config').fill('{"tenant":9007199254740993}')
  await t.becomes('Plugin("deadline", {"tenant":9007199254740993}, OldestFirst)')
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('what is written is compared with a named strategy, and one named strategy with another', async () => {
  for (const [name, strategy] of [['even', 'PreferDistinct("company", OldestFirst)'], ['newest', 'NewestFirst']]) await call(quern.url, 'PUT', `/v1/queues/default/strategies/${name}`, { strategy })
  await insert(quern.url, 30, { company: 'globex' })
  const t = await editor('OldestFirst')
  const sides = t.page.locator('section', { has: t.page.getByRole('heading', { name: 'Compare', exact: true }) }).locator('code')
  const compared = (a, b) => eventually(async () => assert.deepEqual((await sides.allTextContents()).map((line) => line.replace(/ \(\d+ picks\)$/, '')), [`A: ${a}`, `B: ${b}`]))
  await t.page.getByRole('button', { name: 'Compare to even' }).click()
  await compared('OldestFirst', 'PreferDistinct("company", OldestFirst)')
  await t.page.getByRole('heading', { name: 'Only B would hand out' }).waitFor()
  assert.equal(await t.page.getByRole('textbox', { name: 'The other strategy' }).inputValue(), 'PreferDistinct("company", OldestFirst)')
  await t.page.getByRole('button', { name: 'Edit newest' }).click()
  await t.becomes('NewestFirst')
  await t.page.getByRole('button', { name: 'Compare to even' }).click()
  await compared('NewestFirst', 'PreferDistinct("company", OldestFirst)')
  assert.deepEqual(await t.axe(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('what is typed stays when the answer about the text before comes late', async () => {
  const t = await editor('SelectOnly("mode", "a", Random)')
  let asked = () => {} // about a text
  let changed = Promise.resolve()
  await t.page.route('**/strategies/validate', async (route) => {
    const { strategy } = route.request().postDataJSON()
    const response = await route.fetch()
    if (typeof strategy === 'string') {
      const next = changed
      asked(strategy)
      await next
    }
    await route.fulfill({ response }).catch(() => {}) // the page may have stopped waiting
    if (typeof strategy !== 'string') t.page.emit('changed')
  })
  const is = t.page.getByLabel('is', { exact: true })
  for (let text = 'ab'; text.length < 10; text += 'b') { // milliseconds decide whether an answer comes between the change and its drawing
    const wanted = new Promise((resolve) => { asked = (about) => { if (about.includes(`"${text}"`)) resolve() } })
    await is.press('End')
    await is.press('b')
    await t.becomes(`SelectOnly("mode", "${text}", Random)`)
    changed = new Promise((resolve) => { t.page.once('changed', resolve) })
    await wanted
  }
  await t.page.evaluate(async () => { for (let i = 0; i < 5; i++) await new Promise(requestAnimationFrame) })
  assert.equal(await is.inputValue(), 'abbbbbbbb')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('what is wrong stands at its block, and the text waits until it is right', async () => {
  const before = 'OrElse(MaxSimultaneous("company", 5, Random), OldestFirst)'
  const t = await editor(before)
  const most = t.page.getByLabel('at most')
  await most.fill('0')
  const alert = t.page.locator('.block').getByRole('alert')
  await alert.getByText('must be a whole number from 1').waitFor()
  await eventually(async () => assert.match(await alert.locator('xpath=..').locator('select').first().inputValue(), /max_simultaneous/))
  assert.equal(await t.field.inputValue(), before)
  assert.deepEqual(await t.axe(), [])
  await most.fill('7')
  await t.becomes('OrElse(MaxSimultaneous("company", 7, Random), OldestFirst)')
  assert.equal(await alert.count(), 0)
  await most.fill('20%')
  await t.becomes('OrElse(MaxSimultaneous("company", "20%", Random), OldestFirst)')
  await most.fill('7')
  await t.becomes('OrElse(MaxSimultaneous("company", 7, Random), OldestFirst)')
  await t.page.getByLabel('without the key').selectOption('never')
  await t.becomes('OrElse(MaxSimultaneous("company", 7, missing=never, Random), OldestFirst)')
  await t.page.getByLabel('without the key').selectOption('unlimited')
  await t.becomes('OrElse(MaxSimultaneous("company", 7, Random), OldestFirst)')

  await t.field.fill('OrElse(Random, OldestFirst)') // and the other way: a warning about the second alternative
  const warned = t.page.locator('.warned')
  await warned.getByText('can never yield').waitFor()
  assert.equal(await warned.locator('xpath=..').locator('select').first().inputValue(), 'oldest_first')
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('scores are foreseen with the context that the consumer would send, and what does not score is named', async () => {
  for (const priority of [3, 7]) await insert(quern.url, 1, { scored: 'yes' }, { priority })
  await call(quern.url, 'POST', '/v1/plugins/held/activate', { version: (await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms'], 'held'))).sha256 })
  await call(quern.url, 'PUT', '/v1/plugins/held/settings', { hold: 'open' })
  const t = await editor('SelectOnly("scored", "yes", Score(priority * context.direction, explore=0, OldestFirst))')
  const context = t.page.getByLabel('Context of the consumer')
  const button = (name) => t.page.getByRole('button', { name, exact: true })
  const priorities = () => t.page.getByRole('region', { name: 'Picks' }).locator('tbody tr').evaluateAll((all) => all.map((row) => row.children[4].textContent))
  for (const [direction, want] of [['1', ['7', '3']], ['-1', ['3', '7']]]) {
    await context.fill(`direction=${direction}\nwarm_model=llama`)
    for (const name of ['Preview', 'Explain']) {
      await button(name).click()
      await eventually(async () => assert.deepEqual(await priorities(), want, `${name} with direction ${direction}`))
    }
  }
  assert.match(await button('Copy CLI').first().getAttribute('title'), /--context direction=-1 --context warm_model=llama/)
  await context.fill('direction')
  await t.page.getByRole('alert').getByText('“direction” is not KEY=VALUE').waitFor()
  assert.equal(await button('Preview').isDisabled(), true, 'what is not a pair is not sent')
  await context.fill('')
  await t.field.fill('OrElse(Plugin("held", OldestFirst), OldestFirst)')
  for (const [name, heading, of] of [['Compare with', 'Compare', 'A'], ['Explain', 'Chunks that a consumer would get now', 'The strategy'], ['Compare with', 'Compare', 'A'], ['Preview', 'Chunks that a consumer would get now', 'The strategy']]) {
    await button(name).click()
    const card = t.page.locator('section', { has: t.page.getByRole('heading', { name: heading, exact: true }) })
    await card.getByText(new RegExp(`^${of} has a block that is not scored now.* an operator holds it\\.$`)).waitFor()
  }
  assert.deepEqual(await t.axe(), [])
  const asked = t.page.waitForRequest('**/dry-run')
  await t.go('#/plugins/held')
  await t.page.getByLabel('Context of the consumer').fill('direction=5')
  await t.page.getByRole('button', { name: 'Score ready chunks' }).click()
  assert.deepEqual((await asked).postDataJSON().context, { direction: 5 })
  await t.page.getByText('would be taken').first().waitFor()
  assert.deepEqual(t.wrong, [])
  await t.close()
})
