import type { ComponentChildren } from 'preact'
import type { Problem } from '../api'
import { bytes, exact } from '../format'
import { Failed, Mark } from '../parts'
import type { PluginReport, PluginVersion } from '../types'

const stages = ['Module scanned', 'Manifest read', 'Instrumented and compiled', 'Tried on synthetic candidates'] as const

/** The stages that refused a module, from its errors; none if the server did not examine it. */
function refusedAt(p: Problem): number[] {
  if (p.status !== 422) return []
  return [...new Set(p.errors.map(({ pointer, detail }) => {
    if (pointer.startsWith('/manifest') || pointer.startsWith('/config')) return 1
    return /^(instrument|compile_)/.test(detail) ? 2 : /^(dry_run_|not_deterministic)/.test(detail) ? 3 : 0
  }))]
}

/** The checks that a module passes before it may score, and their results. */
export function Stages({ version, refused }: { version: PluginVersion | undefined; refused?: Problem | undefined }) {
  const at = refused ? refusedAt(refused) : []
  const first = Math.min(...at)
  return (
    <div class="stack">
      <ol class="stages">
        {stages.map((name, i) => {
          const state = version || i < first && at.length > 0 ? 'done' : at.includes(i) ? 'dead' : 'zero'
          return <li key={name} data-state={state}><Mark of={state} /><b>{name}</b><span>{version ? facts(version)[i] : state === 'dead' ? 'refused' : state === 'done' ? 'passed' : at.length > 0 ? 'not reached' : about[i]}</span></li>
        })}
      </ol>
      {refused && <Failed problem={refused} />}
    </div>
  )
}

const about = [
  'imports, exports and every function checked against the sandbox’s rules',
  'its name, columns, window and needs',
  'the module counts its own fuel; a separate process compiles it',
  'scores, speed, memory, and whether equal batches give equal scores',
]

function facts(v: PluginVersion): ComponentChildren[] {
  const r = v.report
  return [
    <>{exact(r.instructions)} instructions in {bytes(v.size)}</>,
    <>{v.name} {v.version}, columns {(v.manifest.columns ?? []).map((c) => <span class="chip" key={c}>{c}</span>)}</>,
    <>{r.from_cache ? 'compiled before' : `${exact(r.compile_ms)} ms of processor time, ${bytes(r.compile_peak_bytes)} at most`}</>,
    <>{tried(r)}</>,
  ]
}

export const tried = (r: PluginReport) => `${r.ns_per_candidate.toFixed(1)} ns and ${exact(Math.round(r.fuel_per_candidate))} fuel a candidate, in batches of ${exact(r.rows)}; ${bytes(r.memory_pages * 65536)} of memory; `
  + `${r.deterministic ? 'the same twice' : 'not the same twice'}${r.skip_share > 0 ? `; ${(100 * r.skip_share).toFixed(1)} % skipped` : ''}${r.nan_share > 0 ? `, ${(100 * r.nan_share).toFixed(1)} % with NaN` : ''}`
