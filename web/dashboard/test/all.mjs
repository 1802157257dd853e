// Runs all tests of the dashboard. In CI (CI=true) the files of which a test failed are run once more, alone, and named: a browser on a busy
// machine can be late in ways that say nothing of the page, and one such moment must not hold back a release. A file that fails twice fails
// the run.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))

/** Runs files, and says which of them failed. */
function run(files, concurrency) {
  const failed = new Set()
  const node = spawn(process.execPath, ['--test', '--test-reporter=tap', '--test-reporter-destination=stdout', `--test-concurrency=${concurrency}`, `--test-timeout=${process.env.HOSTILE ? 3_600_000 : 600_000}`, ...files], { stdio: ['ignore', 'pipe', 'inherit'] })
  let rest = ''
  node.stdout.setEncoding('utf8').on('data', (text) => {
    process.stdout.write(text)
    const lines = (rest + text).split('\n')
    rest = lines.pop()
    for (const line of lines) {
      const at = /^\s*location: '(.+\.test\.mjs):\d+:\d+'/.exec(line)
      if (at) failed.add(at[1])
    }
  })
  return new Promise((ended) => node.on('close', (code) => ended({ code: code ?? 1, failed: [...failed] })))
}

const files = process.argv.length > 2 ? process.argv.slice(2) : readdirSync(here).filter((f) => f.endsWith('.test.mjs')).map((f) => join(here, f))
let { code, failed } = await run(files, 3)
if (code !== 0 && process.env.CI && failed.length > 0) {
  console.log(`# once more, as a test of each failed: ${failed.map((f) => relative(here, f)).join(', ')}`);
  ({ code } = await run(failed, 1))
}
process.exitCode = code
