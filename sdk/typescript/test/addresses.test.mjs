// The client against several real servers: which of them get which calls.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { Client, NotTrustedError, QuernError, UnavailableError } from '../dist/index.js'

const serves = { status: 200, body: '{"id":"5","name":"s","state":"completed"}' }
const breaks = { status: 0 }
const refuses = (status, code, owner) => ({ status, owner, body: JSON.stringify({ title: 'No', status, code }) })

/** A server that gives the same answer to every call; the status 0 breaks the connection. */
async function node(t, answer) {
  const own = { answer, calls: [] }
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    own.calls.push(`${request.method} ${request.url}`)
    const { status, owner, body } = own.answer
    if (status === 0) return request.socket.destroy()
    const stream = status === 200 && request.url.endsWith('/attach')
    response.writeHead(status, { ...(owner ? { 'quern-owner': owner } : {}), ...(stream ? { 'content-type': 'text/event-stream' } : {}) })
    response.end(stream ? 'event: hello\ndata: {"heartbeat_ms":10000}\n\n' : body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  own.url = `http://127.0.0.1:${server.address().port}`
  own.stop = () => {
    server.close()
    server.closeAllConnections()
  }
  t.after(own.stop)
  return own
}

const read = (client) => client.getSchedule('default', 's')
const detach = (client) => client.detachConsumer('default', 'me')
const stream = (client) => client.insertStream('default', {}, ['x'])
async function attach(client) {
  for await (const { event } of client.attach('default', 'me')) return assert.equal(event, 'hello')
  assert.fail('there is no hello')
}

test('a client keeps to the address that serves: dead ones, and those whose queue is moving, are left at once', async (t) => {
  const [dead, moving, good] = [await node(t, serves), await node(t, refuses(503, 'moving')), await node(t, serves)]
  dead.stop()
  const client = new Client([dead.url, moving.url, good.url], { retries: 0 })
  for (let i = 0; i < 4; i++) await read(client)
  assert.equal(good.calls.length, 4)
  assert.ok(moving.calls.length <= 1)
  good.stop()
  moving.answer = serves
  await client.insert('default', { chunks: { inline: ['x'] } })
})

test('clients spread over the addresses', async (t) => {
  const nodes = [await node(t, serves), await node(t, serves), await node(t, serves)]
  for (let i = 0; i < 100; i++) {
    const client = new Client(nodes.map(({ url }) => url))
    await read(client)
    client.close()
  }
  for (const { calls } of nodes) assert.ok(calls.length > 0 && calls.length < 100)
})

test('what may not be made twice is made once whatever becomes of it, and the next call goes elsewhere', async (t) => {
  for (const call of [detach, stream, attach]) {
    for (const answer of [breaks, refuses(502, 'outcome_unknown'), refuses(503, 'moving')]) {
      const nodes = [await node(t, answer), await node(t, answer), await node(t, answer)]
      const client = new Client(nodes.map(({ url }) => url))
      for (const _ of nodes) await assert.rejects(call(client))
      assert.deepEqual(nodes.map(({ calls }) => calls.length), [1, 1, 1], `${call.name} ${answer.status}`)
    }
  }
})

test('a call goes on at once to the owner that a 421 names, once a try; a body that is gone does not', async (t) => {
  const owner = await node(t, serves)
  const stale = await node(t, refuses(421, 'moved', owner.url + '/'))
  const client = new Client(stale.url, { retries: 0 })
  for (const call of [read, detach, attach]) await call(client)
  assert.equal(stale.calls.length, 3)
  assert.deepEqual(owner.calls, stale.calls)
  await assert.rejects(stream(client), UnavailableError)
  owner.answer = refuses(421, 'moving', (await node(t, serves)).url)
  await assert.rejects(read(client), UnavailableError)
  assert.deepEqual([stale.calls.length, owner.calls.length], [5, 4])
  for (const [code, tries] of [['moved', 2], ['moving', 2], ['elsewhere', 2], ['unknown_host', 1]]) {
    const own = await node(t, refuses(421, code))
    await assert.rejects(read(new Client(own.url, { retries: 1 })), (error) => error instanceof QuernError && error.code === code)
    assert.equal(own.calls.length, tries, code)
  }
})

/** A transport with a given answer for each host, for schemes and certificates that no loopback server has. */
const played = (answers) => {
  const calls = []
  const send = async ({ url, socketPath }) => {
    const host = socketPath ?? new URL(url).origin
    calls.push(host)
    const { status, owner, body } = answers[host]
    if (status === 0) throw new NotTrustedError('connect', new Error('no'))
    return { status, header: (name) => (name === 'quern-owner' ? owner : undefined), body: (async function* () { yield new TextEncoder().encode(body) })() }
  }
  return { calls, options: { transport: { send, close() {} }, retries: 0, direct: true, token: 'secret' } }
}

test('a token goes to no address of another scheme that was not given, and a certificate that is not trusted keeps no call from who serves', async () => {
  for (const [given, named] of [['https://a', 'http://b'], ['http://a', 'https://b'], ['unix:/a', 'http://b'], ['http://a', 'unix:/b'], ['http://a', 'http://u:p@b'],
    ['http://a', 'b'], ['http://a', 'http://' + 'b'.repeat(3000)]]) {
    if (given.startsWith('unix:') && 'Deno' in globalThis) continue // fetch knows no sockets
    const { calls, options } = played({ [given.replace('unix:', '')]: refuses(421, 'moved', named) })
    await assert.rejects(read(new Client(given, options)), UnavailableError)
    assert.equal(calls.length, 1, `${given} names ${named}`)
  }
  const both = played({ 'https://a': refuses(421, 'moved', 'http://b'), 'http://b': serves })
  await read(new Client(['https://a', 'http://b'], both.options)) // it was given
  const { calls, options } = played({ 'https://a': { ...serves, owner: 'https://b' }, 'https://b': breaks })
  const client = new Client('https://a', options)
  for (let i = 0; i < 3; i++) await read(client)
  assert.deepEqual(calls, ['https://a', 'https://b', 'https://a', 'https://a'])
})

test('in direct mode calls of a queue go to the owner that an answer named, and back when it fails; by default they do not', async (t) => {
  const owner = await node(t, serves)
  const front = await node(t, { ...serves, owner: owner.url })
  const usual = new Client(front.url, { retries: 0 })
  for (let i = 0; i < 2; i++) await read(usual)
  assert.equal(owner.calls.length, 0)
  const client = new Client(front.url, { retries: 0, direct: true })
  const [before, after] = [front.calls.length, () => [front.calls.length - before, owner.calls.length]]
  for (let i = 0; i < 3; i++) await read(client)
  await attach(client)
  assert.deepEqual(after(), [1, 3])
  await client.getSchedule('other', 's')
  assert.deepEqual(after(), [2, 3])
  owner.answer = refuses(503, 'moving')
  await read(client) // at once, without a try more
  assert.deepEqual(after(), [3, 4])
  owner.stop()
  await read(client)
  await read(client)
  assert.deepEqual(after(), [5, 4])
})

test('what is remembered of owners is bounded', async () => {
  const { calls, options } = played({ 'http://a': { ...serves, owner: 'http://b' }, 'http://b': serves })
  const client = new Client('http://a', options)
  for (let i = 0; i < 300; i++) await client.getSchedule(`queue-${i}`, 's')
  for (let i = 0; i < 300; i++) await client.getSchedule(`queue-${299 - i}`, 's')
  assert.equal(calls.filter((host) => host === 'http://b').length, 256)
})
