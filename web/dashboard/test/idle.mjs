// The cost of a tab that no one touches, page by page, at a server under load with many values: the share of a core that the whole browser
// takes more than with a blank tab, the main thread's part of it, and the bytes from the network. IDLE_PAGES chooses pages, IDLE_SECONDS
// (30) sets how long each is watched, IDLE_TOUCHED moves the pointer every few seconds, like a reader, and IDLE_PROFILE prints the
// functions that take most of the time.
import { createConnection, createServer } from 'node:net'
import { browser, consumers, insert, open, server } from './harness.mjs'
import { hard } from './hard.mjs'

const seconds = Number(process.env.IDLE_SECONDS ?? 30)
const all = {
  blank: '', overview: '#/overview', keys: '#/keys?key=tenant', 'keys-1000': '#/keys?key=tenant&show=more', value: '#/keys/tenant/t2', consumers: '#/consumers', reservations: '#/reservations',
  fairness: '#/fairness', activity: '#/activity', submissions: '#/submissions', rules: '#/rules', 'dead-letters': '#/dead-letters', map: '',
}
const wanted = process.env.IDLE_PAGES?.split(',') ?? Object.keys(all)

/** A way to the server that counts what comes from it. */
async function counting(url) {
  const { port, hostname } = new URL(url)
  const way = { bytes: 0 }
  const listener = createServer((from) => {
    const to = createConnection(Number(port), hostname)
    for (const s of [from, to]) { s.on('error', () => s.destroy()); s.on('close', () => { from.destroy(); to.destroy() }) }
    to.on('data', (data) => { way.bytes += data.length })
    from.pipe(to).pipe(from)
  }).unref()
  await new Promise((ready) => listener.listen(0, '127.0.0.1', ready))
  way.url = `http://127.0.0.1:${listener.address().port}`
  return way
}

/** Prints the functions of the main thread over the next ten seconds. */
async function profile(page) {
  await page.send('Profiler.enable')
  await page.send('Profiler.start')
  await new Promise((later) => setTimeout(later, 10_000))
  const { profile: { nodes, samples, timeDeltas } } = await page.send('Profiler.stop')
  const frames = new Map(nodes.map((n) => [n.id, n.callFrame]))
  const own = new Map()
  for (const [i, id] of samples.entries()) {
    const { functionName, url, lineNumber, columnNumber } = frames.get(id)
    const name = `${functionName || 'anonymous'} ${url.split('/').at(-1)}:${lineNumber}:${columnNumber}`
    own.set(name, (own.get(name) ?? 0) + timeDeltas[i])
  }
  for (const [name, us] of [...own].sort((a, b) => b[1] - a[1]).slice(0, 25)) console.log(`    ${(us / 1e5).toFixed(2)} % ${name}`)
}

const quern = await server()
const chromium = await browser()
const { large } = await hard(quern.url, { tenants: 1000 })
await insert(quern.url, 100_000, { tenant: 't2', region: 'ap' })
all.map = `#/submissions/${large}`
const stop = consumers(quern.url, ['Fair("tenant", Random)', 'OldestFirst', 'Random', 'MaxSimultaneous("tenant", 3, Random)'])
const way = await counting(quern.url)
const processes = await chromium.b.newBrowserCDPSession()
const infos = async () => (await processes.send('SystemInfo.getProcessInfo')).processInfo
const spent = async () => (await infos()).reduce((sum, p) => sum + p.cpuTime, 0)
let none = 0
for (const name of wanted) {
  const t = await open(chromium.b, way.url)
  if (all[name]) await t.go(all[name])
  const page = await t.context.newCDPSession(t.page)
  await page.send('Performance.enable', { timeDomain: 'threadTicks' })
  const main = async () => Object.fromEntries((await page.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value]))
  await new Promise((settled) => setTimeout(settled, process.env.IDLE_TOUCHED ? 5000 : 33_000)) // a page that no one touches does less after half a minute
  let moves = 0
  const touch = process.env.IDLE_TOUCHED && setInterval(() => void t.page.mouse.move(700 + (moves++ % 9), 8), 3000)
  const [cpu, before, bytes, at] = [await spent(), await main(), way.bytes, performance.now()]
  await new Promise((later) => setTimeout(later, 1000 * seconds))
  const took = (performance.now() - at) / 1000
  const after = await main()
  clearInterval(touch)
  const share = (100 * ((await spent()) - cpu)) / took
  if (name === 'blank') none = share
  const part = (metric) => ((100 * (after[metric] - before[metric])) / took).toFixed(1)
  console.log(`${name.padEnd(13)} ${(share - none).toFixed(1).padStart(5)} % of a core; main thread ${part('TaskDuration')} % (script ${part('ScriptDuration')}, style ${part('RecalcStyleDuration')}, layout ${part('LayoutDuration')}); ${((way.bytes - bytes) / 1000 / took).toFixed(1)} KB/s; ${after.Nodes} nodes`)
  if (process.env.IDLE_PROFILE) await profile(page)
  await t.close()
}
await stop()
await chromium.stop()
await quern.stop()
