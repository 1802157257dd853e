// How many empty chunks a worker does a second: node test/bench.mjs [CHUNKS] [AT-ONCE]. Run it on an idle machine.
import { Client } from '../dist/index.js'
import { serve } from './harness.mjs'

const [count = 500_000, concurrency = 64] = process.argv.slice(2).map(Number)
const server = await serve()
const client = new Client(server.url)
const { id } = await client.insert('default', { chunks: { count, template: 'x' } })
const stop = new AbortController()
let left = count
const from = performance.now()
await client.work({ concurrency, signal: stop.signal, strategy: 'OldestFirst' }, () => {
  if (--left === 0) stop.abort()
})
const seconds = (performance.now() - from) / 1000
const { state } = await client.wait(id)
console.log(`${count} chunks, ${concurrency} at once: ${Math.round(count / seconds)} chunks/s (${state})`)
client.close()
await server.stop()
