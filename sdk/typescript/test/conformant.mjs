// The program with which sdk/conformance tests this client; its README says what each word means.
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { ChunkError, Client, PermanentError, QuernError, RetryError, SnoozeError } from '../dist/index.js'

const o = JSON.parse(process.argv[2])
const say = (line) => process.stdout.write(line + '\n')
const client = new Client(o.addresses, { direct: o.direct ?? false, ...(o.token ? { token: o.token } : {}) })

const snoozed = new Set() // chunks that were given back once

async function handle(chunk) {
  say(`begin ${chunk.index}`)
  try {
    return await act(chunk)
  } finally {
    say(`end ${chunk.index}`)
  }
}

function crash(text) {
  throw new TypeError(text)
}

async function act(chunk) {
  const [, verb, rest] = /^(\S*) ?(.*)$/s.exec(chunk.text)
  const [first] = rest.split(' ')
  switch (verb) {
    case 'echo': return rest
    case 'bytes': return Uint8Array.from(rest.match(/../g), (hex) => parseInt(hex, 16))
    case 'size': return 'x'.repeat(Number(first))
    case 'progress':
      for (let turn = 1; turn < 200; turn++, await sleep(2)) chunk.progress(turn / 400, `turn ${turn}`)
      chunk.progress(0.5, rest.slice(first.length + 1))
    case 'wait': // and then it waits
      for (; !existsSync(first); await sleep(10)) {
        if (!chunk.signal.aborted) continue
        say(`cancelled ${chunk.index}`)
        throw chunk.signal.reason
      }
      return
    case 'crash': if (chunk.attempt === 1) crash(rest)
      return
    case 'fatal': throw new PermanentError(rest)
    case 'snooze': if (!snoozed.has(chunk.index)) { // the attempt is the same the second time
      snoozed.add(chunk.index)
      throw new SnoozeError(Number(first))
    }
      return
    case 'fail': if (chunk.attempt === 1) throw new Error(rest)
      return
    case 'retry': if (chunk.attempt === 1) throw new RetryError(rest.slice(first.length + 1), Number(first))
  }
}

async function insertMany() {
  for await (const one of client.insertMany('default', o.chunks.map((text) => ({ chunks: { inline: [text] } })))) {
    say(one instanceof QuernError ? `refused ${one.code} ${one.errors[0].pointer}` : `inserted ${one.id}`)
  }
}

async function produce() {
  const { id } = o.role === 'stream' ? await client.insertStream('default', {}, o.chunks) : await client.insert('default', { chunks: { inline: o.chunks } })
  say(`inserted ${id}`)
  say(`ended ${(await client.wait(id)).state}`)
  for await (const output of client.outputs(id)) say(`output ${output.index} ${Buffer.from(output.bytes).toString('hex')}`)
}

try {
  if (o.role === 'work') {
    const { consumer, concurrency, prefetch, timeout_ms: timeoutMs, wait_ms: waitMs } = o
    const onError = (error) => error instanceof ChunkError && say(`lost ${error.index}`)
    await client.work({ consumer, concurrency, prefetch, timeoutMs, waitMs, ...(o.log ? {} : { onError }) }, handle)
  } else if (o.role === 'many') await insertMany()
  else await produce()
} catch (error) {
  say(error instanceof QuernError ? `error ${error.status} ${error.code}` : `error ${error}`)
  process.exitCode = 1
}
client.close()
