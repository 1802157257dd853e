// The server for tests of other programs.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '../dist/index.js'
import { startServer } from '../dist/testing.js'
import { root } from './harness.mjs'

const program = process.env.QUERN ?? join(root, 'bin/quern')
/** Sets variables of the environment until the end of a test. */
function environment(t, variables) {
  const before = { ...process.env }
  t.after(() => { process.env = before })
  process.env = { ...before, ...variables }
  for (const name in variables) if (variables[name] === undefined) delete process.env[name]
}

test('two servers have work of their own, and end when they are told', async (t) => {
  environment(t, { QUERN: program })
  const servers = [await startServer(), await startServer()]
  const [one, two] = servers.map(({ address }) => new Client(address))
  await one.insert('default', { chunks: { inline: ['x'] } })
  assert.deepEqual([(await one.getStats('default')).ready, (await two.getStats('default')).ready], [1, 0])
  for (const client of [one, two]) client.close()
  for (const server of servers) await server.stop()
  await servers[0].stop() // once more does nothing
})

test('the program is in the PATH, or the error says what to do', async (t) => {
  environment(t, { QUERN: undefined, PATH: join(program, '..') })
  await (await startServer()).stop()
  process.env.PATH = '/nowhere'
  await assert.rejects(startServer(), /name it in the environment variable QUERN/)
  process.env.QUERN = '/bin/echo'
  await assert.rejects(startServer(), /did not start:\ndev --listen/)
})

test('a program that forgets its server ends, and the server with it', () => {
  const script = `import processes from 'node:child_process'
    import { syncBuiltinESMExports } from 'node:module'
    const { spawn } = processes
    processes.spawn = (...how) => { const child = spawn(...how); console.log(child.pid); return child }
    syncBuiltinESMExports()
    await (await import(${JSON.stringify(join(root, 'sdk/typescript/dist/testing.js'))})).startServer()`
  const pid = Number(execFileSync(process.execPath, ['--input-type=module', '-e', script], { env: { ...process.env, QUERN: program }, encoding: 'utf8', timeout: 60_000 }))
  assert.ok(pid > 1)
  for (let left = 1000; ; left--) { // a process that was killed is there until it is waited for
    try {
      process.kill(pid, 0)
    } catch (error) {
      return assert.equal(error.code, 'ESRCH')
    }
    assert.ok(left > 0, 'the server still runs')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  }
})
