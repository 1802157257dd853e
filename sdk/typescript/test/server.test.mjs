// The client against real servers.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { ChunkError, Client, ForbiddenError, HandlerError, InvalidError, LostError, NotFoundError, NotTrustedError, PermanentError, PreconditionError, QuernError, RetryError, SnoozeError, UnauthorizedError, UnreachableError } from '../dist/index.js'
import { openTransport } from '../dist/transport_node.js'
import { folder, free, serve, text } from './harness.mjs'

let server, client
before(async () => {
  server = await serve()
  client = new Client(server.url)
})
after(async () => {
  client.close()
  await server.stop()
})

/** A queue that no other test uses. */
async function queue(name, settings = {}) {
  await client.putQueue(name, { settings })
  return name
}

const all = async (items) => { const list = []; for await (const item of items) list.push(item); return list }

/** Works until so many handlers have ended. An assertion that fails in a handler fails the test; for the worker alone it would only be a
 * failed attempt. */
async function workFor(count, options, handler) {
  const stop = new AbortController()
  let left = count
  let wrong
  await client.work({ ...options, signal: stop.signal }, async (chunk) => {
    try {
      return await handler(chunk)
    } catch (error) {
      if (error instanceof assert.AssertionError) wrong ??= error
      throw error
    } finally {
      if (--left === 0) stop.abort()
    }
  })
  if (wrong) throw wrong
}

test('a producer inserts, a consumer works, and the outputs are as they were returned', async () => {
  const name = await queue('whole')
  const odd = [new Uint8Array([0xff, 0, 0xfe]), 'é\u2028"\\\u0001😀', '', 'half \ud83d']
  const { id, chunks } = await client.insert(name, { meta: { company: 7, big: 9223372036854775807n }, chunks: { inline: odd }, attachment: new Uint8Array([0xfe]) })
  assert.equal(chunks, 4)
  const times = new Set()
  await workFor(4, { queue: name, concurrency: 2 }, (chunk) => {
    times.add(chunk.createdAt.toISOString()).add(chunk.readyAt.toISOString())
    assert.deepEqual({ ...chunk.meta }, { company: 7, big: 9223372036854775807n })
    assert.deepEqual([...chunk.attachment], [0xfe])
    assert.equal(chunk.attempt, 1)
    assert.ok(chunk.deadline > new Date())
    return chunk.index === 2 ? undefined : chunk.bytes
  })
  const ended = await client.wait(id)
  assert.equal(ended.state, 'completed')
  assert.deepEqual([...times], [ended.created_at], 'the first attempt waits since the insert')
  const outputs = await all(client.outputs(id))
  assert.deepEqual(outputs.map((o) => o.index), [0, 1, 3], 'an output that is none is left out')
  assert.deepEqual(outputs[0].bytes, odd[0])
  assert.equal(outputs[1].text, odd[1])
  assert.equal(outputs[2].text, 'half \ufffd', 'half a surrogate pair is no UTF-8')
  const many = await all(client.outputsOf(name, { meta: { company: 7 }, state: ['completed'] }))
  assert.deepEqual(many.map((o) => [o.submission, o.index, o.text]), outputs.map((o) => [id, o.index, o.text]))
  assert.deepEqual(await all(client.outputsOf(name, { meta: { company: 8 } })), [])
})

test('a worker and its chunks survive kill -9 of the server', async () => {
  const data = folder()
  let mortal = await serve(['serve', '--data', data], await free())
  const { address } = mortal
  const own = new Client(mortal.url)
  const { id } = await own.insert('default', { chunks: { count: 400, template: 'row {index}' } })
  const stop = new AbortController()
  const errors = []
  let begun = 0
  const worked = own.work({ concurrency: 4, signal: stop.signal, onError: (error) => errors.push(error) }, async (chunk) => {
    if (++begun === 100) {
      await mortal.kill()
      mortal = await serve(['serve', '--data', data], address)
    }
    return chunk.text.toUpperCase()
  })
  const ended = await own.wait(id)
  stop.abort()
  await worked
  assert.equal(ended.done, 400)
  assert.deepEqual((await all(own.outputs(id))).map((o) => o.text), Array.from({ length: 400 }, (_, i) => `ROW ${i}`))
  assert.ok(errors.every((e) => e instanceof UnreachableError || e instanceof QuernError || e instanceof ChunkError), `the worker told of ${errors.join('; ')}`)
  own.close()
  await mortal.stop()
})

test('a process that works under the name of one that was killed takes up at once what that held', async () => {
  const near = await serve()
  const own = new Client(near.url)
  await own.changeQueue('default', { settings: { consumer_grace_ms: 3_600_000 } })
  const { id } = await own.insert('default', { chunks: { count: 3, template: 'x' } })
  const code = `import { Client } from '${new URL('../dist/index.js', import.meta.url)}'
    await new Client('${near.url}').work({ consumer: 'one', concurrency: 3, timeoutMs: 3_600_000 }, (chunk) => {
      console.log('begun', chunk.attempt)
      return new Promise(() => {})
    })`
  for (const attempt of [1, 2]) {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = []
    for await (const line of createInterface(child.stdout)) if (lines.push(line) === 3) break
    child.kill('SIGKILL')
    child.stdout.destroy() // what is left in the pipe would keep this process alive
    assert.deepEqual(lines, Array(3).fill(`begun ${attempt}`))
  }
  const stop = new AbortController()
  const worked = own.work({ consumer: 'one', signal: stop.signal }, (chunk) => `attempt ${chunk.attempt}`)
  await own.wait(id)
  stop.abort()
  await worked
  assert.deepEqual((await all(own.outputs(id))).map((o) => o.text), Array(3).fill('attempt 3'))
  const made = await own.ensureQueue('night', { max_attempts: 3 })
  await own.changeQueue('night', { settings: { max_attempts: 4 } })
  assert.deepEqual([made, await own.ensureQueue('night', { max_attempts: 3 })].map((q) => q.settings.max_attempts), [3, 4])
  own.close()
  await near.stop()
})

test('the ends of submissions are followed over kill -9: each once, in order, and the filter holds', async () => {
  const data = folder()
  let mortal = await serve(['serve', '--data', data], await free())
  const { address } = mortal
  const own = new Client(mortal.url)
  const end = async (odd) => {
    const { id } = await own.insert('default', { chunks: { count: 1, template: 'x' }, meta: { odd } })
    await own.cancelSubmission(id)
    return id
  }
  const wanted = []
  const some = async () => { for (let i = 0; i < 6; i++) { const id = await end(i % 2); if (i % 2) wanted.push(id) } }
  const stop = new AbortController()
  const ends = own.ends('default', { after: '0', meta: { odd: 1 }, signal: stop.signal })
  const got = []
  await some()
  for (let i = 0; i < 3; i++) got.push((await ends.next()).value)
  await mortal.kill()
  mortal = await serve(['serve', '--data', data], address)
  await some()
  for (let i = 0; i < 3; i++) got.push((await ends.next()).value)
  assert.deepEqual(got.map((e) => e.data.id), wanted)
  const again = own.ends('default', { after: got[3].id, meta: { odd: 1 }, state: ['cancelled'] })
  assert.deepEqual([(await again.next()).value, (await again.next()).value], got.slice(4))
  await again.return()
  const over = ends.next()
  stop.abort(new Error('enough'))
  await assert.rejects(over, /enough/)
  await assert.rejects(own.ends('absent').next(), (error) => error.code === 'unknown_queue')
  own.close()
  await mortal.stop()
})

test('TLS with the own authority and a token; a wrong one, a missing scope and an unknown certificate are errors of their types', async () => {
  const data = folder()
  const secure = await serve(['serve', '--data', data, '--auth', '--tls-self-signed'])
  const token = text(join(data, 'admin-token')).trim()
  const ca = text(join(data, 'tls', 'self-signed.crt'))
  const own = new Client(secure.url, { token, tls: { ca } })
  const { id } = await own.insert('default', { chunks: { count: 3, template: '{index}' } })
  const stop = new AbortController()
  const worked = own.work({ signal: stop.signal }, (chunk) => chunk.text)
  assert.equal((await own.wait(id)).state, 'completed')
  stop.abort()
  await worked
  const reader = await own.createToken({ name: 'reader', scopes: ['read'] })
  const narrow = new Client(secure.url, { token: reader.token, tls: { ca } })
  await assert.rejects(narrow.insert('default', { chunks: { count: 1, template: 'x' } }), (error) => error instanceof ForbiddenError && error.code === 'forbidden')
  await assert.rejects(new Client(secure.url, { token: 'qn_no_such', tls: { ca } }).whoami(), UnauthorizedError)
  await assert.rejects(new Client(secure.url, { token, retries: 0 }).whoami(), (error) => error instanceof NotTrustedError && error instanceof UnreachableError && /certificate/.test(error.message))
  for (const c of [own, narrow]) c.close()
  await secure.stop()
})

test('a cancelled submission aborts the signals of its handlers, and what they return does not count', async () => {
  const name = await queue('cancelled')
  const { id } = await client.insert(name, { chunks: { count: 2, template: 'x' } })
  const stop = new AbortController()
  const reasons = []
  const errors = []
  const worked = client.work({ queue: name, concurrency: 2, signal: stop.signal, onError: (e) => errors.push(e) }, async (chunk) => {
    if (chunk.index === 0) void client.cancelSubmission(id)
    await new Promise((ended) => chunk.signal.addEventListener('abort', ended))
    reasons.push(chunk.signal.reason)
    if (errors.length === 1) stop.abort()
    return 'too late'
  })
  while (errors.length < 2) await new Promise((next) => setTimeout(next, 5))
  stop.abort()
  await worked
  assert.ok(errors.every((e) => e instanceof ChunkError && e.result.status === 'gone'), String(errors))
  assert.ok(reasons.length === 2 && reasons.every((r) => r instanceof LostError), String(reasons))
})

test('the grace period ends the signals of handlers, whose chunks go back without a try counted', async () => {
  const name = await queue('grace')
  const { id } = await client.insert(name, { chunks: { count: 1, template: 'x' } })
  const stop = new AbortController()
  await client.work({ queue: name, signal: stop.signal, graceMs: 10 }, async (chunk) => {
    stop.abort()
    await new Promise((ended) => chunk.signal.addEventListener('abort', ended))
    throw chunk.signal.reason
  })
  const [chunk] = await all(client.listChunks(id))
  assert.equal(chunk.state, 'ready')
  assert.equal(chunk.attempts, 0)
})

test('what a handler throws fails the try, for good when it says so', async () => {
  const name = await queue('failing', { on_exhausted: 'dead_letter' })
  const { id } = await client.insert(name, { chunks: { inline: ['odd', 'wrong'] } })
  await workFor(2, { queue: name }, (chunk) => {
    if (chunk.index === 1) return { not: 'bytes' } // no output: the try fails, and says why
    throw new PermanentError('it is odd')
  })
  const [first] = await all(client.listDeadLetters(name))
  assert.equal(first.submission, id)
  assert.match(JSON.stringify(first), /it is odd/)
  assert.match(JSON.stringify(await all(client.listChunkAttempts(id, 1))), /JSON.stringify for values/)
})

test('a chunk that its handler snoozes comes again after the delay, and no attempt is counted', async () => {
  const name = await queue('snoozed')
  const { id } = await client.insert(name, { chunks: { inline: ['a', 'b'] }, max_attempts: 1 })
  const errors = []
  const attempts = []
  await workFor(4, { queue: name, onError: (error) => errors.push(error) }, (chunk) => {
    attempts.push(chunk.attempt)
    if (attempts.length <= 2) throw new SnoozeError(1)
    return 'worked'
  })
  assert.deepEqual([attempts, errors], [[1, 1, 1, 1], []])
  assert.equal((await client.wait(id)).state, 'completed')
})

test('whatever a handler throws or names as a pause fails its own try only', async () => {
  const name = await queue('poison', { on_exhausted: 'skip', max_attempts: 2 })
  const thrown = [Object.create(null), undefined, new Error('\ud800' + 'é'.repeat(2000)), () => new RetryError('soon', NaN), () => new RetryError('soon', '5'), () => new RetryError('late', Infinity), () => new RetryError('before', -5), { get message() { throw new Error('worse') } }, 7n, 0]
  const { id } = await client.insert(name, { chunks: { count: thrown.length, template: 'x' }, max_attempts: 1, on_exhausted: 'skip' })
  const errors = []
  await workFor(thrown.length, { queue: name, concurrency: 4, onError: (error) => errors.push(error) }, (chunk) => {
    const one = thrown[chunk.index]
    if (chunk.index < thrown.length - 1) throw typeof one === 'function' ? one() : one
    return 'fine'
  })
  assert.deepEqual(errors.map((error) => error instanceof HandlerError ? error.index : error).sort((a, b) => a - b), thrown.slice(1).map((_, i) => i))
  assert.equal(errors.find((error) => error.index === 8).cause, 7n, 'onError hears what was thrown')
  const ended = await client.wait(id)
  assert.equal(ended.done, 1)
  assert.equal(ended.skipped, thrown.length - 1)
})

test('without onError a handler that always fails is logged once, and the server is told the type and the place', async () => {
  const name = await queue('logged', { on_exhausted: 'dead_letter' })
  await client.insert(name, { chunks: { count: 20, template: 'x' }, max_attempts: 1, max_failed_chunks: 20 })
  const said = []
  const own = new Client(server.url, { logger: { warn: (text) => said.push(text) } })
  const stop = new AbortController()
  let left = 20
  const crash = () => { throw new TypeError('a bug') }
  await own.work({ queue: name, consumer: 'w', concurrency: 4, signal: stop.signal }, () => {
    if (--left === 0) stop.abort()
    crash()
  })
  assert.equal(said.length, 1, said.join('\n'))
  assert.match(said[0], /^quern: the worker w of the queue logged: chunk \d+\/\d+: the handler failed: TypeError: a bug\n/)
  const [letter] = await all(client.listDeadLetters(name))
  assert.match(letter.error, /^TypeError: a bug\n  at crash \(.*server\.test\.mjs:\d+:\d+\)/)
  own.close()
})

test('a server that is away is told once and waited for, and a worker that never reached one ends with the error', async () => {
  const said = []
  const stop = new AbortController()
  const away = new Client('http://127.0.0.1:2', { retries: 0, logger: { warn: (text) => { said.push(text); stop.abort() } } })
  await assert.rejects(away.work({ signal: stop.signal }, () => {}), UnreachableError)
  assert.equal(said.length, 1)
  assert.match(said[0], /: connect ECONNREFUSED 127\.0\.0\.1:2$/)
})

test('a wrong strategy, token or certificate ends a worker with an error of its type, in a few calls', async () => {
  const data = folder()
  const secure = await serve(['serve', '--data', data, '--auth', '--tls-self-signed'])
  const ca = text(join(data, 'tls', 'self-signed.crt'))
  const token = text(join(data, 'admin-token')).trim()
  const counted = (options) => {
    const tries = []
    return { tries, client: new Client(secure.url, { ...options, tracing: { try: ({ what }) => void tries.push(what) }, logger: { warn() {} } }) }
  }
  for (const [options, work, type] of [[{ token, tls: { ca } }, { strategy: 'OldestFrist' }, InvalidError], [{ token: 'qn_no_such', tls: { ca } }, {}, UnauthorizedError], [{ token }, {}, NotTrustedError]]) {
    const { tries, client: own } = counted(options)
    await assert.rejects(own.work({ ...work }, () => {}), type)
    assert.equal(tries.filter((what) => what === 'reserve').length, 1, `${type.name}: ${tries}`)
    own.close()
  }
  await secure.stop()
})

test('a server that does not take our certificate ends a worker with an error of its type', async () => {
  const [theirs, ours] = [folder(), folder()]
  const stranger = await serve(['serve', '--data', ours, '--auth', '--tls-self-signed'])
  await stranger.stop()
  const [cert, key] = ['crt', 'key'].map((end) => text(join(ours, 'tls', `self-signed.${end}`)))
  await (await serve(['serve', '--data', theirs, '--auth', '--tls-self-signed'])).stop()
  const authority = join(theirs, 'tls', 'self-signed.crt')
  const strict = await serve(['serve', '--data', theirs, '--auth', '--tls-self-signed', '--tls-client-ca', authority])
  const own = new Client(strict.url, { tls: { ca: text(authority), cert, key }, logger: { warn() {} } })
  await assert.rejects(own.work({}, () => {}), NotTrustedError)
  own.close()
  await strict.stop()
})

test('an output that the server refuses fails its chunk for good, and the other results count', async () => {
  const name = await queue('refused', { on_exhausted: 'dead_letter' })
  const { id, timeout_ms } = await client.insert(name, { chunks: { count: 8, template: 'x' }, max_failed_chunks: 8, timeout_ms: 60_000 })
  assert.equal(timeout_ms, 60_000)
  let tries = 0
  const errors = []
  await workFor(8, { queue: name, concurrency: 8, onError: (error) => errors.push(error) }, (chunk) => {
    tries++
    return chunk.index === 3 ? 'x'.repeat((1 << 20) + 1) : 'fine'
  })
  const ended = await client.wait(id)
  assert.deepEqual([ended.done, ended.dead, tries], [7, 1, 8])
  assert.match(JSON.stringify(await all(client.listDeadLetters(name))), /the server refused the output: it has 1048577 bytes/)
  assert.ok(errors.some((error) => error instanceof ChunkError && error.index === 3), 'onError hears of it')
})

test('a token that is revoked ends the worker with an error of its type, after its drain', async () => {
  const secure = await serve(['dev'])
  const open = new Client(secure.url)
  const admin = await open.createToken({ name: 'admin', scopes: ['admin', 'produce', 'consume', 'read', 'operate'] })
  const own = new Client(secure.url, { token: admin.token })
  const consumer = await own.createToken({ name: 'consumer', scopes: ['consume'] })
  await own.insert('default', { chunks: { count: 3, template: 'x' } })
  const working = new Client(secure.url, { token: consumer.token })
  let ended = 0
  await assert.rejects(working.work({ prefetch: 2 }, async () => {
    if (ended++ === 0) await own.revokeToken(consumer.id)
  }), UnauthorizedError)
  await secure.stop()
})

test('a worker whose handler is slow holds no chunk that another one could work on', async () => {
  const name = await queue('shared')
  await client.insert(name, { chunks: { count: 2, template: 'x' } })
  let begun = 0
  let both
  const started = new Promise((resolve) => { both = resolve })
  const end = new AbortController()
  const handler = async () => {
    if (++begun === 2) both()
    await started
  }
  const workers = [1, 2].map(() => client.work({ queue: name, signal: end.signal }, handler))
  await started // with one of them reserved ahead, the second would wait for the first
  end.abort()
  await Promise.all(workers)
})

test('a second SIGTERM at once is the same one, a second SIGINT has its usual effect, and no listener is left', async () => {
  const name = await queue('signalled')
  await client.insert(name, { chunks: { count: 2, template: 'x' } })
  for (const [signal, kept] of [['SIGTERM', 1], ['SIGINT', 0]]) {
    const before = process.listenerCount(signal)
    const left = []
    await client.work({ queue: name, prefetch: 0 }, () => {
      for (let i = 0; i < 2 && process.listenerCount(signal) > before; i++) process.emit(signal, signal)
      left.push(process.listenerCount(signal) - before)
    })
    assert.deepEqual([...left, process.listenerCount(signal) - before], [kept, 0], signal)
  }
})

test('an operator drains a worker, which tells of it and ends', async () => {
  const name = await queue('drained')
  const { id } = await client.insert(name, { chunks: { count: 5, template: 'x' } })
  const errors = []
  let begun = 0
  await client.work({ queue: name, consumer: 'leaving', prefetch: 4, onError: (error) => errors.push(error.name) }, async (chunk) => {
    begun++
    await client.drainConsumer(name, 'leaving')
    while (errors.length === 0) await new Promise((next) => setTimeout(next, 5))
    assert.equal(chunk.signal.aborted, false)
  })
  assert.deepEqual(errors, ['DrainedError'])
  assert.equal(begun, 1)
  const { done, reserved } = await client.getSubmission(id)
  assert.deepEqual([done, reserved], [1, 0], 'what was reserved ahead is back')
})

test('inserts as JSON lines, and many at once, in their order', async () => {
  const name = await queue('inserted')
  async function* rows() { for (let i = 0; i < 3000; i++) yield `row ${i} ${'x'.repeat(40)}` }
  const streamed = await client.insertStream(name, { meta: { kind: 'streamed' } }, rows())
  assert.equal(streamed.chunks, 3000)
  async function* broken() { yield 'one'; throw new Error('the source broke') }
  await assert.rejects(client.insertStream(name, { meta: { kind: 'broken' } }, broken()), /the source broke/)
  const works = Array.from({ length: 40 }, (_, i) => ({ meta: { kind: 'many', i }, chunks: { count: i + 1, template: 'x' } }))
  const made = await all(client.insertMany(name, works))
  assert.deepEqual(made.map((s) => s.chunks), works.map((w) => w.chunks.count))
  const mixed = await all(client.insertMany(name, [{ chunks: { count: 1, template: 'x' }, idempotency_key: 'k' }, { chunks: { count: 0, template: 'x' } }, { chunks: { count: 1, template: 'x' }, idempotency_key: 'k' }], { perCall: 2 }))
  assert.equal(mixed[0].id, mixed[2].id, 'one key inserts once, in two calls too')
  assert.ok(mixed[1] instanceof InvalidError && mixed[1].errors[0].pointer === '/chunks/count')
  assert.equal((await all(client.listSubmissions(name, { meta: { kind: 'broken' } }))).length, 0, 'a broken stream inserts nothing')
  assert.equal((await all(client.listSubmissions(name, { meta: { kind: 'many' }, limit: 7, state: ['open', 'failed'] }))).length, 40, 'all pages of a list')
  const again = await Promise.all([1, 2].map(() => client.insert(name, works[0], { key: 'once' })))
  assert.equal(again[0].id, again[1].id)
})

test('generated calls: settings, values of meta keys, conditions, strategies, refusals that point at the field', async () => {
  const name = await queue('called')
  assert.equal((await client.changeQueue(name, { settings: { max_attempts: 3 } })).settings.max_attempts, 3)
  await client.putMetaValue(name, 'company', '7', { limit: 1 }) // the text, not the number
  await client.putMetaValue(name, 'company', -9223372036854775808n, { limit: 2 })
  assert.equal((await client.getMetaValue(name, 'company', '7')).value, '7')
  assert.equal((await client.getMetaValue(name, 'company', -9223372036854775808n)).value, -9223372036854775808n)
  await client.putStrategy(name, 'nightly', { strategy: 'OldestFirst' })
  await assert.rejects(client.putStrategy(name, 'nightly', { strategy: 'NewestFirst' }, { ifNoneMatch: '*' }), PreconditionError)
  assert.equal((await client.getStats(name)).ready, 0)
  assert.match(await client.metrics(), /quern_/)
  await assert.rejects(client.getQueue('no-such'), (error) => error instanceof NotFoundError && error.code === 'unknown_queue' && error.requestId !== '')
  await assert.rejects(client.reserve(name, { max: -1 }), (error) => error instanceof InvalidError && error.errors[0].pointer === '/max')
  await client.deleteQueue(name)
})

test('the stream of events goes on until its reader leaves', async () => {
  const seen = []
  for await (const event of client.events('default', { topics: ['stats'] })) {
    seen.push(event.event)
    if (event.event === 'stats') { assert.equal(typeof event.data.stats.ready, 'number'); break }
  }
  assert.equal(seen[0], 'series')
})

test('signals end calls and waits with their reason', async () => {
  const name = await queue('patient')
  const { id } = await client.insert(name, { chunks: { count: 1, template: 'x' } })
  const reason = new Error('enough')
  let begun = 0
  const stop = new AbortController()
  const waiting = client.wait(id, { signal: stop.signal })
  stop.abort(reason)
  await assert.rejects(waiting, reason)
  await assert.rejects(client.getQueue(name, { signal: stop.signal }), reason)
  await client.work({ queue: name, signal: stop.signal }, () => { begun++ })
  assert.equal(begun, 0, 'a worker that was stopped before it began works')
})

test('a Unix socket is an address, beside others', async () => {
  const path = join(folder(), 'quern.sock')
  const own = await serve(['dev'], `127.0.0.1:0,unix:${path}`)
  const near = new Client([`unix:${path}.gone`, `unix:${path}`])
  const { id } = await near.insert('default', { chunks: { inline: ['near'] } })
  const stop = new AbortController()
  const worked = near.work({ signal: stop.signal }, (chunk) => chunk.text.toUpperCase())
  await near.wait(id)
  stop.abort()
  await worked
  assert.deepEqual((await all(near.outputs(id))).map((o) => o.text), ['NEAR'])
  near.close()
  await own.stop()
  assert.throws(() => new Client('unix:'), /write the path of the socket behind unix:/)
})

test('an address where no server listens is left for one that serves, by calls, streams and workers', async () => {
  const name = await queue('moved')
  const { id } = await client.insert(name, { chunks: { count: 2, template: 'x' } })
  const moving = () => new Client(['http://127.0.0.1:2', server.url], { retries: 0 })
  const stop = new AbortController()
  const worked = moving().work({ queue: name, signal: stop.signal }, () => 'y')
  assert.equal((await moving().wait(id)).state, 'completed')
  stop.abort()
  await worked
  assert.deepEqual((await all(moving().outputs(id))).map((o) => o.text), ['y', 'y'])
})

test('tracing hears of every try, and work carries its trace to handlers', async () => {
  const name = await queue('traced')
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01;vendor=1'
  const tries = []
  const plain = openTransport(undefined)
  let refused = 0
  const traced = new Client(server.url, {
    // The first connection goes where no one listens.
    transport: { close: plain.close, send: (call) => plain.send(refused++ ? call : { ...call, url: call.url.replace(/:\d+/, ':1') }) },
    tracing: {
      context: () => trace,
      try: (t) => { tries.push(t); return (end) => tries.push(end) },
      handler: async (chunk, run) => { tries.push(chunk.trace); return run() },
    },
  })
  await traced.insert(name, { chunks: { count: 1, template: 'x' } })
  assert.equal(tries[0].what, 'insert')
  assert.equal(tries[1].error.code, 'ECONNREFUSED')
  assert.equal(tries[3].status, 201)
  const stop = new AbortController()
  await traced.work({ queue: name, signal: stop.signal }, () => stop.abort())
  assert.ok(tries.includes(trace), 'the handler runs in the trace of its chunk')
  traced.close()
})

test('what cannot be is refused before anything is sent', async () => {
  assert.throws(() => new Client('127.0.0.1:7700'), /write it as http/)
  assert.throws(() => new Client([]), /there is no address/)
  assert.throws(() => new Client(server.url, { token: 'qn_a\r\nb' }), /characters that no token has/)
  await assert.rejects(client.insert('default', { chunks: { inline: [7] } }), /string or a Uint8Array, not as number/)
  await assert.rejects(client.insert('default', { chunks: { count: 1, template: 'x' } }, { key: 'a b' }), /visible ASCII/)
  const one = { chunks: { count: 1, template: 'x' } }
  await assert.rejects(client.insert('default', one, { key: 7 }), /visible ASCII/)
  for (const value of [undefined, null, 1.5, NaN, true, new Date(0), { a: 1 }]) {
    for (const given of [client.insert('default', { ...one, meta: { a: value } }), client.insertStream('default', { meta: { a: value } }, ['x']), all(client.insertMany('default', [{ ...one, meta: { a: value } }])), client.work({ context: { a: value } }, () => {})]) {
      await assert.rejects(given, /(meta|context)\.a is .*; it must be a string or a whole number/)
    }
  }
  for (const single of ['a text', new Uint8Array(3)]) await assert.rejects(client.insertStream('default', {}, single), /give a list of them/)
  await assert.rejects(client.work({ concurrency: 0 }, () => {}), /concurrency is 0; it must be a whole number from 1/)
  await assert.rejects(client.work({ timeoutMs: 5 }, () => {}), /timeoutMs is 5/)
})

test('a chunk that is revoked before the answer that hands it out arrives is not begun', async () => {
  const name = await queue('overtaken')
  const { id } = await client.insert(name, { chunks: { count: 1, template: 'x' } })
  const plain = openTransport()
  let told
  const revoked = new Promise((resolve) => (told = resolve))
  /** Holds back the answers of reserves until the stream has told of the revocation. */
  const slow = {
    close: plain.close,
    send: async (call) => {
      const answer = await plain.send(call)
      if (call.url.endsWith('/reservations')) {
        while ((await client.getSubmission(id)).state === 'open') await client.cancelSubmission(id)
        await revoked
      }
      return call.url.includes('/attach') ? { ...answer, body: telling(answer.body) } : answer
    },
  }
  async function* telling(body) {
    for await (const piece of body) {
      yield piece // the next is asked for when the worker has heard this one
      if (Buffer.from(piece).includes('event: revoked')) setImmediate(told)
    }
  }
  const stop = new AbortController()
  const errors = []
  let begun = 0
  const own = new Client(server.url, { transport: slow })
  await own.work({ queue: name, signal: stop.signal, onError: (error) => { errors.push(error); stop.abort() } }, () => { begun++ })
  assert.equal(begun, 0)
  assert.ok(errors[0] instanceof ChunkError && errors[0].result.status === 'gone', String(errors[0]))
  own.close()
})

test('an answer that is not what the interface says ends a worker with an error, and one without an end is broken off', async () => {
  const name = await queue('garbled')
  await client.insert(name, { chunks: { count: 3, template: 'x' } })
  const plain = openTransport()
  const garbling = (suffix, body) => new Client(server.url, {
    retries: 0,
    transport: { close: plain.close, send: async (call) => ({ ...await plain.send(call), ...(call.url.endsWith(suffix) ? { body: body() } : {}) }) },
  })
  async function* short() { yield Buffer.from('{"complete":[{"status":"ok"}],"fail":[],"extend":[],"reservations":[{"token":"t"}]}') }
  await assert.rejects(garbling('/exchange', short).work({ queue: name, prefetch: 0 }, () => {}), /undefined/)
  let sent = 0
  async function* endless() { for (const megabytes = Buffer.alloc(64 << 20); ; sent++) yield megabytes }
  await assert.rejects(garbling('/stats', endless).getStats(name), /longer than/)
  assert.ok(sent < 10)
})
