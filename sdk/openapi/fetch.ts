// Calls a server with the types that openapi-typescript made, and openapi-fetch: it inserts a chunk and finds the submission by its meta.
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { components, paths } from './generated/schema.js'

const client = createClient<paths>({ baseUrl: process.argv[2] })
const path = { queue: 'default' }
const inserted = await client.POST('/v1/queues/{queue}/submissions', { params: { path }, body: { meta: { company: 22 }, chunks: { inline: ['ash'] } } })
const found = await client.GET('/v1/queues/{queue}/submissions', { params: { path, query: { meta: { company: '22' } } } })
assert.deepEqual(found.data?.items.map((one) => one.id), [inserted.data?.id])
// The field type tells blocks apart, and the fields of the others are refused.
const strategy: components['schemas']['StrategyBlock'] = { type: 'select_only', meta_field: 'company', value: 22, underlying: { type: 'or_else', branches: ['oldest_first', { type: 'random' }] } }
if (strategy.type === 'select_only') assert.equal(strategy.value, 22)
// @ts-expect-error: a Fair block has no limit
export const wrong: components['schemas']['Strategy'] = { type: 'fair', meta_field: 'company', underlying: 'random', max: 3 }
const { data: held } = await client.POST('/v1/queues/{queue}/reservations', { params: { path }, body: { max: 1, strategy } })
const content = held?.reservations[0]?.content
assert.equal(content && 'text' in content && content.text, 'ash')
const refused = await client.GET('/v1/queues/{queue}/submissions', { params: { path: { queue: 'nowhere' } } })
assert.equal(refused.error?.code, 'unknown_queue')
console.log('openapi-typescript: inserted and found', inserted.data?.id)
