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
  /**
   * Moves the server's clock forward by milliseconds, and gives its new time. The server has then done what became due: reservations have
   * timed out, and delays, back-offs, rates, schedules and deadlines are over.
   *
   * Only the server's clock moves. How long a reserve waits for work is real time, and so is everything in the client: a worker whose
   * reservation has timed out learns of it with its next call.
   */
  advance(ms: number): Promise<Date>
  /** Stops the server and removes its data. */
  stop(): Promise<void>
}

/**
 * Starts a server with data of its own on a free port. It runs until stop, or until the program ends. It needs the program quern in the
 * PATH, or its path in the environment variable QUERN.
 */
export async function startServer(): Promise<Server> {
  // In a process group of its own: Ctrl-C ends it after the test has, not under its hands.
  const child = spawn(process.env.QUERN || 'quern', ['dev', '--listen', '127.0.0.1:0', '--test-clock'], { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
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
  const advance = async (ms: number) => {
    const answer = await fetch(`${address}/dev/clock`, { method: 'POST', body: JSON.stringify({ advance_ms: Math.ceil(ms) }) })
    const said = await answer.text()
    if (!answer.ok) throw new Error(`quern: the server's clock was not moved by ${ms} ms: ${answer.status} ${said}`)
    return new Date((JSON.parse(said) as { now: string }).now)
  }
  return { address, advance, stop }
}
