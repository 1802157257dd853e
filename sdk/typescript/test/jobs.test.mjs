// Kinds of work, against a real server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, HandlerTimeoutError, InvalidError, PermanentError, RetryError, SnoozeError, submissionOf } from '../dist/index.js'
import { serve } from './harness.mjs'

async function connect(t) {
  const server = await serve()
  const client = new Client(server.url)
  t.after(async () => { client.close(); await server.stop() })
  return client
}

const all = async (items) => { const list = []; for await (const item of items) list.push(item); return list }
const again = { max_attempts: 2, on_exhausted: 'dead_letter', retry_backoff: { kind: 'list', delays_ms: [0], jitter: 'none' } }
const insert = async (client, kind, args, rest = {}) => (await client.insert('default', submissionOf(kind, args, { ...again, ...rest }))).id

/** Works beside the test, until it is stopped. */
function beside(client, options, handlers) {
  const enough = new AbortController()
  const worker = client.worker({ ...options, signal: enough.signal })
  for (const [kind, handler, own] of handlers) worker.handle(kind, handler, own)
  const worked = worker.run()
  worked.catch(() => {})
  return async () => {
    enough.abort()
    await worked
  }
}

test('each chunk goes to the handler of its kind with its arguments, through the middleware; those of other kinds stay', async (t) => {
  const odd = 'o"d<d>\\ é'
  for (const strategy of [undefined, ' Fair("kind", OldestFirst)', { type: 'fair', meta_field: 'kind', underlying: 'newest_first' }]) {
    const client = await connect(t)
    const done = [await insert(client, 'resize', [{ name: 'a.png', width: 10 }, { name: 'b.png', width: 2n ** 60n }]), await insert(client, 'email', ['ana', 'bo']), await insert(client, odd, [1])]
    const others = [await insert(client, 'fax', [1]), (await client.insert('default', { chunks: { count: 1, template: '1' } })).id]
    const around = (name) => (next) => async (chunk) => `${name}(${await next(chunk)})`
    const stop = beside(client, { concurrency: 4, strategy, middleware: [around('outer'), around('inner')] }, [
      ['resize', ({ name, width }) => `${name} to ${width}`], ['email', (to, chunk) => `to ${to} as ${chunk.index}`, { concurrency: 1 }], [odd, () => ''],
    ])
    for (const id of done) assert.equal((await client.wait(id)).state, 'completed')
    await stop()
    assert.deepEqual((await all(client.outputs(done[0]))).map((o) => o.text), ['outer(inner(a.png to 10))', 'outer(inner(b.png to 1152921504606846976))'])
    assert.deepEqual((await all(client.outputs(done[1]))).map((o) => o.text), ['outer(inner(to ana as 0))', 'outer(inner(to bo as 1))'])
    for (const id of others) {
      const { done: did, reserved, ready } = await client.getSubmission(id)
      assert.deepEqual([did, reserved, ready], [0, 0, 1])
    }
  }
})

test('what a handler throws decides, then the retries of its kind, then the queue; hooks hear of each failure, and of the last one', async (t) => {
  const client = await connect(t)
  class Broken extends Error {}
  const ids = {}
  for (const kind of ['fails', 'twice', 'hopeless', 'slow', 'large', 'parsed', 'raises', 'snoozed']) ids[kind] = await insert(client, kind, [1])
  ids.wrong = (await client.insert('default', { ...again, meta: { kind: 'wrong' }, chunks: { inline: ['{'] } })).id
  const happened = []
  const errors = []
  const note = (chunk, text) => happened.push(`${chunk.meta.kind} ${text}`)
  const onFailure = (chunk, error) => note(chunk, `failed, attempt ${chunk.attempt}: ${error.message.replace('quern: ', '').split(/[:(]/)[0].trim()}`)
  const onDead = async (chunk) => {
    note(chunk, `is dead, attempt ${chunk.attempt}`)
    if (chunk.meta.kind === 'fails') throw new TypeError('in a hook')
  }
  const broken = () => { throw new Broken('broken') }
  const onlyBroken = (_, error) => (error instanceof Broken ? 0 : undefined)
  let snoozed = false
  const stop = beside(client, { concurrency: 3, onFailure, onDead, onError: (error) => errors.push(error) }, [
    ['fails', broken],
    ['twice', (_, chunk) => (chunk.attempt === 1 ? broken() : 'now it works'), { retry: onlyBroken }],
    ['hopeless', broken, { retry: () => undefined }],
    ['slow', (_, chunk) => new Promise((_, reject) => chunk.signal.addEventListener('abort', () => reject(new Broken('late')))), { timeoutMs: 10, retry: onlyBroken }],
    ['large', () => 'x'.repeat(2 << 20)],
    ['wrong', () => {}, { retry: () => 0 }],
    ['parsed', () => {}, { parse: (value) => { throw new TypeError(`${value} is no name`) } }],
    ['raises', broken, { retry: () => { throw new Error('in the retry') } }],
    ['snoozed', () => {
      if (snoozed) return 'worked'
      snoozed = true
      throw new SnoozeError(0)
    }, { retry: () => undefined }],
  ])
  for (const kind in ids) assert.equal((await client.wait(ids[kind])).state, ['twice', 'snoozed'].includes(kind) ? 'completed' : 'completed_with_dead', kind)
  await stop()
  assert.deepEqual(happened.sort(), [
    'fails failed, attempt 1: broken', 'fails failed, attempt 2: broken', 'fails is dead, attempt 2',
    'hopeless failed, attempt 1: broken', 'hopeless is dead, attempt 1',
    'large failed, attempt 1: the server refused the output', 'large is dead, attempt 1',
    'parsed failed, attempt 1: the content is not the JSON of the arguments', 'parsed is dead, attempt 1',
    'raises failed, attempt 1: in the retry', 'raises failed, attempt 2: in the retry', 'raises is dead, attempt 2',
    'slow failed, attempt 1: the handler took too long', 'slow is dead, attempt 1',
    'twice failed, attempt 1: broken',
    'wrong failed, attempt 1: the content is not the JSON of the arguments', 'wrong is dead, attempt 1',
  ])
  assert.ok(errors.some((error) => /a hook failed for the chunk .*: in a hook$/.test(error.message)), String(errors))
  assert.match((await client.getDeadLetter('default', ids.hopeless, 0)).error, /^Broken: broken\n  at broken \(.*jobs\.test\.mjs:\d+:\d+\)/)
  assert.match((await client.getDeadLetter('default', ids.slow, 0)).error, /took too long \(more than 10 ms\): Error: late/)
})

test('onDead is called for the attempt that was the last, also if the hook of one before it comes late', async (t) => {
  const client = await connect(t)
  const id = await insert(client, 'a', [1])
  const heard = []
  const onFailure = async (chunk) => { if (chunk.attempt === 1) await client.wait(id) }
  const stop = beside(client, { onFailure, onDead: (chunk) => void heard.push(chunk.attempt), onError() {} }, [['a', () => { throw new Error('no') }]])
  await client.wait(id)
  await stop()
  assert.deepEqual(heard, [2])
})

test('a chunk whose failure ends its submission is dead, too, and a timeout aborts the signal', async (t) => {
  const client = await connect(t)
  const id = await insert(client, 'a', [1], { on_exhausted: 'fail_submission' })
  const heard = []
  const reasons = []
  const handler = (_, chunk) => new Promise((_, reject) => chunk.signal.addEventListener('abort', () => { reasons.push(chunk.signal.reason); reject(chunk.signal.reason) }))
  const stop = beside(client, { onDead: (chunk, error) => void heard.push([chunk.index, error]), onError() {} }, [['a', handler, { timeoutMs: 5, retry: () => undefined }]])
  assert.equal((await client.wait(id)).state, 'failed')
  await stop()
  assert.ok(reasons[0] instanceof HandlerTimeoutError)
  assert.deepEqual(heard, [[0, reasons[0]]], 'what the handler threw is the reason itself')
})

test('a kind with a concurrency of its own holds up no other, and both end together', async (t) => {
  const client = await connect(t)
  const slow = await insert(client, 'slow', [1, 2, 3, 4, 5])
  let begun = 0
  let both, go
  const two = new Promise((resolve) => { both = resolve })
  const goOn = new Promise((resolve) => { go = resolve })
  const worker = client.worker({ consumer: 'w', signals: [], onError() {} })
  worker.handle('slow', async () => {
    if (++begun === 2) both()
    await goOn
  }, { concurrency: 2 })
  worker.handle('quick', () => {})
  const worked = worker.run()
  await Promise.race([two, worked])
  assert.equal((await client.wait(await insert(client, 'quick', [1, 2, 3]))).state, 'completed')
  assert.equal(begun, 2)
  assert.deepEqual((await all(client.listConsumers('default'))).map((one) => one.consumer), ['w', 'w-slow'])
  go()
  await client.wait(slow)
  await client.drainConsumer('default', 'w-slow')
  await worked // the other one ends, too
})

test('a worker whose hooks are slow reserves less, so that no failures pile up behind them', async (t) => {
  const client = await connect(t)
  const id = await insert(client, 'a', Array.from({ length: 10 }, (_, i) => i))
  let running = 0
  let most = 0
  const onFailure = async () => {
    most = Math.max(most, ++running)
    await new Promise((go) => setTimeout(go, 20)) // in which others would begin
    running--
  }
  const stop = beside(client, { prefetch: 0, onFailure, onError() {} }, [['a', () => { throw new PermanentError('no') }]])
  await client.wait(id)
  await stop()
  assert.ok(most <= 2, `${most} hooks ran at once`) // that of the chunk in a call, and that of the chunk that this call reserved
})

test('what cannot work is refused before anything is reserved', async (t) => {
  const client = new Client('http://127.0.0.1:2')
  const nothing = () => {}
  await assert.rejects(client.worker().run(), /there are 0 kinds/)
  assert.throws(() => client.worker().handle('', nothing), /no name/)
  assert.throws(() => client.worker().handle('a', nothing).handle('a', nothing), /two handlers/)
  assert.throws(() => client.worker().handle('a', nothing, { concurrency: 0 }), /concurrency of the kind a is 0/)
  assert.throws(() => client.worker().handle('a', nothing, { timeoutMs: -1 }), /timeoutMs of the kind a is -1/)
  await assert.rejects(client.worker().handle('k'.repeat(130), nothing, { concurrency: 1 }).run(), /at most 128 are allowed/)
  await assert.rejects(client.worker().handle('a', nothing, { concurrency: 200_000 }).run(), /concurrency is 200000/)
  assert.throws(() => submissionOf('a', [undefined]), /arguments 0 of the kind a are undefined/)
  const real = await connect(t)
  await assert.rejects(real.worker({ strategy: 'Nonsense' }).handle('a', nothing).handle('b', nothing, { concurrency: 1 }).run(), InvalidError)
})
