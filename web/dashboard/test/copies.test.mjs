import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { browser, call, insert, manifest, open, reserve, server, upload } from './harness.mjs'

let quern, chromium
const program = process.env.QUERN ?? new URL('../../../bin/quern', import.meta.url).pathname

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** Runs a command like a person who pastes it elsewhere: the shell's default server is another one. */
const shell = (command) => promisify(execFile)('sh', ['-c', command], { env: { ...process.env, PATH: `${dirname(program)}:${process.env.PATH}`, QUERN_SERVER: 'http://127.0.0.1:9' } })

test('what is copied as a command runs, on the command line and with curl', async () => {
  const { id } = await insert(quern.url, 40, { company: 'acme' })
  await reserve(quern.url, { max: 5, strategy: 'Fair("company", OldestFirst)', consumer: 'ada' })
  await call(quern.url, 'PUT', '/v1/queues/default/schedules/tick', { spec: '@hourly', tz: 'Europe/Amsterdam', jitter_ms: 1500, template: { meta: { at: 's:7' }, chunks: { inline: ['YQ=='] } } })
  const v = await upload(quern.url, manifest('1.0.0', ['priority', 'age_ms'], 'copied'))
  await call(quern.url, 'POST', '/v1/plugins/copied/activate', { version: v.sha256 })
  const t = await open(chromium.b, quern.url)
  await t.context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const expected = {
    '#/consumers': [/^quern consumers list/], '#/consumers/ada': [/^quern consumers show ada/], '#/fairness': [/^quern ledgers --queue/, /^quern ledgers \S+ --queue/],
    [`#/submissions/${id}`]: [/^quern map /], '#/schedules': [/^quern schedules list/], '#/schedules?name=tick': [/^quern schedules show tick/, /^echo .*quern schedules set tick --file -/, /^quern schedules next/],
    '#/plugins/copied': [/^quern plugin get/, /^quern plugin scores copied/, /^quern plugin download copied/, /^quern plugin logs/],
  }
  for (const [hash, commands] of Object.entries(expected)) {
    await t.go(hash)
    await t.page.waitForFunction((wanted) => { // parts of a page come one after the other
      const titles = [...document.querySelectorAll('button[title]')].map((b) => b.title)
      return wanted.every((w) => titles.some((title) => new RegExp(w).test(title)))
    }, commands.map((wanted) => wanted.source), { timeout: 10_000 }).catch(() => {}) // the assertion below names the missing ones
    const copied = await t.page.getByRole('button', { name: /^Copy (CLI|curl)$/ }).evaluateAll((all) => all.map((b) => b.title))
    for (const wanted of commands) assert.ok(copied.some((c) => wanted.test(c)), `${hash}: ${wanted} is not among ${JSON.stringify(copied)}`)
    for (const command of copied) {
      if (/ (cancel|priority|delete|submit) |-X (PUT|DELETE|PATCH)|dry-run|-o |--action|bulk|dead |\bwhy\b/.test(command) && !commands.some((wanted) => wanted.test(command))) continue // what changes things has tests of its own
      const { stdout, stderr } = await shell(command.replace(/ --out \S+/, ''))
      assert.ok(!/"status":4\d\d/.test(stdout) && !/unknown|Error/.test(stderr), `${command}: ${stdout.slice(0, 300)} ${stderr}`)
    }
  }
  const { stdout } = await shell(`quern map ${id} --cells 10 --server ${quern.url}`)
  assert.match(stdout, /R/, 'what is reserved is on the map')
  assert.match((await shell(`quern ledgers --server ${quern.url}`)).stdout, /company/)
  assert.deepEqual(t.wrong, [])
  await t.close()
})
