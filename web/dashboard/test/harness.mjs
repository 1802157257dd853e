// The parts that the tests share: a real server, real load, a real browser.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer as createHttp, request } from 'node:http'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

const root = new URL('../../..', import.meta.url).pathname
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')

/** The servers that run. A test that fails may leave one behind: it must not keep the whole run from ending. */
const servers = new Set()
process.on('exit', () => { for (const child of servers) child.kill('SIGKILL') })

/** Starts `quern dev`, or another command that serves, and returns its address and how to end it. */
export async function server(command = ['dev']) {
  const { ready, ...ends } = launch(command)
  const wait = setInterval(() => {}, 60_000) // nothing else keeps the test running until the server is ready
  try { return { url: await ready, ...ends } } finally { clearInterval(wait) }
}

/** Starts a command that serves, which is ready with an address: the node of a cluster may stand by for long before. */
export function launch(command) {
  const child = spawn(process.env.QUERN ?? join(root, 'bin/quern'), [...command, '--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ready = new Promise((found, failed) => {
    child.once('exit', (code) => failed(new Error(`the server ended with ${code}`)))
    createInterface(child.stdout).on('line', (line) => {
      const match = /http:\/\/[^\s)]+/.exec(line)
      if (match) found(match[0])
    })
  })
  servers.add(child)
  child.unref()
  child.stdout.unref()
  const end = (signal) => () => new Promise((ended) => {
    child.removeAllListeners('exit')
    child.once('exit', (code) => { servers.delete(child); ended(code) })
    child.ref()
    child.kill(signal)
  })
  return { ready, stop: end('SIGTERM'), kill: end('SIGKILL') }
}

/** A database for the nodes of a cluster. PostgreSQL refuses to run as root. */
export async function database() {
  const [version] = readdirSync('/usr/lib/postgresql').sort((a, b) => b - a)
  const program = (name) => `/usr/lib/postgresql/${version}/bin/${name}`
  const cwd = mkdtempSync(join(tmpdir(), 'quern-pg-'))
  const as = { cwd }
  if (process.getuid() === 0) {
    for (const [name, flag] of [['uid', '-u'], ['gid', '-g']]) as[name] = Number(execFileSync('id', [flag, 'postgres']))
    chownSync(cwd, as.uid, as.gid)
  }
  execFileSync(program('initdb'), ['-D', 'data', '-U', 'postgres', '-A', 'trust', '--no-sync'], { ...as, stdio: 'ignore' })
  const child = spawn(program('postgres'), ['-D', 'data', '-k', cwd, '-c', 'listen_addresses='], { ...as, stdio: ['ignore', 'ignore', 'pipe'] })
  await new Promise((ready, failed) => {
    child.once('exit', (code) => failed(new Error(`the database ended with ${code}`)))
    createInterface(child.stderr).on('line', (line) => { if (line.includes('ready to accept connections')) ready() })
  })
  servers.add(child)
  child.unref()
  child.stderr.unref()
  const stop = () => new Promise((ended) => {
    child.removeAllListeners('exit')
    child.once('exit', () => { servers.delete(child); rmSync(cwd, { recursive: true, force: true }); ended() })
    child.ref()
    child.kill('SIGQUIT')
  })
  return { url: `postgres:///postgres?host=${encodeURIComponent(cwd)}&user=postgres`, stop }
}

export async function call(url, method, path, body, headers = {}) {
  const response = await fetch(url + path, { method, headers: body === undefined ? headers : { 'Content-Type': 'application/json', ...headers }, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

export const insert = (url, count, meta, more = {}) => call(url, 'POST', '/v1/queues/default/submissions', { meta, chunks: { count, template: 'row {index}' }, ...more })
export const stats = (url) => call(url, 'GET', '/v1/queues/default/stats')
export const reserve = (url, body) => call(url, 'POST', '/v1/queues/default/reservations', body)

/** How many consumers are at work: while there are any, each number may be any. */
let working = 0

/** Consumers that hold what they get for a moment and finish it; one try in forty fails. */
export function consumers(url, strategies) {
  let go = true
  let tries = 0
  const one = async (strategy, name) => {
    let complete = []
    let fail = []
    while (go) {
      const got = await call(url, 'POST', '/v1/queues/default/reservations/exchange', { complete, fail, reserve: { max: 6, strategy, consumer: name, wait_ms: 200 } })
      complete = []
      fail = []
      for (const r of got.reservations) tries++ % 40 === 0 ? fail.push({ token: r.token, error: 'the far side answered 503', retry_after_ms: 20_000 }) : complete.push({ token: r.token })
      await new Promise((later) => setTimeout(later, 200 + 300 * ((tries * 7919) % 100) / 100))
    }
    await call(url, 'POST', '/v1/queues/default/reservations/exchange', { complete, fail })
  }
  const all = strategies.map((s, i) => one(s, `worker-${i + 1}`))
  working += all.length
  return async () => {
    if (go) working -= all.length
    go = false
    await Promise.all(all)
  }
}

export const scorer = readFileSync(new URL('scorer.module', import.meta.url))

/** The manifest of a version of the plugin `order`: it scores the first column times ten less the second times five. */
export const manifest = (version, columns, name = 'order') => JSON.stringify({ name, version, abi: 1, columns, window: { max: 1024 } })

/** Uploads a version of a plugin as a form. */
export async function upload(url, text) {
  const form = new FormData()
  form.append('module', new Blob([scorer]))
  form.append('manifest', text)
  const response = await fetch(url + '/v1/plugins', { method: 'POST', body: form })
  if (!response.ok) throw new Error(`upload: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Chunks that are out of attempts, with three kinds of error. */
export async function dead(url, count, meta) {
  const { id } = await insert(url, count, meta, { on_exhausted: 'dead_letter' })
  const strategy = Object.entries(meta).reduce((inner, [k, v]) => `SelectOnly("${k}", "${v}", ${inner})`, 'OldestFirst')
  for (let left = count; left > 0;) {
    const { reservations } = await reserve(url, { max: Math.min(left, count > 1000 ? 1000 : 100), strategy, consumer: 'importer-7' })
    if (reservations.length === 0) throw new Error(`${left} of ${count} cannot be reserved`)
    const items = reservations.map((r, i) => ({ token: r.token, fatal: true, error: i % 3 ? `connection refused: 10.0.0.${i % 250}:5432` : i % 2 ? `row ${i}: "name" is not valid UTF-8` : 'the far side answered 503' }))
    await call(url, 'POST', '/v1/queues/default/reservations/fail', { items })
    left -= reservations.length
  }
  return id
}

/** A way to the server that can be cut and restored, and lead to another one; it notes the streams that the browser opens, by their topics
 * and queues, and the last event that it names when it reconnects. */
export async function proxy(url) {
  let target = new URL(url)
  const sockets = new Set()
  const seen = []
  const streams = []
  const queues = []
  const serve = () => createServer((from) => {
    const to = createConnection(Number(target.port), target.hostname)
    for (const s of [from, to]) { sockets.add(s); s.on('error', () => s.destroy()); s.on('close', () => { sockets.delete(s); from.destroy(); to.destroy() }) }
    from.on('data', (data) => { for (const m of String(data).matchAll(/GET \/v1\/events\?topics=([\w,]+)(\S*)/g)) { streams.push(m[1]); queues.push(new URLSearchParams(m[2]).getAll('queue')) } for (const m of String(data).matchAll(/Last-Event-ID: (\S+)/gi)) seen.push(m[1]) })
    from.pipe(to).pipe(from)
  }).unref()
  // The port is below those that the kernel gives to others, so that no one else takes it while the way is cut. A process that is being started
  // has a copy of the old listener until it executes its program: until then the port is in use.
  const open = async (port) => {
    for (;;) {
      const listener = serve().listen(port ?? 20_000 + Math.floor(Math.random() * 10_000), '127.0.0.1')
      try { await once(listener, 'listening'); return listener } catch { await new Promise((go) => setTimeout(go, 10)) }
    }
  }
  let listener = await open()
  const { port } = listener.address()
  const cut = () => new Promise((closed) => { listener.close(closed); for (const s of sockets) s.destroy() })
  return {
    url: `http://127.0.0.1:${port}`, seen, streams, queues, cut, lead: (to) => { target = new URL(to) },
    restore: async () => { listener = await open(port) },
  }
}

/** A way to the server that changes every number of its answers, so that a test need not wait until a page says something of exactly 1.
 * Shares of a whole stay. Times, ids and sentences are texts, and stay; so do the number of shards, as a divided queue has other pages, and
 * a progress. */
export async function renumbered(url, n) {
  const { hostname, port } = new URL(url)
  const other = (text) => JSON.stringify(JSON.parse(text, (name, v) => (typeof v === 'number' && !(v > 0 && v < 1) && v < 1e12 && !['shards', 'progress'].includes(name) ? n : v)))
  const listener = createHttp((from, to) => {
    const asked = request({ hostname, port, path: from.url, method: from.method, headers: { ...from.headers, 'accept-encoding': 'identity' } }, (answer) => {
      const type = answer.headers['content-type'] ?? ''
      const { 'content-length': _, ...headers } = answer.headers
      to.writeHead(answer.statusCode, headers)
      let rest = ''
      answer.setEncoding('utf8').on('error', () => to.destroy())
        .on('data', (text) => {
          if (!/json|event-stream/.test(type)) return to.write(text)
          const lines = (rest + text).split('\n')
          rest = lines.pop()
          for (const line of lines) to.write((line.startsWith('data: {') ? 'data: ' + other(line.slice(6)) : line.startsWith('{') ? other(line) : line) + '\n')
        })
        .on('end', () => to.end(rest.startsWith('{') ? other(rest) : rest))
      to.on('close', () => answer.destroy())
    })
    asked.on('error', () => to.destroy())
    from.pipe(asked)
  }).unref()
  await new Promise((ready) => listener.listen(0, '127.0.0.1', ready))
  return { url: `http://127.0.0.1:${listener.address().port}`, close: () => { listener.closeAllConnections(); listener.close() } }
}

/** Debian's Chromium with a profile of its own: that without windows where there is one, as it takes half of the processor time. */
export async function browser() {
  const dir = mkdtempSync(join(tmpdir(), 'quern-chromium-'))
  const b = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find(existsSync), headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--in-process-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', `--crash-dumps-dir=${dir}`],
  })
  return { b, stop: async () => { await b.close(); rmSync(dir, { recursive: true, force: true }) } }
}

const bothSchemes = 'light and dark'

/** How tests look at pages: in both schemes at a width that shows everything, and narrow, where the layout is another. A picture has one scheme. */
export const looks = [...(process.env.SHOTS ? [['light', 1440], ['dark', 1440]] : [[bothSchemes, 1440]]), ['light', 390]]
/** The rules for a dark page, which differs from the light one in its colours alone. */
const colours = { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } }

/** Opens a page and collects all that a page must not do. */
export async function open(b, url, { width = 1440, height = 900, scheme = 'light', me = 'ann' } = {}) {
  const context = await b.newContext({ viewport: { width, height }, colorScheme: scheme === bothSchemes ? 'light' : scheme, locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce' })
  const page = await context.newPage()
  const wrong = []
  let calm = false // while the server is cut off on purpose, failed requests are no fault
  page.on('pageerror', (e) => wrong.push(`uncaught: ${e.message}`))
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type()) && !(calm || expected(m)) ) wrong.push(`${m.type()}: ${m.text()} (${m.location().url})`) })
  page.on('request', (r) => { if (new URL(r.url()).origin !== new URL(url).origin) wrong.push(`asked elsewhere: ${r.url()}`) })
  const allowed = new Set()
  const expected = (m) => /the server responded with a status of (4\d\d)/.exec(m.text()) && allowed.has(/status of (4\d\d)/.exec(m.text())[1])
  context.setDefaultTimeout(patience)
  const waitForFunction = page.waitForFunction.bind(page) // without an interval it asks before each picture, and so Chromium draws one every 16 ms
  page.waitForFunction = (fn, arg, options) => waitForFunction(fn, arg, { polling: 50, ...options })
  if (hostile > 0) await slow(context, page)
  await page.addInitScript((name) => { if (localStorage.getItem('quern.me') === null) localStorage.setItem('quern.me', name) }, me) // the reader has given a name once
  await page.addInitScript(() => {
    globalThis.told = []
    new MutationObserver(() => {
      const text = document.querySelector('.toast')?.textContent
      if (text && text !== globalThis.told.at(-1)) globalThis.told.push(text)
    }).observe(document, { subtree: true, childList: true, characterData: true })
    globalThis.wasLate = 0 // how many times its numbers became live or stale
    new MutationObserver(() => { globalThis.wasLate++ }).observe(document.documentElement ?? document, { subtree: true, attributes: true, attributeFilter: ['data-live'] })
    globalThis.violations = []
    document.addEventListener('securitypolicyviolation', (e) => globalThis.violations.push(`${e.violatedDirective}: ${e.blockedURI}`))
  })
  return {
    page, context, wrong,
    /** Answers that are on the way to a closing page are not errors. */
    close: async () => {
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      await context.unrouteAll({ behavior: 'ignoreErrors' })
      await context.close()
    },
    allow: (...statuses) => statuses.forEach((s) => allowed.add(String(s))),
    calm: (on) => { calm = on },
    /** Moves the pointer away: under it, a list would keep its first rows. */
    go: async (hash) => { await page.mouse.move(0, 0); await page.goto(`${url}/${hash}`); await live(page) },
    /** Waits until the page has reported an act, in the text that goes away again after a moment. */
    told: (words) => page.waitForFunction((w) => globalThis.told.some((text) => (w.source ? new RegExp(w.source).test(text) : text.includes(w))), words instanceof RegExp ? { source: words.source } : words)
      .catch(async (e) => { throw new Error(`told: ${JSON.stringify(await page.evaluate(() => globalThis.told))}, not ${words}`, { cause: e }) }),
    violations: () => page.evaluate(() => globalThis.violations),
    /** It also checks that numbers have the right nouns and commas, unless consumers change them meanwhile. Stale numbers are dimmed on
     * purpose, so a late page is checked again when it has caught up. */
    axe: async (rules = {}) => {
      const found = await looked(rules)
      if (scheme !== bothSchemes || found.length > 0) return found
      for (const colorScheme of ['dark', 'light']) {
        await page.emulateMedia({ colorScheme })
        await page.locator(`html[data-theme="${colorScheme}"]`).waitFor({ state: 'attached' })
        if (colorScheme === 'dark') found.push(...await looked(colours))
      }
      return found
    },
  }

  /** Runs axe. It skips all but the first 16 rows of a table: the others have the same structure, and would take most of the time. */
  async function looked(rules) {
    if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe)
    for (;;) {
      const late = () => page.evaluate(() => [globalThis.wasLate, document.documentElement.dataset.live === 'stale'])
      const [times, before] = await late()
      const { violations } = await page.evaluate((only) => globalThis.axe.run({ exclude: ['tbody tr:nth-child(n + 17)'] }, { resultTypes: ['violations'], ...only }), rules)
      const [timesNow, after] = await late()
      if (violations.length === 0 || calm || !(before || after || times !== timesNow)) return [...violations.map((v) => `${v.id} (${v.impact}): ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`), ...(working > 0 ? [] : misread(await page.evaluate(texts)))]
      await live(page)
    }
  }
}

/** The page's texts, a line for each block, without clients' texts and copied ones: names, code and typed text. Titles and labels are
 * lines, too. */
export function texts() {
  const foreign = 'code, pre, .mono, bdi, kbd, textarea, select, script, style, .chip'
  const lines = [[]]
  let last
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    if (n.parentElement.closest('script, style')) continue
    let block = n.parentElement
    while (getComputedStyle(block).display === 'inline') block = block.parentElement
    if (block !== last) lines.push([])
    last = block
    lines.at(-1).push(n.parentElement.closest(foreign) ? '·' : n.data)
  }
  const named = [...document.querySelectorAll('[title], [aria-label]')].filter((e) => !e.matches(foreign)).flatMap((e) => [e.title, e.ariaLabel]).filter(Boolean)
  return { lines: lines.map((l) => l.join('')), named }
}

const nouns = 'answer|attempt|batch|block|call|candidate|chunk|consumer|field|group|key|kind|letter|line|more|node|other|option|part|pick|place|plugin|queue|reservation|rule|schedule|setting|shard|strateg|submission|tenant|tick|token|tr|value|version'
const between = '(?:(?:open|more|dead|other|ready|waiting|busy) )*'
const one = new RegExp(`(?<![\\d.,:/=×+\u2212-])\\b1 ${between}(?:(?:${nouns})(?:s|es|ies)|are|have|were|wait|hold|compete|owe)\\b`)
const many = new RegExp(`(?<![\\w.,:/=#-])(?:[02-9]|\\d[\\d,]{0,14}\\d|[\\d.]+ [kMG]) ${between}(?:${nouns.replace('more|', '').replace('other|', '').replace('strateg', 'strategy').replace('|tr|', '|try|')})\\b(?! (?:of|to) )`)
/** Years, ids and times have no commas. */
const bare = /(?<![\w.,:/=#~@-])(?!(?:19|20|21)\d\d\b)\d{4,12}(?![\w:-]|\/\w\w|\/\d|\.\d)/

/** The numbers that a reader stumbles over. */
export function misread({ lines, named }) {
  const of = (all, wrong) => all.flatMap((text) => { const m = wrong.exec(text); return m ? [`“${m[0]}” in “${text.slice(Math.max(0, m.index - 60), m.index + 80)}”`] : [] })
  return [...of([...lines, ...named], one), ...of([...lines, ...named], many), ...of(lines, bare)]
}

/** With HOSTILE=300, answers take up to 300 ms more than they do, each another time, and the page has a fifth of the processor. That finds
 * tests that wait for time and not for events. */
const hostile = Number(process.env.HOSTILE ?? 0)

async function slow(context, page) {
  await context.route((url) => url.pathname.startsWith('/v1/'), async (route) => {
    await new Promise((later) => setTimeout(later, Math.random() ** 2 * hostile))
    await route.fallback().catch(() => {}) // the page may have gone on
  })
  const session = await context.newCDPSession(page)
  await session.send('Emulation.setCPUThrottlingRate', { rate: 5 })
}

/** The longest wait for something that takes milliseconds on an idle machine. */
const patience = 60_000

/** Repeats a check until it holds, because a page shows the effect of an act some frames later. */
export async function eventually(check) {
  for (const until = Date.now() + patience; ; await new Promise((later) => setTimeout(later, 50))) {
    try {
      return await check()
    } catch (e) {
      if (Date.now() > until) throw e
    }
  }
}

/** Waits until the page says that its numbers are live. */
export const live = (page) => page.locator('[data-state="live"]').waitFor()
