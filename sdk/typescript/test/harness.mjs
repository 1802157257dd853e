// The real servers that the tests share.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export const root = new URL('../../..', import.meta.url).pathname
const quern = process.env.QUERN ?? join(root, 'bin/quern')

/** The servers that run: a test that fails must not leave one behind. */
const servers = new Set()
process.on('exit', () => servers.forEach((child) => child.kill('SIGKILL')))

const folders = []
process.on('exit', () => folders.forEach((dir) => rmSync(dir, { recursive: true, force: true })))

/** A folder that is gone when the tests are over. */
export function folder() {
  const dir = mkdtempSync(join(tmpdir(), 'quern-typescript-'))
  folders.push(dir)
  return dir
}

/** An address for a server that starts several times, with a port below those that the kernel gives to others. */
export async function free() {
  const address = { host: '127.0.0.1', port: 20_000 + Math.floor(Math.random() * 10_000) }
  const probe = createServer().listen(address)
  try {
    await once(probe, 'listening')
  } catch {
    return free()
  }
  await new Promise((closed) => probe.close(closed))
  return `${address.host}:${address.port}`
}

/** Starts a server and returns its address, and how to end it in order or at once. Without a command its data is thrown away. */
export async function serve(command = ['dev'], listen = '127.0.0.1:0') {
  const child = spawn(quern, [...command, '--listen', listen], { stdio: ['ignore', 'pipe', 'pipe'] })
  servers.add(child)
  let said = ''
  const url = await new Promise((found, failed) => {
    child.once('exit', (code) => failed(new Error(`the server ended with ${code}:\n${said}`)))
    const heard = (line) => {
      said += line + '\n'
      const match = /https?:\/\/127[^\s)]+/.exec(line)
      if (match) found(match[0])
    }
    createInterface(child.stdout).on('line', heard)
    createInterface(child.stderr).on('line', heard)
  })
  child.unref()
  child.stdout.unref()
  child.stderr.unref()
  const end = (signal) => () => new Promise((ended) => {
    child.removeAllListeners('exit')
    child.once('exit', () => { servers.delete(child); ended() })
    child.ref()
    child.kill(signal)
  })
  return { url: url.replace(/\/$/, ''), address: new URL(url).host, stop: end('SIGTERM'), kill: end('SIGKILL') }
}

export const text = (path) => readFileSync(path, 'utf8')

/** The programs in TypeScript that a document shows. */
export const blocks = (file) => [...text(join(root, file)).matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code)

/** Compiles programs and returns their folder. It is within the package, so that @quern/client is this package. */
export function compile(programs) {
  const here = join(root, 'sdk/typescript')
  mkdirSync(join(here, '.documents'), { recursive: true })
  const dir = mkdtempSync(join(here, '.documents/'))
  folders.push(dir)
  const files = Object.entries(programs).map(([name, code]) => {
    writeFileSync(join(dir, name + '.mts'), code)
    return join(dir, name + '.mts')
  })
  const options = ['--ignoreConfig', '--strict', '--skipLibCheck', '--target', 'es2022', '--module', 'nodenext', '--types', 'node']
  execFileSync(join(here, 'node_modules/.bin/tsc'), [...options, ...files], { cwd: here, stdio: 'inherit' })
  return dir
}
