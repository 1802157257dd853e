// The parts that need no server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { head } from '../dist/bytes.js'
import { events, lines } from '../dist/events.js'
import { readJSON, writeJSON } from '../dist/index.js'

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

/** A body in pieces of one byte, which cut every line, character and line end. */
async function* bytes(text) { for (const byte of new TextEncoder().encode(text)) yield Uint8Array.of(byte) }

test('lines and events are put together from pieces', async () => {
  const got = []
  for await (const line of lines(bytes('é\r\n\nlast'))) got.push(line)
  assert.deepEqual(got, ['é', '', 'last'])
  const told = []
  for await (const event of events(bytes(': beat\n\nid: 7\nevent: stats\ndata: {"a": 1}\n\nevent: keys\n\nevent: cut'), () => {})) told.push(event)
  assert.deepEqual(told, [{ event: 'stats', data: '{"a": 1}', id: '7' }, { event: 'keys', data: '', id: '7' }])
})
