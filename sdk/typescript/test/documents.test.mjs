// What the documents show is compiled, and what the README at the top shows runs.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { root, serve, text } from './harness.mjs'

const here = join(root, 'sdk/typescript')
const made = join(here, '.documents') // within the package, so that its name is this package
const blocks = (file) => [...text(join(root, file)).matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code)
after(() => rmSync(made, { recursive: true, force: true }))

test('the TypeScript of the documents compiles, and that of the README produces, consumes and shows the result', async () => {
  const server = await serve()
  mkdirSync(made, { recursive: true })
  for (const [name, file] of [['top', 'README.md'], ['own', 'sdk/typescript/README.md']]) {
    blocks(file).forEach((code, i) => writeFileSync(join(made, `${name}${i}.mts`), code.replace('http://127.0.0.1:7700', server.url)))
  }
  const files = ['top0', 'top1', 'own0', 'own1', 'own2'].map((name) => join(made, name + '.mts'))
  execFileSync(join(here, 'node_modules/.bin/tsc'), ['--ignoreConfig', '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', ...files], { cwd: here, stdio: 'inherit' })
  const consumer = spawn(process.execPath, [join(made, 'top1.mjs')], { stdio: ['ignore', 'inherit', 'inherit'] })
  const shown = await new Promise((resolve, reject) => {
    const producer = spawn(process.execPath, [join(made, 'top0.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] })
    let out = ''
    producer.stdout.on('data', (data) => (out += data))
    producer.on('exit', (code) => (code === 0 ? resolve(out) : reject(new Error(`the producer ended with ${code}`))))
  })
  assert.match(shown, /completed\n0 ASH\n1 BEECH\n2 CEDAR\n$/)
  const ended = new Promise((resolve) => consumer.on('exit', resolve))
  consumer.kill('SIGTERM')
  assert.equal(await ended, 0, 'the consumer drains at SIGTERM')
  await server.stop()
})
