// What the documents show is compiled, and what the README at the top shows runs.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { blocks, compile, folder, serve } from './harness.mjs'

/** Runs a program to its end, which must be in order, and returns what it printed. */
const run = (program) => new Promise((resolve, reject) => {
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'], timeout: 120_000 })
  let out = ''
  child.stdout.on('data', (data) => (out += data))
  child.on('exit', (code) => (code === 0 ? resolve(out) : reject(new Error(`${program} ended with ${code}`))))
})

test('the TypeScript of the documents compiles, and that of the README at the top produces, consumes and collects', async (t) => {
  const server = await serve()
  t.after(server.stop)
  const store = folder()
  const programs = {}
  for (const [name, file] of [['top', 'README.md'], ['own', 'sdk/typescript/README.md']]) {
    blocks(file).forEach((code, i) => (programs[name + i] = code.replace('http://127.0.0.1:7700', server.url).replace('/tmp/quern-objects', store)))
  }
  const made = compile(programs)
  assert.equal(await run(join(made, 'top0.mjs')), 'ASH\nBEECH\nCEDAR\n')
  assert.equal(await run(join(made, 'own2.mjs')), 'completed\n0 6 words\n1 4 words\n')
})
