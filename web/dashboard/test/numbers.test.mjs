// The numbers on a page are those of the API, on hard data that does not change.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { browser, call, eventually, insert, open, reserve, server } from './harness.mjs'
import { hard } from './hard.mjs'

let quern, chromium, mixed
const base = '/v1/queues/default'

before(async () => {
  quern = await server()
  chromium = await browser()
  await hard(quern.url, { tenants: 12 })
  mixed = (await insert(quern.url, 20_000, { tenant: 'mixed', region: 'ap' }, { on_exhausted: 'dead_letter' })).id
  const { reservations } = await reserve(quern.url, { max: 100, strategy: 'SelectOnly("tenant", "mixed", OldestFirst)', consumer: 'quick' })
  const some = (from, to, more) => ({ items: reservations.slice(from, to).map(({ token }) => ({ token, ...more })) })
  await call(quern.url, 'POST', `${base}/reservations/complete`, some(0, 40))
  await call(quern.url, 'POST', `${base}/reservations/fail`, some(40, 65, { error: 'the far side answered 503', fatal: true }))
  await call(quern.url, 'POST', `${base}/reservations/fail`, some(65, 80, { error: 'come again tomorrow', retry_after_ms: 86_400_000 }))
  await call(quern.url, 'PUT', '/v1/queues/second', {})
  await call(quern.url, 'POST', '/v1/queues/second/submissions', { chunks: { count: 12_345, template: 'x' } })
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** The exact number of an element: a shortened one has it in its title, and words stand around others. */
const shown = async (of) => {
  const title = await of.getAttribute('title')
  const text = /^[\d,]+$/.test(title ?? '') ? title : await of.textContent()
  const found = /\d[\d,]*/.exec(text)
  assert.ok(found, `there is no number in “${text}”`)
  return Number(found[0].replaceAll(',', ''))
}

const tile = (page, name, part = '.v') => page.getByRole('region', { name, exact: true }).locator(part)
const beside = (page, name) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: new RegExp(`^${name}`) }).locator('.n')
const row = (page, table, first) => page.getByRole('region', { name: table, exact: true }).getByRole('row').filter({ has: page.locator('td.first').getByText(first, { exact: true }) })
const cell = (page, table, first, column) => row(page, table, first).locator(`[data-label="${column}"]`)
const inCell = (page, table, first, column) => cell(page, table, first, column).locator('[title]').last()
const legend = (page, state) => page.locator('.legend span').filter({ hasText: new RegExp(`^${state}`) }).locator('[title]')

const checks = [
  ['overview', '#/overview', async (ask) => {
    const s = await ask(`${base}/stats`)
    return [
      ['ready', (p) => tile(p, 'Ready'), s.ready], ['in flight', (p) => tile(p, 'In flight'), s.reserved], ['waiting', (p) => tile(p, 'Waiting'), s.waiting],
      ['open submissions', (p) => tile(p, 'Ready', '.d'), s.submissions_open], ['done', (p) => tile(p, 'Done', '.d'), s.done_total],
      ['submissions in the menu', (p) => beside(p, 'Submissions'), s.submissions_open], ['reservations in the menu', (p) => beside(p, 'Reservations'), s.reserved],
      ['failing in the menu', (p) => beside(p, 'Failing now'), s.retrying], ['dead letters in the menu', (p) => beside(p, 'Dead letters'), s.dead_letters],
    ]
  }],
  ['keys', '#/keys?key=tenant', async (ask) => {
    const [v, large, keys] = [await ask(`${base}/meta-keys/tenant/values/mixed`), await ask(`${base}/meta-keys/tenant/values/large`), await ask(`${base}/meta-keys`)]
    const of = (column) => (p) => inCell(p, 'Values of tenant', 'mixed', column)
    const tenants = keys.items.find((k) => k.key === 'tenant')
    return [
      ['ready', of('Ready'), v.ready], ['waiting', of('Waiting'), v.waiting], ['in flight', (p) => cell(p, 'Values of tenant', 'mixed', 'In flight / limit'), v.in_flight], ['dead', of('Dead'), v.dead],
      ['done', of('Done'), v.done], ['submissions', of('Submissions'), v.submissions], ['paused', (p) => inCell(p, 'Values of tenant', 'large', 'Ready'), large.paused],
      ['values', (p) => p.getByRole('group', { name: 'Meta keys' }).getByRole('button', { name: /^tenant/ }), tenants.values],
    ]
  }],
  ['value', '#/keys/tenant/mixed', async (ask) => {
    const v = await ask(`${base}/meta-keys/tenant/values/mixed`)
    return [
      ['ready', (p) => tile(p, 'Ready'), v.ready], ['waiting', (p) => tile(p, 'Waiting'), v.waiting], ['in flight', (p) => tile(p, 'In flight'), v.in_flight], ['dead', (p) => tile(p, 'Dead'), v.dead],
      ['done', (p) => tile(p, 'Done'), v.done], ['submissions', (p) => p.locator('.head span').first(), v.submissions],
    ]
  }],
  ['paused value', '#/keys/tenant/large', async (ask) => {
    const v = await ask(`${base}/meta-keys/tenant/values/large`)
    return [['paused', (p) => tile(p, 'Paused'), v.paused], ['ready', (p) => tile(p, 'Ready'), v.ready]]
  }],
  ['submission', () => `#/submissions/${mixed}`, async (ask) => {
    const s = await ask(`/v1/submissions/${mixed}`)
    return ['ready', 'reserved', 'waiting', 'dead', 'done'].map((state) => [state, (p) => legend(p, state), s[state]])
  }],
  ['dead letters', '#/dead-letters', async (ask) => {
    const { items } = await ask(`${base}/dead-letters/groups`)
    return items.flatMap((g) => [['chunks', 'count', 'Chunks'], ['submissions', 'submissions', 'Submissions']].map(([name, field, column]) => [`${name} of “${g.pattern}”`, (p) => p.getByRole('region', { name: 'Groups of dead letters' }).getByRole('row').filter({ has: p.getByRole('button', { name: g.pattern, exact: true }) }).locator(`[data-label="${column}"] [title]`), g[field]]))
  }],
  ['queues', '#/queues', async (ask) => {
    const { items } = await ask('/v1/queues')
    assert.equal(items.length, 2)
    return items.flatMap(({ name, now }) => [['Waiting', now.waiting], ['In flight', now.reserved], ['Dead letters', now.dead_letters]].map(([column, want]) => [`${column} of ${name}`, (p) => cell(p, 'All queues', name, column).locator('[title]').or(cell(p, 'All queues', name, column)).last(), want]))
  }],
]

test('the numbers of the pages are those of the API', async () => {
  const t = await open(chromium.b, quern.url)
  await t.page.setViewportSize({ width: 1920, height: 1080 }) // narrower lists leave some numbers out
  const ask = (path) => call(quern.url, 'GET', path)
  let compared = 0
  for (const [page, hash, all] of checks) {
    await t.go(typeof hash === 'string' ? hash : hash())
    for (const [name, where, want] of await all(ask)) {
      const at = where(t.page)
      await at.waitFor()
      await eventually(async () => assert.equal(await shown(at), want, `${page}: ${name}`))
      compared++
    }
  }
  assert.ok(compared >= 24, `${compared} numbers were compared`)
  assert.deepEqual(t.wrong, [])
  await t.close()
})
