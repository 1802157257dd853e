// Builds the dashboard into the folder that is named: node build.mjs dist. The same sources give the same bytes.
import { build } from 'esbuild'
import { cp, mkdir, rm } from 'node:fs/promises'

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
})
for (const file of ['index.html', 'icon.svg']) await cp('src/' + file, out + '/' + file)
