// How many empty chunks a worker does a second, or how many submissions are inserted one by one: node bench.mjs ADDRESS AT_ONCE SECONDS
// work|insert. The queue default has chunks enough, and work is inserted into the queue inserts. `quern-bench clients` runs it.
import { Client } from '../dist/index.js'

const [address, atOnce, seconds, what] = process.argv.slice(2)
const client = new Client(address)
let count = 0
if (what === 'insert') await client.ensureQueue('inserts')
const from = performance.now()
if (what === 'work') {
  const stop = new AbortController()
  setTimeout(() => stop.abort(), Number(seconds) * 1000)
  await client.work({ concurrency: Number(atOnce), signal: stop.signal }, () => { count++ })
} else {
  const content = '0123456789'.repeat(10)
  const insert = async () => {
    for (; performance.now() - from < Number(seconds) * 1000; count++) await client.insert('inserts', { chunks: { inline: [content] }, meta: { company: 7 } })
  }
  await Promise.all(Array.from({ length: Number(atOnce) }, insert))
}
console.log(count / ((performance.now() - from) / 1000)) // the chunks that it held are done and reported
client.close()
