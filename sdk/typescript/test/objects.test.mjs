// Contents and outputs in files, on a server that speaks S3 and checks signatures (QUERN_S3, bin/s3serve unless told), through the AWS SDK as the README
// shows it, and together with the program quern-objects (QUERN_OBJECTS, bin/quern-objects unless told).
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { S3Client } from '@aws-sdk/client-s3'
import { Client, RetryError } from '../dist/index.js'
import { FileBucket, Store } from '../dist/objects/index.js'
import { blocks, compile, folder, root, serve } from './harness.mjs'

const { s3Bucket } = await import(join(compile({ s3: blocks('sdk/typescript/README.md').find((code) => code.includes('s3Bucket')) }), 's3.mjs'))
process.env.AWS_ACCESS_KEY_ID = 'test'
process.env.AWS_SECRET_ACCESS_KEY = 'test/secret+key'
const day = 24 * 3600 * 1000
const program = process.env.QUERN_OBJECTS ?? join(root, 'bin/quern-objects')
const run = promisify(execFile)

/** An empty bucket, and its URL for quern-objects. */
async function s3(t) {
  const child = spawn(process.env.QUERN_S3 ?? join(root, 'bin/s3serve'), { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => child.stdin.end())
  const [url] = await once(createInterface(child.stdout), 'line')
  const s3 = new S3Client({ endpoint: new URL(url).searchParams.get('endpoint'), region: 'us-east-1', forcePathStyle: true })
  t.after(() => s3.destroy())
  return { url: `${url}&prefix=below/`, bucket: s3Bucket(s3, 'work', 'below/') }
}

/** Objects in a new folder. */
function files() {
  const dir = folder()
  return { url: `file://${dir}`, bucket: new FileBucket(dir) }
}

/** A test with every kind of bucket, and a server. */
function each(name, act) {
  for (const kind of ['files', 'S3']) {
    test(`${name}: ${kind}`, async (t) => {
      const { url, bucket } = kind === 'files' ? files() : await s3(t)
      const server = await serve()
      t.after(server.stop)
      const client = new Client(server.url)
      t.after(() => client.close())
      await act(new Store(client, bucket, { parallel: 3 }), client, { url, address: server.url })
    })
  }
}

const all = async (items) => { const list = []; for await (const item of items) list.push(item); return list }
const keys = async (bucket, prefix = '') => (await all(bucket.list(prefix))).map((one) => one.key).sort()
const read = async (bucket, key) => Buffer.from(await new Response(await bucket.get(key)).arrayBuffer())
const text = async (bucket, key) => String(await read(bucket, key))
const put = (bucket, key, ...pieces) => bucket.put(key, (async function* () { yield* pieces })(), { ifAbsent: false })
async function* breaks(...first) {
  yield* first
  throw new RangeError('the source ended')
}
/** Has a consumer run until the submission has ended. */
async function working(store, id, handler, options = {}) {
  const stop = new AbortController()
  const worked = store.work({ concurrency: 4, signal: stop.signal, ...options }, handler)
  const ended = await store.client.wait(id)
  stop.abort()
  await worked
  return ended
}
const results = async (store, id) => Object.fromEntries(await Promise.all((await all(store.client.outputs(id))).map(async ({ index, text: key }) => [index, await text(store.bucket, key)])))

each('a bucket has whole objects or none, keeps what is there when it must, lists and deletes', async (store) => {
  const { bucket } = store
  const sizes = { 'a/0': 0, 'a/1': 1, 'a/2': 8 << 20, "b/odd ~'&+%?#=ä": 20_000_001 }
  for (const [key, size] of Object.entries(sizes)) await put(bucket, key, Buffer.alloc(size, key))
  for (const [key, size] of Object.entries(sizes)) assert.ok((await read(bucket, key)).equals(Buffer.alloc(size, key)), key)
  assert.deepEqual(await keys(bucket), Object.keys(sizes).sort())
  assert.deepEqual(await keys(bucket, 'a/'), ['a/0', 'a/1', 'a/2'])
  for await (const { modified } of bucket.list('a/')) assert.ok(Math.abs(modified - Date.now()) < 3600_000)
  for (const size of [3, 9 << 20]) { // in one request, and in parts
    await bucket.put('a/1', [Buffer.alloc(size)].values(), { ifAbsent: true })
    assert.equal((await read(bucket, 'a/1')).length, 1)
    await assert.rejects(bucket.put('half', breaks(Buffer.alloc(size)), { ifAbsent: false }), RangeError)
    assert.ok(!(await keys(bucket)).includes('half'))
  }
  await put(bucket, 'a/1', Buffer.from('ot'), Buffer.from('her'))
  assert.equal(await text(bucket, 'a/1'), 'other')
  for (const key of Object.keys(sizes)) for (let i = 0; i < 2; i++) await bucket.delete(key)
  assert.deepEqual(await keys(bucket), [])
  await assert.rejects(bucket.get('a/1'), /a\/1|NoSuchKey|does not exist/)
  for (const key of ['', '../x', 'a/../../x', '/etc/passwd', 'a//b', 'a/./b', 'a\\b', 'a\0b', 'a/']) {
    await assert.rejects(store.open(key), TypeError, key)
  }
})

test('a link does not lead out of a bucket of files', async () => {
  const dir = folder()
  mkdirSync(join(dir, 'inside'))
  writeFileSync(join(dir, 'secret'), 'x')
  symlinkSync('../secret', join(dir, 'inside/link'))
  await assert.rejects(new FileBucket(join(dir, 'inside')).get('link'), /by a link/)
})

each('what is uploaded is what consumers read, and what they make of it is what outputs name', async (store, client) => {
  const path = join(folder(), 'c')
  const big = Buffer.alloc(11 << 20, 'c')
  writeFileSync(path, big)
  const contents = ['aä', Buffer.alloc(0), new Blob(['b', 'b']), createReadStream(path), new Response('d').body, (async function* () { yield 'e'; yield Buffer.from('e') })()]
  const submission = await store.submit('default', { meta: { company: 5 } }, contents)
  const ended = await working(store, submission.id, async (chunk, content) => {
    assert.deepEqual(chunk.meta, { company: 5 })
    if (chunk.index === 3) return content.body
    if (chunk.index === 2) return new Blob([await content.arrayBuffer()])
    return (await content.text()) || undefined
  })
  assert.equal(ended.state, 'completed')
  assert.deepEqual(await results(store, submission.id), { 0: 'aä', 2: 'bb', 3: String(big), 4: 'd', 5: 'ee' })

  const inline = await client.insert('default', { chunks: { inline: ['in the queue'] } })
  await working(store, inline.id, async (_, content) => (await content.text()).toUpperCase())
  assert.deepEqual(await results(store, inline.id), { 0: 'IN THE QUEUE' })
  await store.remove(await client.getSubmission(submission.id))
  assert.equal((await keys(store.bucket)).length, 1)
})

each('what a failed try made is no object, a chunk whose object is gone fails, and no key leads elsewhere', async (store, client) => {
  const submission = await store.submit('default', {}, ['x'])
  const handler = async function (chunk) {
    return (async function* () {
      yield `try ${chunk.attempt}`
      if (chunk.attempt === 1) throw new RetryError('not yet', 0)
    })()
  }
  await working(store, submission.id, handler)
  const [key, ...more] = await keys(store.bucket, 'quern/outputs/')
  assert.deepEqual([await text(store.bucket, key), more], ['try 2', []])
  const once = { max_attempts: 1, on_exhausted: 'fail_submission' }
  const lost = await client.insert('default', { ...once, chunks: { count: 1, prefix: 'nowhere/' } })
  assert.equal((await working(store, lost.id, handler)).state, 'failed')
  const elsewhere = await client.insert('default', { ...once, chunks: { count: 1, prefix: '../../etc/passwd' } })
  assert.match((await working(store, elsewhere.id, handler)).failure, /etc\/passwd0/)
})

each('a submit that broke off goes on under its key, and one whose key was drawn leaves nothing', async (store, client) => {
  for (const [broken, kind] of [[['whole', breaks('half')], RangeError], [['whole', 7], TypeError], [[], /no contents/], [breaks('whole'), RangeError]]) {
    await assert.rejects(store.submit('default', {}, broken), kind)
  }
  assert.deepEqual(await keys(store.bucket), [])
  await assert.rejects(store.submit('default', {}, ['one', breaks()], { key: 'k' }), RangeError)
  assert.deepEqual(await all(client.listSubmissions('default')), [])
  const first = await store.submit('default', {}, ['one', 'two'], { key: 'k' })
  assert.equal((await store.submit('default', {}, ['ONE', 'TWO'], { key: 'k' })).id, first.id)
  assert.deepEqual(await Promise.all((await keys(store.bucket)).map((key) => text(store.bucket, key))), ['one', 'two'])
  const stop = AbortSignal.abort(new Error('enough'))
  await assert.rejects(store.submit('default', {}, ['x'], { signal: stop }), /enough/)
})

each('a sweep removes what belongs to no submission and is old, and takes a token that sees all', async (store, client, { address }) => {
  const kept = await store.submit('default', {}, ['a', 'b'])
  const mine = ['mine', 'quern/contents/mine/0', `quern/outputs/${kept.id}/0-x`]
  for (const key of [...mine, `quern/contents/${'0a'.repeat(16)}/0`, 'quern/outputs/unknown/0-x']) await put(store.bucket, key, Buffer.from('x'))
  assert.equal(await store.sweep(day), 0)
  assert.equal(await store.sweep(-day), 2)
  assert.deepEqual(await keys(store.bucket), [...mine, kept.prefix + '0', kept.prefix + '1'].sort())
  const { token: admin } = await client.createToken({ name: 'all', scopes: ['admin'] })
  const { token: some } = await new Client(address, { token: admin }).createToken({ name: 'some', scopes: ['read'], queues: ['other'] })
  await assert.rejects(new Store(new Client(address, { token: some }), store.bucket).sweep(-day), /sees only some/)
})

each('quern-objects works on what TypeScript submitted, and TypeScript on what quern-objects did, in one bucket', async (store, client, { url, address }) => {
  const dir = folder()
  const names = ['ash', 'beech'].map((name) => join(dir, name))
  names.forEach((name) => writeFileSync(name, name.slice(dir.length + 1)))
  const env = { ...process.env, QUERN_SERVER: address }
  const { stdout } = await run(program, ['submit', '--bucket', url, ...names], { env })
  const id = stdout.split(/\s/)[0]
  await working(store, id, async (_, content) => (await content.text()).toUpperCase())
  assert.deepEqual(await results(store, id), { 0: 'ASH', 1: 'BEECH' })

  const mine = await store.submit('default', {}, ['cedar'])
  const worker = spawn(program, ['work', '--bucket', url, '--', 'tr', 'a-z', 'A-Z'], { env, stdio: 'ignore' })
  await client.wait(mine.id)
  worker.kill()
  await once(worker, 'exit')
  assert.deepEqual(await results(store, mine.id), { 0: 'CEDAR' })
  assert.equal(await store.sweep(-day), 0)
  for (const one of [id, mine.id]) await store.remove(await client.getSubmission(one))
  assert.deepEqual(await keys(store.bucket), [])
})
