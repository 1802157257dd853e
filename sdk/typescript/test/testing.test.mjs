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

test('the test moves the clock: a reservation times out and a delay is over, and not before', async (t) => {
  environment(t, { QUERN: program })
  const server = await startServer()
  const client = new Client(server.address)
  t.after(async () => { client.close(); await server.stop() })
  const minutes = 60_000
  const taken = async () => (await client.reserve('default', { max: 5, consumer: 'ana', timeout_ms: 60 * minutes })).reservations.map((r) => r.submission)
  const held = (await client.insert('default', { chunks: { inline: ['a'] } })).id
  assert.deepEqual(await taken(), [held])
  await server.advance(59 * minutes)
  assert.deepEqual(await taken(), [])
  const now = await server.advance(1.5 * minutes) // after a timeout, a chunk waits for its back-off of up to a second
  assert.deepEqual(await taken(), [held])
  const later = (await client.insert('default', { chunks: { inline: ['b'] }, run_at: new Date(+now + 30 * minutes).toISOString() })).id
  await server.advance(29 * minutes)
  assert.deepEqual(await taken(), [])
  await server.advance(minutes)
  assert.deepEqual(await taken(), [later])
  await assert.rejects(server.advance(-1), /the clock only goes forward/)
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
  for (let left = 1000; ; left--) { // a killed process exists until its parent waits for it
    try {
      process.kill(pid, 0)
    } catch (error) {
      return assert.equal(error.code, 'ESRCH')
    }
    assert.ok(left > 0, 'the server still runs')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  }
})
