// The TypeScript of this client's page compiles, and its programs run.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { blocks, compile, folder, root, serve } from './harness.mjs'

/** Runs a program to its end, which must be in order, and returns what it printed. */
const run = (program) => new Promise((resolve, reject) => {
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'], timeout: 120_000 })
  let out = ''
  child.stdout.on('data', (data) => (out += data))
  child.on('exit', (code) => (code === 0 ? resolve(out) : reject(new Error(`${program} ended with ${code}`))))
})

test('the programs of the page compile; the first produces, consumes and collects, as JavaScript too', async (t) => {
  const server = await serve()
  t.after(server.stop)
  const store = folder()
  const programs = blocks('sdk/typescript/README.md').map((code) => code.replace('http://127.0.0.1:7700', server.url).replace('/tmp/quern-objects', store))
  const made = compile(Object.fromEntries(programs.map((code, i) => ['program' + i, code])))
  writeFileSync(join(made, 'trees.mjs'), programs[0])
  for (const name of ['program0.mjs', 'trees.mjs']) assert.equal(await run(join(made, name)), 'ASH\nBEECH\nCEDAR\n', name)
  const objects = programs.findIndex((code) => code.includes('FileBucket'))
  assert.equal(await run(join(made, `program${objects}.mjs`)), 'completed\n0 6 words\n1 4 words\n')
  const follows = programs.findIndex((code) => code.includes('chunk.thenInsert({'))
  assert.equal(await run(join(made, `program${follows}.mjs`)), 'ASH\n')
  const kinds = programs.findIndex((code) => code.includes('client.worker'))
  assert.equal(await run(join(made, `program${kinds}.mjs`)), 'sent to ana\nresized cat.png to 100\n')
  const tests = programs.findIndex((code) => code.includes('startServer'))
  process.env.QUERN ??= join(root, 'bin/quern')
  assert.equal(await run(join(made, `program${tests}.mjs`)), 'completed_with_dead\n')
  const unique = programs.findIndex((code) => code.includes('on_conflict'))
  assert.equal(await run(join(made, `program${unique}.mjs`)), 'true true 0,5000,60000\ncancelled open\n')
})
