import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { browser, eventually, open, server } from './harness.mjs'

const sources = new URL('../src', import.meta.url).pathname
const digits = '9007199254740993' // 2^53 + 1: a float64 makes ...992 of it

let quern, chromium

before(async () => {
  quern = await server()
  chromium = await browser()
})
after(async () => {
  await chromium?.stop()
  await quern?.stop()
})

/** Sends and reads a body as text: Node.js would round the number too. */
async function raw(method, path, body) {
  const response = await fetch(quern.url + path, { method, body, headers: body === undefined ? {} : { 'Content-Type': 'application/json' } })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return text
}

test('only json.ts reads and writes JSON, so no form can round a number', () => {
  for (const name of readdirSync(sources, { recursive: true })) {
    if (!/\.tsx?$/.test(name) || name === 'json.ts') continue
    const lines = readFileSync(join(sources, name), 'utf8').split('\n')
    lines.forEach((line, i) => assert.doesNotMatch(line, /JSON\.(parse|stringify)|\.json\(\)/, `${name}:${i + 1} reads or writes JSON; use read and write of json.ts`))
  }
})

test('a schedule whose meta has a number beyond 2^53 is edited and keeps it', async () => {
  const path = '/v1/queues/default/schedules/large'
  await raw('PUT', path, `{"spec":"@hourly","template":{"meta":{"company":${digits}},"chunks":{"count":1,"template":"x"}}}`)
  const t = await open(chromium.b, quern.url)
  await t.go('#/schedules?name=large')
  await t.page.getByRole('heading', { name: 'Change large' }).waitFor()
  await t.page.getByRole('textbox', { name: 'When' }).fill('@daily')
  await t.page.getByRole('button', { name: 'Save' }).click()
  await eventually(async () => assert.match(await raw('GET', path), /"spec":"@daily"/))
  assert.match(await raw('GET', path), new RegExp(`"company":${digits}[,}]`))
  assert.deepEqual(t.wrong, [])
  await t.close()
})
