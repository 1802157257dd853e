// Calls a server with the client that hey-api made: it inserts a chunk and finds the submission by its meta.
import assert from 'node:assert/strict'
import { client } from './generated/hey/client.gen.js'
import { insert, listSubmissions } from './generated/hey/index.js'

client.setConfig({ baseUrl: process.argv[2] as 'http://localhost' })
const path = { queue: 'default' }
const inserted = await insert({ path, body: { meta: { company: 33 }, chunks: { inline: ['ash'] } } })
const found = await listSubmissions({ path, query: { meta: { company: '33' } } })
assert.deepEqual(found.data?.items.map((one) => one.id), [inserted.data?.id])
const refused = await listSubmissions({ path: { queue: 'nowhere' } })
assert.equal(refused.error?.code, 'unknown_queue')
console.log('hey-api: inserted and found', inserted.data?.id)
