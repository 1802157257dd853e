// Builds the dashboard into the folder that is named: node build.mjs dist. The same sources give the same bytes.
import { build } from 'esbuild'
import { cp, mkdir, readFile, rm } from 'node:fs/promises'

/** Leaves out what uPlot offers besides itself, after its last function: bars, steps and splines, which no chart here has. */
const linesOnly = {
  name: 'lines only',
  setup: (build) => build.onLoad({ filter: /uPlot\.esm\.js$/ }, async ({ path }) => {
    const text = await readFile(path, 'utf8')
    const [from, to] = [text.lastIndexOf('\nuPlot.assign = '), text.lastIndexOf('\nexport {')]
    if (from < 0 || to < from) throw new Error(`${path} does not end as it did: see what to leave out of it`)
    return { contents: text.slice(0, from) + text.slice(to), loader: 'js' }
  }),
}

const out = process.argv[2]
if (!out) throw new Error('usage: node build.mjs FOLDER')
await rm(out, { recursive: true, force: true })
await mkdir(out, { recursive: true })
await build({
  entryPoints: { app: 'src/main.tsx', stream: 'src/stream-worker.ts' },
  outdir: out,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2022'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'warning',
  plugins: [linesOnly],
})
for (const file of ['index.html', 'icon.svg']) await cp('src/' + file, out + '/' + file)
