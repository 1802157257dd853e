// The TypeScript client in a browser: bundled as a page would have it, with fetch as its transport.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { build } from 'esbuild'
import { browser, open, server } from './harness.mjs'

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

test('a page produces, works and reads outputs, streams and 64-bit numbers', async () => {
  const client = new URL('../../../sdk/typescript', import.meta.url).pathname
  // The mapping of package.json, with the sources in the place of the built files.
  const { outputFiles: [bundle] } = await build({ entryPoints: [client + '/src/index.ts'], bundle: true, write: false, format: 'iife', globalName: 'quern', platform: 'browser', alias: { '#transport': client + '/src/transport_fetch.ts' } })
  const t = await open(chromium.b, quern.url)
  await t.page.goto(quern.url)
  t.allow('404')
  await t.page.evaluate(bundle.text.replace('var quern =', 'globalThis.quern ='))
  const got = await t.page.evaluate(async () => {
    const { Client, NotFoundError } = globalThis.quern
    const client = new Client(location.origin)
    const { id } = await client.insert('default', { meta: { big: 9223372036854775807n }, chunks: { inline: ['é', new Uint8Array([255, 0])] } })
    const streamed = await client.insertStream('default', { meta: { of: 'stream' } }, ['one', 'two', 'three'])
    const stop = new AbortController()
    const metas = []
    const worked = client.work({ signal: stop.signal, concurrency: 2, consumer: 'page' }, (chunk) => {
      if (chunk.meta.big) metas.push(String(chunk.meta.big))
      return chunk.bytes
    })
    const states = [(await client.wait(id)).state, (await client.wait(streamed.id)).state]
    const consumers = []
    for await (const consumer of client.listConsumers('default')) consumers.push(consumer.consumer)
    stop.abort()
    await worked
    const outputs = []
    for await (const output of client.outputs(id)) outputs.push([...output.bytes])
    let event
    for await (event of client.events('default')) break
    const missing = await client.getQueue('no-such').catch((error) => error instanceof NotFoundError && error.code)
    return { chunks: streamed.chunks, metas, states, consumers, outputs, event: event.event, missing }
  })
  assert.deepEqual(got, {
    chunks: 3, metas: ['9223372036854775807', '9223372036854775807'], states: ['completed', 'completed'], consumers: ['page'],
    outputs: [[0xc3, 0xa9], [255, 0]], event: 'series', missing: 'unknown_queue',
  })
  assert.deepEqual(await t.violations(), [])
  assert.deepEqual(t.wrong, [])
  await t.close()
})
