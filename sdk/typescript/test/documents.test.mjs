// What the documents show is compiled, and what the README at the top shows runs.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { folder, root, serve, text } from './harness.mjs'

const here = join(root, 'sdk/typescript')
const made = join(here, '.documents') // within the package, so that its name is this package
const blocks = (file) => [...text(join(root, file)).matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code)
/** Runs a program to its end, which must be in order, and returns what it printed. */
const run = (name) => new Promise((resolve, reject) => {
  const program = spawn(process.execPath, [join(made, name + '.mjs')], { stdio: ['ignore', 'pipe', 'inherit'], timeout: 120_000 })
  let out = ''
  program.stdout.on('data', (data) => (out += data))
  program.on('exit', (code) => (code === 0 ? resolve(out) : reject(new Error(`${name} ended with ${code}`))))
})
after(() => rmSync(made, { recursive: true, force: true }))

test('the TypeScript of the documents compiles, and that of the README at the top produces, consumes and collects', async (t) => {
  const server = await serve()
  t.after(server.stop)
  const store = folder()
  mkdirSync(made, { recursive: true })
  for (const [name, file] of [['top', 'README.md'], ['own', 'sdk/typescript/README.md']]) {
    blocks(file).forEach((code, i) => writeFileSync(join(made, `${name}${i}.mts`), code.replace('http://127.0.0.1:7700', server.url).replace('/tmp/quern-objects', store)))
  }
  const files = ['top0', 'own0', 'own1', 'own2', 'own3'].map((name) => join(made, name + '.mts'))
  execFileSync(join(here, 'node_modules/.bin/tsc'), ['--ignoreConfig', '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', ...files], { cwd: here, stdio: 'inherit' })
  assert.equal(await run('top0'), 'ASH\nBEECH\nCEDAR\n')
  assert.equal(await run('own2'), 'completed\n0 6 words\n1 4 words\n')
})
