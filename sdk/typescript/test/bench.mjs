// How many empty chunks a worker does a second: node bench.mjs ADDRESS AT_ONCE SECONDS, of the queue default, which has enough of them.
// `quern-bench clients` runs it.
import { Client } from '../dist/index.js'

const [address, concurrency, seconds] = process.argv.slice(2)
const client = new Client(address)
const stop = new AbortController()
let count = 0
const from = performance.now()
setTimeout(() => stop.abort(), Number(seconds) * 1000)
await client.work({ concurrency: Number(concurrency), signal: stop.signal }, () => { count++ })
console.log(count / ((performance.now() - from) / 1000)) // what it had in its hands is done, and reported
client.close()
