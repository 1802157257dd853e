// A real server for the tests of a program, in Node.js.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** The servers that run: a program that ends leaves none behind. */
const servers = new Set<ChildProcess>()
const killAll = () => servers.forEach((child) => child.kill('SIGKILL'))

/** A server for a test. */
export interface Server {
  readonly address: string
  /** Stops the server and removes its data. */
  stop(): Promise<void>
}

/**
 * Starts a server with data of its own on a free port. It runs until stop, or until the program ends. It needs the program quern in the
 * PATH, or its path in the environment variable QUERN. Tests cannot move its clock.
 */
export async function startServer(): Promise<Server> {
  // In a process group of its own: Ctrl-C ends it after the test has, not under its hands.
  const child = spawn(process.env.QUERN || 'quern', ['dev', '--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  if (servers.size === 0) process.on('exit', killAll)
  servers.add(child)
  const forget = () => {
    servers.delete(child)
    if (servers.size === 0) process.off('exit', killAll)
  }
  let said = ''
  const address = await new Promise<string>((found, failed) => {
    child.once('error', (cause) => {
      forget()
      const missing = (cause as { code?: string }).code === 'ENOENT'
      failed(missing ? new Error('quern: there is no program quern in the PATH; install it, or name it in the environment variable QUERN', { cause }) : cause)
    })
    child.once('close', () => {
      forget()
      failed(new Error(`quern: the server did not start:\n${said}`))
    })
    const heard = (line: string) => {
      said += line + '\n'
      const [match] = /http:\/\/\S+/.exec(line) ?? []
      if (match) found(match)
    }
    createInterface(child.stdout).on('line', heard)
    createInterface(child.stderr).on('line', heard)
  })
  child.unref() // a program may forget it
  for (const stream of [child.stdout, child.stderr] as unknown as { unref(): void }[]) stream.unref()
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }
  return { address, stop }
}
