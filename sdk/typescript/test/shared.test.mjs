// Inserts that overlap share calls: over a transport that the test answers by hand, and against a real server.
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { test } from 'node:test'
import { Client, InvalidError, QuernError, UnreachableError } from '../dist/index.js'
import { serve } from './harness.mjs'

/** A client whose calls wait in a list until the test answers them. */
function gate(options = {}) {
  const calls = []
  let arrived = () => {}
  const send = (call) => new Promise((resolve, reject) => {
    const lines = call.body.split('\n').map((line) => JSON.parse(line))
    const answer = (status, body) => resolve({ status, header: () => undefined, body: [new TextEncoder().encode(JSON.stringify(body))] })
    calls.push({ ...call, lines, isBatch: call.url.endsWith(':batch'), answer, fail: reject })
    arrived()
  })
  const client = new Client('http://127.0.0.1:1', { retries: 0, transport: { send, close() {} }, ...options })
  const next = async () => {
    while (calls.length === 0) await new Promise((go) => { arrived = go })
    return calls.shift()
  }
  const insert = (text, options) => client.insert('q', { chunks: { inline: [text] } }, options)
  return { calls, next, insert, client }
}

const textOf = (line) => line.chunks.inline[0]

/** Inserts each text under its own name, but those that are bad. */
function echo(call) {
  if (!call.isBatch) return textOf(call.lines[0]) === 'bad' ? call.answer(422, { status: 422, code: 'invalid' }) : call.answer(201, { id: textOf(call.lines[0]) })
  call.answer(200, { results: call.lines.map((line) => (textOf(line) === 'bad' ? { status: 'invalid', code: 'invalid' } : { status: 'created', submission: { id: textOf(line) } })) })
}

const problem = (call, status) => call.answer(status, { status, code: 'no' })

test('the first insert goes at once, the others share the next call, and a refused one asks alone with the same key', async () => {
  const { insert, next, calls } = gate()
  const first = insert('first')
  const [a, bad, b] = [insert('a'), insert('bad', { key: 'my"key\\' }), insert('b')]
  const one = await next()
  assert.deepEqual([one.isBatch, calls.length], [false, 0])
  echo(one)
  assert.deepEqual(await first, { id: 'first' })
  const call = await next()
  assert.deepEqual(call.lines.map(textOf), ['a', 'bad', 'b'])
  assert.equal(call.lines[1].idempotency_key, 'my"key\\')
  assert.equal(new Set(call.lines.map((line) => line.idempotency_key)).size, 3)
  echo(call)
  assert.deepEqual([await a, await b], [{ id: 'a' }, { id: 'b' }])
  const joining = [insert('c'), insert('d')] // in the same turn of the event loop as the results
  const again = await next()
  assert.deepEqual([again.isBatch, again.headers['idempotency-key']], [false, 'my"key\\'])
  echo(again)
  await assert.rejects(bad, InvalidError)
  const last = await next()
  assert.deepEqual(last.lines.map(textOf), ['c', 'd'])
  echo(last)
  await Promise.all(joining)
  await new Promise(setImmediate)
  const lone = insert('lone') // all is as in the beginning
  const alone = await next()
  assert.equal(alone.isBatch, false)
  echo(alone)
  await lone
})

test('a call has at most 1,000 submissions and 8 MiB, and a large one goes alone', async () => {
  const { insert, next } = gate()
  for (const [text, count, fits] of [['x', 1500, (n) => n === 1000], ['é'.repeat(31 << 10), 200, (n, bytes) => n < 200 && bytes <= 8 << 20 && bytes > 7.5 * 2 ** 20]]) {
    const done = [insert('first')]
    const first = await next()
    const large = insert('é'.repeat(32 << 10))
    const alone = await next()
    assert.equal(alone.isBatch, false)
    for (let i = 0; i < count; i++) done.push(insert(text))
    echo(alone)
    echo(first)
    await large
    let calls = 0
    for (let left = count; left > 0; calls++) {
      const call = await next()
      if (calls === 0) assert.ok(fits(call.lines.length, Buffer.byteLength(call.body)), `${call.lines.length} of ${Buffer.byteLength(call.body)} bytes`)
      left -= call.lines.length
      echo(call)
    }
    assert.equal(calls, 2)
    await Promise.all(done)
    await new Promise(setImmediate)
  }
})

test('an insert whose signal is aborted before its call is not in it, and one whose signal is aborted later harms no other', async () => {
  const { insert, next } = gate()
  const stop = new AbortController()
  const late = new AbortController()
  const first = insert('first')
  const gone = insert('gone', { signal: stop.signal })
  const under = insert('under', { signal: late.signal })
  const stays = insert('stays')
  stop.abort(new Error('enough'))
  await assert.rejects(gone, /enough/)
  await assert.rejects(insert('never', { signal: stop.signal }), /enough/)
  echo(await next())
  await first
  const call = await next()
  assert.deepEqual(call.lines.map(textOf), ['under', 'stays'])
  late.abort(new Error('too late'))
  await assert.rejects(under, /too late/)
  echo(call)
  assert.deepEqual(await stays, { id: 'stays' })
})

test('a call that is tried again holds up no others', async () => {
  const { insert, next } = gate({ retries: 1 })
  const tried = [] // again, at some time
  const take = async (text) => {
    for (;;) {
      const call = await next()
      if (textOf(call.lines[0]) === text) return call
      tried.push(call)
    }
  }
  const first = insert('first')
  const a = insert('a')
  problem(await take('first'), 503)
  const call = await take('a')
  const b = insert('b')
  call.fail(new Error('gone'))
  echo(await take('b'))
  assert.deepEqual(await b, { id: 'b' })
  while (tried.length < 2) tried.push(await next())
  tried.forEach(echo)
  assert.deepEqual([await first, await a], [{ id: 'first' }, { id: 'a' }])
})

test('a call that fails fails for all that share it, and when the whole is refused each asks alone', async () => {
  const { insert, next, client } = gate()
  for (const [end, check] of [
    [(call) => problem(call, 503), (error) => error instanceof QuernError && error.status === 503],
    [(call) => call.fail(new Error('gone')), (error) => error instanceof UnreachableError],
    [(call) => call.answer(200, { results: [] }), /0 results for 2 submissions/],
  ]) {
    const first = insert('first')
    const both = [insert('a'), insert('b')]
    echo(await next())
    await first
    end(await next())
    for (const one of both) await assert.rejects(one, check)
    await new Promise(setImmediate)
  }
  const first = insert('first')
  const both = [insert('a'), insert('b')]
  echo(await next())
  problem(await next(), 413)
  echo(await next())
  echo(await next())
  assert.deepEqual(await Promise.all([first, ...both]), [{ id: 'first' }, { id: 'a' }, { id: 'b' }])
  client.close()
})

test('each submission of a shared call has the trace of its caller, and the call has none', async () => {
  const trace = new AsyncLocalStorage()
  const { insert, next } = gate({ tracing: { context: () => trace.getStore() } })
  const done = [trace.run('00-1-2-01;a=b', () => insert('first')), trace.run('00-3-4-01;c=d', () => insert('a')), insert('b'), insert('c', { trace: '00-5-6-01' })]
  const first = await next()
  assert.deepEqual([first.headers.traceparent, first.headers.tracestate], ['00-1-2-01', 'a=b'])
  echo(first)
  const call = await next()
  assert.deepEqual(call.lines.map((line) => line.trace), ['00-3-4-01;c=d', undefined, '00-5-6-01'])
  assert.equal(call.headers.traceparent, undefined)
  echo(call)
  await Promise.all(done)
})

test('sixty-four callers of one client get each its own submission, or its own refusal', async () => {
  const server = await serve()
  const client = new Client(server.url)
  const ids = new Set()
  const work = async (_, caller) => {
    for (let i = 0; i < 7; i++) {
      const meta = { name: `${caller}/${i}` }
      const made = await client.insert('default', { chunks: { inline: ['x'] }, meta })
      assert.deepEqual(made.meta, meta)
      ids.add(made.id)
    }
    await assert.rejects(client.insert('default', { chunks: { inline: ['x'] }, max_attempts: -1 }), (error) => error instanceof InvalidError && error.errors[0].pointer === '/max_attempts' && error.requestId !== '')
  }
  await Promise.all(Array.from({ length: 64 }, work))
  assert.equal(ids.size, 64 * 7)
  client.close()
  await server.stop()
})
