// Submissions that completions insert, against a real server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, PermanentError } from '../dist/index.js'
import { serve } from './harness.mjs'

const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

async function connect(t) {
  const server = await serve()
  const client = new Client(server.url)
  t.after(async () => { client.close(); await server.stop() })
  return client
}

test('what a handler has follow is there when its chunk is done, once; what is refused as wrong is dead, and what is for now is tried again', async (t) => {
  const client = await connect(t)
  const rule = await client.setRule('default', { action: 'pause', effects: { insert: true }, match: { meta: { kind: 'held up' } } })
  const again = { max_attempts: 3, on_exhausted: 'dead_letter', retry_backoff: { kind: 'fixed', base_ms: 1 }, chunks: { inline: ['x'] } }
  const { id } = await client.insert('default', { meta: { kind: 'split' }, chunks: { count: 100, template: '{index}' } }, { trace })
  const ids = { split: id }
  for (const kind of ['wrong', 'many', 'fails', 'refused']) ids[kind] = (await client.insert('default', { ...again, meta: { kind } })).id
  const seen = new Set()
  const wrong = []
  const stop = new AbortController()
  const worked = client.work({ concurrency: 8, signal: stop.signal, onError() {} }, async (chunk) => {
    const { kind } = chunk.meta
    if (kind === 'split') for (const name of 'ab') chunk.thenInsert({ meta: { kind: 'part' }, chunks: { inline: [name + chunk.text] }, idempotency_key: `${name}/${chunk.index}` })
    if (kind === 'wrong') chunk.thenInsert({ chunks: { inline: [] } })
    if (kind === 'many') for (let i = 0; i < 101; i++) chunk.thenInsert({ chunks: { inline: ['x'] } })
    if (kind === 'fails') {
      chunk.thenInsert({ chunks: { inline: ['x'] } })
      throw new PermanentError('no')
    }
    if (kind === 'refused') {
      if (chunk.attempt === 2) await client.liftRule('default', rule.id)
      chunk.thenInsert({ meta: { kind: 'held up' }, chunks: { inline: ['x'] } })
    }
    if (kind === 'part') {
      if (chunk.trace?.split('-')[1] !== trace.split('-')[1]) wrong.push(chunk.trace)
      seen.add(chunk.text)
    }
    await chunk // it is no promise: nothing is inserted by this
  })
  while ((await client.getStats('default')).submissions_open > 0) await new Promise((go) => setTimeout(go, 10))
  stop.abort()
  await worked
  const states = {}
  for (const kind in ids) states[kind] = (await client.getSubmission(ids[kind])).state
  const dead = 'completed_with_dead'
  assert.deepEqual(states, { split: 'completed', wrong: dead, many: dead, fails: dead, refused: 'completed' })
  assert.equal(seen.size, 200)
  assert.deepEqual(wrong, [])
  assert.equal((await client.getStats('default')).submissions_inserted_total, 5 + 200 + 1)
  for (const [kind, says] of [['wrong', /^the server refused the insert\/0\/chunks\/inline: it /], ['many', /^the server refused the insert: it has more than 100 entries/]]) {
    assert.match((await client.getDeadLetter('default', ids[kind], 0)).error, says)
  }
})

test('completions that bring more submissions than one call may are reported in several', async (t) => {
  const client = await connect(t)
  const n = 220
  const { id } = await client.insert('default', { meta: { kind: 'split' }, chunks: { count: n, template: 'x' } })
  let here = 0
  let go
  const all = new Promise((resolve) => { go = resolve })
  const stop = new AbortController()
  const worked = client.work({ concurrency: n, strategy: 'SelectOnly("kind", "split", Random)', signal: stop.signal }, async (chunk) => {
    for (let i = 0; i < 100; i++) chunk.thenInsert({ chunks: { count: 1, template: 'x' } })
    if (++here === n) go()
    await all
  })
  const ended = await Promise.race([client.wait(id), worked])
  assert.equal(ended?.state, 'completed')
  stop.abort()
  await worked
  assert.equal((await client.getStats('default')).submissions_inserted_total, 1 + 100 * n)
})
