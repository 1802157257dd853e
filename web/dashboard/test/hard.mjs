// Data that is hard to show: long and right-to-left names, characters that turn text around, rules over each other, many values.
import { call, dead, insert, reserve } from './harness.mjs'

/** A name of 250 bytes whose ends differ from those of its neighbours. */
export const long = (tail) => `customer-of-the-northern-region/${'0123456789abcdef'.repeat(14)}`.slice(0, 250 - tail.length) + tail
export const rightToLeft = 'שלום-עולם-לקוח'
/** Drawn as it is, it ends with txt.exe the wrong way round. */
export const turned = 'invoice\u202eexe.txt'
export const consumer = 'ip-10-20-30-40.eu-central-1.compute.internal/import-worker/' + 'f'.repeat(60)

const rules = '/v1/queues/default/rules'
export const pause = (url, match, reason, more = {}) => call(url, 'POST', rules, { action: 'pause', match, reason, actor: 'ana', ...more })

/** As much of it as a large shop has: 100,000 submissions of 10,000 tenants, and 27,000 dead letters. */
export const full = { tenants: 10_000, each: 10, letters: 27_000 }

const batch = 1000

/** Submissions of many tenants, a thousand in a commit. */
async function many(url, tenants, each) {
  const all = Array.from({ length: tenants * each }, (_, i) => ({ meta: { tenant: `t${i % tenants}`, region: 'ap' }, chunks: { count: 50, template: 'row {index}' } }))
  for (let next = 0; next < all.length; next += batch) {
    const { results } = await call(url, 'POST', '/v1/queues/default/submissions:batch', { submissions: all.slice(next, next + batch) })
    const wrong = results.find((r) => r.status !== 'created')
    if (wrong) throw new Error(`a submission of hard data is ${wrong.status}: ${wrong.detail}`)
  }
}

/** Fills the default queue, and pauses five values of it: the last rule holds the most chunks. */
export async function hard(url, { tenants = 40, each = 1, letters = 30 } = {}) {
  await insert(url, 300, { tenant: long('-a'), region: 'eu' })
  await insert(url, 200, { tenant: long('-b'), region: 'eu' })
  await insert(url, 100, { tenant: rightToLeft, region: 'me' })
  await insert(url, 90, { tenant: turned, region: 'eu' })
  await many(url, tenants, each)
  const large = await insert(url, 9_000_000, { tenant: 'large', region: 'us' })
  for (const tenant of [long('-a'), rightToLeft, turned, 't0', 't1']) await call(url, 'PUT', `/v1/queues/default/meta-keys/tenant/values/${encodeURIComponent(tenant)}`, { limit: 7, weight: 2 })
  for (const meta of [{ tenant: long('-a') }, { tenant: rightToLeft }, { tenant: turned }]) await reserve(url, { max: 7, strategy: { type: 'select_only', meta_field: 'tenant', value: meta.tenant, underlying: { type: 'fair', meta_field: 'tenant', underlying: 'oldest_first' } }, consumer })
  const failed = await dead(url, letters, { tenant: 'failed', region: 'eu' })
  await pause(url, { meta: { tenant: rightToLeft } }, 'they asked for it')
  await pause(url, { meta: { tenant: long('-b') } }, 'their interface answers 503 for every second call, and the one who could say why is away until Monday. '.repeat(4).trim())
  await pause(url, { meta: { tenant: turned } }, 'a name that ' + turned)
  await pause(url, { meta: { tenant: 't1' } }, 'INC-311', { until: new Date(Date.now() + 5_400_000).toISOString() })
  await pause(url, { meta: { tenant: 'large' } }, 'the newest and the largest')
  await call(url, 'PUT', '/v1/queues/default/schedules/nightly-import-of-all-the-northern-regions-and-their-customers', { spec: '30 2 * * 1-5', tz: 'Europe/Amsterdam', template: { meta: { tenant: long('-s') }, chunks: { count: 100, template: 'part {index}' } } })
  return { large: large.id, failed }
}
