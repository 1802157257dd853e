// Calls a server with the client that hey-api made: it inserts a chunk and finds the submission by its meta.
import assert from 'node:assert/strict'
import { client } from './generated/hey/client.gen.js'
import { insert, listSubmissions, reserve, type StrategyBlock } from './generated/hey/index.js'

client.setConfig({ baseUrl: process.argv[2] as 'http://localhost' })
const path = { queue: 'default' }
const inserted = await insert({ path, body: { meta: { company: 33 }, chunks: { inline: ['ash'] } } })
const found = await listSubmissions({ path, query: { meta: { company: '33' } } })
assert.deepEqual(found.data?.items.map((one) => one.id), [inserted.data?.id])
const strategy: StrategyBlock = { type: 'select_only', meta_field: 'company', value: 33, underlying: { type: 'or_else', branches: ['oldest_first', { type: 'random' }] } }
// @ts-expect-error: a Fair block has no limit
export const wrong: StrategyBlock = { type: 'fair', meta_field: 'company', underlying: 'random', max: 3 }
const held = await reserve({ path, body: { max: 1, strategy } })
const content = held.data?.reservations[0]?.content
assert.equal(content && 'text' in content && content.text, 'ash')
const refused = await listSubmissions({ path: { queue: 'nowhere' } })
assert.equal(refused.error?.code, 'unknown_queue')
console.log('hey-api: inserted and found', inserted.data?.id)
