// The published package: packed, installed in an empty project, compiled against and imported.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { folder, root, text } from './harness.mjs'

const here = join(root, 'sdk/typescript')

/** Packs the client and installs the package in an empty project. */
function installed(type) {
  const project = folder()
  const run = (...command) => execFileSync(command[0], command.slice(1), { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  const [packed] = JSON.parse(execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], { cwd: here, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }))
  writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, type }))
  run('npm', 'install', '--offline', '--no-audit', '--no-fund', join(project, packed.filename))
  return { project, packed, run }
}

test('the packed package installs without dependencies, and its types need no others', () => {
  const { project, packed, run } = installed('module')
  const files = packed.files.map((f) => f.path)
  for (const want of ['LICENSE', 'README.md', 'dist/index.js', 'dist/index.d.ts', 'dist/transport_fetch.js', 'dist/objects/index.js', 'src/index.ts']) assert.ok(files.includes(want), `${want} is not in the package`)
  assert.ok(files.every((f) => !/\btest\b|node_modules|generate\.mjs/.test(f)), `the package has more than it should: ${files}`)
  writeFileSync(join(project, 'use.ts'), `import { Client, type Chunk, type api } from '@quern/client'
import { FileBucket, Store, type Bucket } from '@quern/client/objects'
const client = new Client('http://127.0.0.1:2', { token: 'qn_x' })
const handler = async (chunk: Chunk): Promise<string> => chunk.text + chunk.meta['company']
export const insert = (): Promise<api.Submission> => client.insert('default', { chunks: { inline: ['x', new Uint8Array(1)] } })
// @ts-expect-error: chunks have exactly one form
export const wrong = () => client.insert('default', { chunks: { count: 1 } })
// @ts-expect-error: an output is bytes
export const work = (signal: AbortSignal) => [client.work({ signal }, handler), client.work({ signal }, () => 7)]
export const store = (bucket: Bucket) => new Store(client, bucket).work({}, async (chunk, content) => (chunk.index === 0 ? content.body! : await content.text()))
export const opened = (): Bucket => new FileBucket('/nowhere')
`)
  for (const lib of ['es2022,dom', 'es2023,dom']) run(join(here, 'node_modules/.bin/tsc'), '--ignoreConfig', '--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', lib, '--types', '', 'use.ts')
  assert.equal(run(process.execPath, '-e', "import('./use.js').then((m) => m.insert()).catch((e) => process.stdout.write(e.name))"), 'UnreachableError')
  const about = JSON.parse(text(join(project, 'node_modules/@quern/client/package.json')))
  assert.equal(about.dependencies, undefined)
  assert.equal(about.publishConfig.provenance, true)
  assert.match(about.repository.url, /quern-queue\/quern/)
})

// Node.js 20.19, 22.12 and later load ES modules with require. Older ones refuse, and say what to write instead. With a flag, newer ones
// also refuse.
test('CommonJS requires every entry, or is told to import it', () => {
  const { run, project } = installed('commonjs')
  const flag = '--no-experimental-require-module'
  const asOld = process.features.require_module ? [process.execPath, flag] : [process.execPath]
  writeFileSync(join(project, 'every.js'), `
for (const [name, value] of [['', 'Client'], ['/testing', 'startServer'], ['/objects', 'Store']]) console.log(typeof require('@quern/client' + name)[value])`)
  writeFileSync(join(project, 'import.js'), "import('@quern/client').then(({ Client }) => console.log(typeof Client))")
  if (process.features.require_module) assert.equal(run(process.execPath, 'every.js'), 'function\nfunction\nfunction\n')
  if (process.features.require_module && !process.allowedNodeEnvironmentFlags.has(flag)) return // it is too new to do as old ones did
  assert.throws(() => run(...asOld, 'every.js'), ({ stderr }) => /Instead change the require of .* to a dynamic import\(\)/.test(stderr))
  assert.equal(run(...asOld, 'import.js'), 'function\n')
})
