import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { contrast, distance, eyes, themes } from './colours.mjs'

const states = ['ready', 'reserved', 'waiting', 'done', 'dead', 'skipped']

test('the colours of states differ for all eyes, done and dead the most, and stand out from what is below them', () => {
  assert.ok(Math.abs(distance('#000000', '#ffffff') - 100) < 0.1, 'black and white are 100 apart')
  for (const [theme, tokens] of Object.entries(themes(readFileSync(new URL('../src/tokens.css', import.meta.url), 'utf8')))) {
    for (const [eye, matrix] of Object.entries(eyes)) {
      for (const [i, a] of states.entries()) {
        for (const b of states.slice(i + 1)) {
          const least = a === 'done' && b === 'dead' ? 16 : 7
          const found = distance(tokens[a], tokens[b], matrix)
          assert.ok(found >= least, `${theme}: ${a} and ${b} are ${found.toFixed(1)} apart for eyes of kind ${eye}, want ${least}`)
        }
      }
    }
    for (const of of states) assert.ok(contrast(tokens[of], tokens.surface) >= 3, `${theme}: ${of} stands out by ${contrast(tokens[of], tokens.surface).toFixed(2)} to 1, want 3`)
  }
})
