// The parts that need no server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { head } from '../dist/bytes.js'
import { events, lines } from '../dist/events.js'
import { failureOf, snoozeOf, typeOf } from '../dist/failure.js'
import { BadAnswerError, ChunkError, Client, DrainedError, HandlerError, PermanentError, QuernError, RetryError, SnoozeError, StrategyError, UnreachableError, readJSON, writeJSON } from '../dist/index.js'
import { Notices } from '../dist/notices.js'

test('whole numbers keep their digits', () => {
  for (const text of ['[9223372036854775807]', '{"a":-9223372036854775808,"9007199254740993":1}', '9007199254740993', '["\\"9007199254740993",9007199254740993]']) assert.equal(writeJSON(readJSON(text)), text)
  assert.equal(readJSON('[9007199254740991]')[0], 9007199254740991)
  assert.deepEqual(readJSON('{"a":0.12345678901234567,"b":1e300,"c":"[9007199254740993]"}'), { a: 0.12345678901234567, b: 1e300, c: '[9007199254740993]' })
  assert.throws(() => readJSON('[1234567890123456789,]'), SyntaxError)
  assert.throws(() => readJSON('{"a":1234567890123456789'), SyntaxError)
})

test('a long text with escapes beside a long number is read whole', () => {
  const text = '\\"x'.repeat(300_000)
  assert.deepEqual(readJSON(JSON.stringify({ text, n: 0 }).replace(':0}', ':18446744073709551615}')), { text, n: 18446744073709551615n })
})

test('an error is cut between characters', () => {
  assert.equal(head('é'.repeat(600), 1000), 'é'.repeat(500))
  assert.equal(head('x' + '😀'.repeat(300), 1000), 'x' + '😀'.repeat(249))
})

/** The items of a list. */
async function all(list) {
  const items = []
  for await (const item of list) items.push(item)
  return items
}

/** A body in pieces of one byte, which cut every line, character and line end. */
async function* bytes(text) { for (const byte of new TextEncoder().encode(text)) yield Uint8Array.of(byte) }

test('lines and events are put together from pieces', async () => {
  const got = []
  for await (const line of lines(bytes('é\r\n\nlast'))) got.push(line)
  assert.deepEqual(got, ['é', '', 'last'])
  const told = []
  for await (const event of events(bytes(': beat\n\nid: 7\nevent: stats\ndata: {"a": 1\u2028}\n\nevent: keys\n\nevent: cut'), () => {})) told.push(event)
  assert.deepEqual(told, [{ event: 'stats', data: '{"a": 1\u2028}', id: '7' }, { event: 'keys', data: '', id: '7' }])
})

/** A client whose every answer is this body, a function of the call's signal. */
const answering = (body) => new Client('http://127.0.0.1:1', { retries: 0, timeoutMs: 50, transport: { send: async ({ signal }) => ({ status: 200, header: () => undefined, body: body(signal) }), close() {} } })

test('an answer that is no object is an error', async () => {
  for (const text of ['null', '[]', '7', '"x"']) {
    await assert.rejects(answering(() => bytes(text)).getSubmission('1'), /get submission: the answer is not what the server's interface says/, text)
  }
})

test('a list of an answer that is missing, or has other things in it, is an error of its own', async () => {
  for (const text of ['{}', '{"items":null}', '{"items":{}}', '{"items":"abc"}', '{"items":[{},7]}']) {
    await assert.rejects(all(answering(() => bytes(text)).listRules('q')), (error) => error instanceof BadAnswerError && /items is no list/.test(error.message), text)
  }
  await assert.rejects(all(answering(() => bytes('{"results":7}')).insertMany('q', [{ chunks: { count: 1, prefix: 'x' } }])), BadAnswerError)
})

test('a list ends at a page that names itself as the next one', async () => {
  await assert.rejects(all(answering(() => bytes('{"items":[{"id":"1"}],"next":"a"}')).listRules('q')), (error) => error instanceof BadAnswerError && /behind the page a/.test(error.message))
})

test('a body that is cut when its time is over is no answer', async () => {
  const client = answering(async function* (signal) {
    yield* bytes('{"id":"1"}')
    const alive = setInterval(() => {}, 1000)
    await new Promise((cut) => signal.addEventListener('abort', cut)) // then it ends as if it were whole, as a body without a length does
    clearInterval(alive)
  })
  await assert.rejects(client.getSubmission('1'), (error) => error instanceof UnreachableError && error.message.includes('no answer in time'))
})

/** Throws an error of its own type. */
function crash() {
  class OddError extends Error {}
  throw new OddError('no luck\n    at no place:1:1')
}

test('of what a handler throws the server is told the text, the type and the place, whatever it is', () => {
  try {
    crash()
  } catch (error) {
    assert.match(failureOf(error).error, /^OddError: no luck\n    at no place:1:1\n  at crash \(.*parts\.test\.mjs:\d+:\d+\)\n  at /)
    assert.ok(!failureOf(error).error.includes('node:'), failureOf(error).error)
    error.stack = `crash@https://example.com/page.js:7:3\n${'deep@https://example.com/page.js:8:1\n'.repeat(50)}` // as other engines have it
    assert.match(failureOf(error).error, /page\.js:7:3\n  at deep@/)
    assert.equal(failureOf(error).error.match(/\n  at /g).length, 10)
  }
  const mute = new Proxy({}, { getPrototypeOf() { throw new Error('worse') } })
  const silent = Object.assign(new PermanentError('x'), { toString: null })
  Object.defineProperty(silent, 'message', { get() { throw new Error('worse') } })
  for (const [thrown, want, type] of [
    [new PermanentError('it is odd'), { error: 'it is odd', fatal: true }, 'PermanentError'], [new RetryError('later', 7), { error: 'later', retry_after_ms: 7 }, 'RetryError'],
    [undefined, { error: 'undefined' }, 'undefined'], [7n, { error: '7' }, 'bigint'], [mute, { error: 'an error without a text' }, 'unknown'],
    [silent, { error: 'an error without a text', fatal: true }, 'PermanentError'], [Object.create(null), { error: 'an error without a text' }, 'object'],
  ]) {
    assert.deepEqual(failureOf(thrown), want)
    assert.equal(typeOf(thrown), type)
  }
  for (const [thrown, want] of [[new SnoozeError(7.4), 7], [new SnoozeError(-5), 0], [new SnoozeError(Infinity), 30 * 24 * 3600_000], [new RetryError('later', 7), undefined], [mute, undefined], [undefined, undefined]]) assert.equal(snoozeOf(thrown), want)
  assert.throws(() => new SnoozeError(NaN), TypeError)
  assert.ok(new TextEncoder().encode(failureOf(new Error('\ud800' + 'é'.repeat(2000))).error).length <= 1000)
})

test('each kind of trouble is logged once a minute, and then with how much more of it there was; kinds are bounded', () => {
  const said = []
  const notices = new Notices({ warn: (text) => said.push(text) })
  let now = 1e6
  for (const [kind, after, want] of [['a', 0, 0], ['a', 1000, undefined], ['b', 0, 0], ['a', 58_000, undefined], ['a', 1000, 2], ['a', 0, undefined], ['a', 60_000, 1], ['a', 3_600_000, 0]]) {
    assert.equal(notices.due(kind, (now += after)), want, `${kind} at ${now}`)
  }
  const told = Array.from({ length: 1000 }, (_, i) => notices.due(`kind ${i}`, now)).filter((missed) => missed !== undefined)
  assert.ok(told.length <= 100, `${told.length} kinds were logged in one moment`)
  assert.equal(notices.due('new', now + 60_000), 0)
  const fresh = new Notices({ warn: (text) => said.push(text) })
  const gone = { status: 'gone', code: 'x', detail: 'y' }
  const kinds = [
    new HandlerError('7', 0, 'odd\nWARN forged\u001b[2J', new TypeError('odd')), new HandlerError('7', 0, 'odd', 'odd'), new QuernError({ status: 503, code: 'moved' }), new QuernError({ status: 503 }),
    new ChunkError('7', 0, gone), new StrategyError({ pointer: '/strategy', code: 'x', detail: 'names the plugin p' }), new StrategyError({ pointer: '/strategy', code: 'x', detail: 'names the plugin q' }),
    new UnreachableError('reserve', new Error('connect ECONNREFUSED')), new DrainedError(),
  ]
  for (let i = 0; i < 3; i++) for (const error of kinds) fresh.warn(error, 'the worker w')
  assert.equal(said.length, kinds.length, said.join('\n'))
  assert.equal(said[0], 'quern: the worker w: chunk 7/0: the handler failed: odd\n  WARN forged\\u{1b}[2J')
  assert.equal(said[7], 'quern: the worker w: reserve: connect ECONNREFUSED')
})
