// Tables of many rows: the browser skips rows out of view, and still finds them in a search.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, eventually, open, server } from './harness.mjs'
import { hard } from './hard.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
  await hard(quern.url, { tenants: 230 })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

const last = 230

/** Opens all values of a key, once the browser skips rows. */
async function values(options) {
  const t = await open(chromium.b, quern.url, options)
  await t.go('#/keys?key=tenant&show=more&sort=ready')
  await t.page.locator('.list[data-long="rows"] tbody tr').nth(last - 1).waitFor({ state: 'attached' })
  return t
}

/** The left sides of the cells of the head, and of the first and a far row. */
const lefts = (page) => page.evaluate((far) => {
  const sides = (row) => [...row.cells].filter((c) => c.checkVisibility()).map((c) => Math.round(c.getBoundingClientRect().left))
  const { tHead, tBodies } = document.querySelector('.list[data-long="rows"]')
  return [tHead.rows[0], tBodies[0].rows[0], tBodies[0].rows[far]].map(sides)
}, last - 1)

const skipped = (page) => page.evaluate(() => [...document.querySelectorAll('.list tbody tr')].filter((r) => !r.firstElementChild.checkVisibility({ contentVisibilityAuto: true })).length)

test('rows out of view are skipped, and stand under their columns at any width', async () => {
  const t = await values()
  assert.ok(await skipped(t.page) > last / 2, 'most of the rows are out of view')
  for (const width of [1440, 1280, 1000]) {
    await t.page.setViewportSize({ width, height: 900 })
    await eventually(async () => {
      const [head, first, far] = await lefts(t.page)
      assert.equal(new Set(head).size, 8, `a column has no width at ${width} px: ${head}`)
      assert.deepEqual(first, head, `at ${width} px`)
      assert.deepEqual(far, head, `at ${width} px`)
      if (width > 1000) assert.equal(await t.page.evaluate(() => { const s = document.querySelector('.list').parentElement; return s.scrollWidth - s.clientWidth }), 0, `something stands out at ${width} px`)
    })
  }
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a row that is skipped is found by find in page, by its role and by the keyboard, and is printed', async () => {
  const t = await values()
  const far = t.page.locator('.list tbody tr').nth(last - 1)
  const name = await far.locator('bdi').first().textContent()
  assert.equal(await far.locator('td').first().evaluate((c) => c.checkVisibility({ contentVisibilityAuto: true })), false, 'it is out of view')
  const button = t.page.getByRole('row').getByRole('button', { name: `Set limit and weight of ${name}`, exact: true })
  assert.equal(await button.count(), 1)

  assert.ok(await t.page.evaluate((text) => window.find(text), name), 'find in page')
  await t.page.evaluate(() => { getSelection().removeAllRanges(); scrollTo(0, 0) })
  await button.focus()
  assert.equal(await far.locator('td').first().evaluate((c) => c.checkVisibility({ contentVisibilityAuto: true })), true, 'the focus brings it into view')
  await button.press('Enter')
  const limit = far.getByLabel('Limit')
  await limit.waitFor()
  assert.ok((await limit.boundingBox()).width > 60)
  assert.ok(await far.locator('td').last().evaluate((c) => c.getBoundingClientRect().width > c.parentElement.clientWidth / 2), 'the form has the room of the columns that it covers')

  await t.page.emulateMedia({ media: 'print' })
  assert.equal(await far.evaluate((r) => getComputedStyle(r).display), 'table-row', 'on paper it is a table')
  assert.equal(await skipped(t.page), 0)
  assert.deepEqual(t.wrong, [])
  await t.close()
})

test('a long table is well formed for who hears it, at 1440 and 390 px', async () => {
  for (const width of [1440, 390]) {
    const t = await values({ width, height: 844 })
    assert.deepEqual(await t.axe({ rules: { 'color-contrast': { enabled: false } } }), [], `${width} px`) // its colours are those of a short one
    assert.ok(await skipped(t.page) > last / 2)
    assert.ok(await t.page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), 'nothing stands out at the right')
    await t.close()
  }
})
