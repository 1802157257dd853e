// Calls a server with the types that openapi-typescript made, and openapi-fetch: it inserts a chunk and finds the submission by its meta.
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { paths } from './generated/schema.js'

const client = createClient<paths>({ baseUrl: process.argv[2] })
const path = { queue: 'default' }
const inserted = await client.POST('/v1/queues/{queue}/submissions', { params: { path }, body: { meta: { company: 22 }, chunks: { inline: ['ash'] } } })
const found = await client.GET('/v1/queues/{queue}/submissions', { params: { path, query: { meta: { company: '22' } } } })
assert.deepEqual(found.data?.items.map((one) => one.id), [inserted.data?.id])
const refused = await client.GET('/v1/queues/{queue}/submissions', { params: { path: { queue: 'nowhere' } } })
assert.equal(refused.error?.code, 'unknown_queue')
console.log('openapi-typescript: inserted and found', inserted.data?.id)
