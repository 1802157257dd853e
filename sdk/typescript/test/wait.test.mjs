// Waiting for many submissions, against a real server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, InvalidError, NotFoundError } from '../dist/index.js'
import { serve } from './harness.mjs'

test('many submissions, more than one call waits for, come as they end, each once; an unknown id comes with its error and keeps no other', async (t) => {
  const server = await serve()
  const client = new Client(server.url)
  t.after(async () => { client.close(); await server.stop() })
  const ids = []
  for await (const { id } of client.insertMany('default', Array.from({ length: 1003 }, () => ({ chunks: { count: 1, prefix: 'a/' } })))) ids.push(id)
  const [first, second] = [ids[7], ids[1]]
  await client.cancelSubmission(first)
  const cancels = []
  const cancel = (names) => cancels.push((async () => { for (const name of names) await client.cancelSubmission(name) })())
  const ended = []
  const unknown = []
  for await (const { id, submission, error } of client.waitMany(['7', '00' + first, ...ids])) {
    if (error) {
      assert.ok(error instanceof NotFoundError && error.code === 'unknown_submission')
      unknown.push(id)
      continue
    }
    assert.deepEqual([submission.id, submission.state], [id, 'cancelled'])
    ended.push(id)
    if (ended.length === 1) cancel([second]) // while the next call waits, or before
    if (ended.length === 2) cancel(ids.filter((one) => one !== first && one !== second))
  }
  await Promise.all(cancels)
  assert.deepEqual([unknown, ended.slice(0, 2)], [['7'], [first, second]])
  assert.deepEqual(ended.sort(), [...ids].sort())
  await assert.rejects(client.waitMany(['x']).next(), InvalidError)
  await assert.rejects(client.waitMany('7').next(), TypeError)
  assert.equal((await client.waitMany([]).next()).done, true)
  const { id } = await client.insert('default', { chunks: { inline: ['x'] } })
  const late = new AbortController()
  setTimeout(() => late.abort(new Error('late')), 20)
  await assert.rejects(client.waitMany([id], { signal: late.signal }).next(), /late/)
})
