// The shapes of the HTTP interface that the pages read; /openapi.json is the source.

import type { Backoff } from './backoff'

/** A whole number beyond 2^53 stays exact as a bigint. */
export type MetaValue = string | number | bigint
export type Meta = Record<string, MetaValue>

export interface Stats {
  ready: number; waiting: number; retrying: number; reserved: number; paused: number; blocked: number; dead: number; dead_letters: number
  submissions_open: number; consumers_attached: number; consumers_waiting: number; oldest_ready_seconds: number
  inserted_total: number; reserved_total: number; done_total: number; failed_total: number; expired_total: number; released_total: number
  journal_bytes: number; store_bytes: number; disk_full: number; memory_full: number; forecast: Forecast | null
}
/** When work is done: half of the time before p50, nine times in ten before p90. Where a limit or a rule binds it is not before not_before. */
export interface Forecast { p50: string; p90: string; not_before?: string; moving: boolean }
export interface Rates { inserted: number; reserved: number; done: number; failed: number }
export interface StatsFrame { queue: string; at: string; stats: Stats; rates: Rates }
/** A number of reservations in a time. */
export interface Rate { max: number; per_ms: number }
export interface ValueCount {
  value: MetaValue; ready: number; paused?: number; blocked?: number; in_flight: number; submissions: number
  waiting?: number; dead?: number; done?: number; oldest_ready_at?: string // of a list and of one value: events do not have them
  limit: number | null; weight: number | null; rate?: Rate; quota?: Quota; default_limit?: number; default_weight?: number; default_rate?: Rate; default_quota?: Quota; saturated: boolean; saturated_since: string | null; etag?: string; changed_at?: string
}
export interface KeyFrame {
  key: string; values: number; whole: boolean; top: ValueCount[]
  rest: { values: number; ready: number; in_flight: number }
}
export interface KeysFrame { queue: string; at: string; keys: KeyFrame[]; left: number }
export interface Series {
  at: number[]; ready: number[]; waiting: number[]; reserved: number[]; dead: number[]
  inserted_rate: number[]; reserved_rate: number[]; done_rate: number[]; failed_rate: number[]
}
export interface KeySeries { key: string; step_seconds: number; ends?: string; values: { value: MetaValue; in_flight: number[] }[] }
export interface Page<T> { items: T[]; next?: string }
export interface Node { name: string; url: string; since: string; leaving: boolean; queues: { queue: string; shard: number; epoch: number; lease_ms: number | null }[] }
export interface Shard { shard: number; queue: string; owner?: string; state: string; reason?: string; groups: number; ready: number; reserved: number; submissions_open: number }
export interface Group { group: string; shard: number; moving_to?: number; waiting: number; in_flight: number; submissions: number; limits?: Quota }
/** The most that may be open of a group or of a value. */
export interface Quota { waiting?: number; submissions?: number; bytes?: number }
export interface MetaKey { key: string; values: number; values_set: number; limit: number | null; weight: number | null; rate?: Rate; etag?: string }
export interface Submission {
  id: string; queue: string; state: string; chunks: number
  ready: number; waiting: number; reserved: number; done: number; dead: number; skipped?: number; paused?: number; blocked?: number
  created_at: string; meta?: Meta; priority?: number; group?: string; shard?: number; retry_backoff?: Backoff; unique?: { key: string; while: string }; after?: { ids: string[]; until: string; on_unmet?: string }; waits_for?: string[]; prefix?: string; template?: string
  run_at?: string; dead_deadline?: string; finished_at?: string; max_attempts?: number; on_exhausted?: string; failure?: string; failed_chunk?: number
  schedule?: string; scheduled_at?: string; has_attachment?: boolean; forwarded?: number
}
export interface Chunk { index: number; state: string; attempts: number; not_before?: string; consumer?: string; held_since?: string; deadline?: string; progress?: number; note?: string; error?: string; output?: unknown }
export interface Tenant { key: string; value?: MetaValue; state: string; weight: number; share: number; lag: number; before?: number }
export interface WhyBranch {
  branch: number; path: string; obstacle: string; detail: string; until?: string; consumer?: string
  key?: string; value?: MetaValue; in_flight?: number; max?: number; hidden_by?: number; tenants?: Tenant[]
}
export interface Why {
  state: string; strategy: string; branches: WhyBranch[]
  standing?: { branch: number; ahead: number; among?: number; at_least: boolean; per_second: number; wait_ms?: number }
  restart_grace_until?: string; warnings?: Warning[]
}
export interface StrategyUse { strategy: string; consumers: number; reserves_per_second: number; chunks_per_second: number; last_used: string }
export interface StrategiesInUse { items: StrategyUse[]; since: string }
export interface Cause {
  kind: string; detail: string; chunks: number; submissions: number; key?: string; value?: MetaValue; in_flight?: number; max?: number
  rule?: Rule; until?: string; strategy?: string; last_used?: string; forecast: Forecast | null; per_second?: number; links?: { text: string; href: string }[]
}
export interface Diagnosis {
  sentence: string; causes: Cause[]; in_flight: number; holders: number; submissions: number; examined: number; first_reserved_at?: string; forecast: Forecast | null
  oldest?: { consumer?: string; submission: string; index: number; attempt: number; reserved_at: string; deadline: string }
}
export interface Amount { submissions: number; chunks: number }
export interface Refused { key: string; value?: MetaValue; in_flight: number; max?: number; refused: Amount; shard?: number }
export interface Block { pointer: string; depth: number; block: string; text: string; entered: Amount; passed: Amount; refused: Amount; refused_values: number; top: Refused[] }
export interface Pick { submission: string; index: number; meta: Meta; priority: number; branch: number; path: string; shard?: number }
export interface Explained {
  strategy: string; submissions: number; examined: number; withheld: { refused: Amount; refused_values: number; top: Refused[] }
  tree: Block[]; picks: { pick: Pick }[]; seed: number; warnings?: Warning[] | undefined
}
export interface Preview { strategy: string; picks: Pick[]; seed: number; warnings?: Warning[] | undefined }
export interface Spread { strategy: string; picks: number; keys: { key: string; picks: number; distinct: number; max_share: number; jain: number }[]; warnings?: Warning[] | undefined }
export interface Comparison { a: Spread; b: Spread; overlap: number; only_a: Pick[]; only_b: Pick[]; seed: number }
/** The JSON of a block as the server writes it: a block without fields is its name, and two alternatives have names of their own. */
export type StrategyJSON = string | ({ type: string; underlying?: StrategyJSON; branches?: StrategyJSON[]; try_first?: StrategyJSON; fallback?: StrategyJSON } & Record<string, unknown>)
export interface Warning { kind: string; pointer: string; detail: string }
export interface Valid { strategy: string; tree: StrategyJSON; branches: string[]; warnings: Warning[] }
export interface NamedStrategy { name: string; version: number; strategy: string; etag: string; created_at: string }
export interface Queue { name: string; created_at: string; sentence?: string; now?: QueueNow; settings: Record<string, unknown>; warnings?: string[]; quarantined?: Quarantined }
export interface QueueNow { waiting: number; reserved: number; dead_letters: number; done_per_second: number; done_rates: number[]; alarms: string[] }
export interface Quarantined { reason: string; since: string }

export interface PluginUse { sha256: string; version: string; config: unknown }
export interface PluginBreaker { state: string; reason?: string; until?: string }
export interface PluginSettings { hold?: string; cpu_share?: number; record_every?: number; log_level?: number }
export interface Plugin {
  name: string; state: string; revision: number; etag: string; active?: PluginUse; previous?: PluginUse; shadow?: PluginUse; canary?: PluginUse
  canary_percent: number; settings: PluginSettings; breaker: PluginBreaker; versions: number; latest?: string; changed_at?: string; changed_by?: string
}
export interface PluginReport {
  ns_per_candidate: number; ns_median: number; fuel_per_candidate: number; rows: number; memory_pages: number; skip_share: number; nan_share: number
  deterministic: boolean; compile_ms: number; compile_peak_bytes: number; from_cache: boolean; instructions: number
}
export interface PluginVersion {
  name: string; version: string; sha256: string; state: string; reason?: string; uses: string[]; size: number; created_at: string; created_by?: string
  manifest: { columns?: string[]; config_schema?: unknown; window?: { default?: number; max?: number } }; report: PluginReport
}
export interface PluginStats {
  batches: number; candidates: number; skipped: number; unwritten: number; fallbacks: number; ns_per_candidate: number; fuel_per_candidate: number
  faults: Record<string, number>; last_fault?: string; counters: Record<string, number>; cpu_share: number; memory_pages: number; instances: number; logs_dropped: number
  breaker: PluginBreaker; shadow?: { sha256: string; batches: number; dropped: number; faults: Record<string, number>; overlap: number; tau: number }
}
export interface PluginScores {
  sha256: string; version: string; config: unknown; uses: string[]; batches: number; faults: Record<string, number>; last_fault?: string
  windows: number; since_at?: string; last_at?: string; rows: number; skipped: number; taken: number; distribution: { from: number; to: number; count: number; taken: number }[]
}
export interface PluginLive {
  submissions: string[]; rows: number; skipped: number; histogram: { from: number; to: number; count: number }[]; picks: { row: number; score: number | null }[]
  gained: number[]; lost: number[]; active_gained?: number[]; active_lost?: number[]; active_overlap?: number; active_tau?: number
}
export interface PluginTried { report: PluginReport; live?: PluginLive; replay?: { rows: number; scored: boolean; identical: boolean; different: number } }
export interface PluginLogLine { number: number; time: string; version: string; sha256: string; level: string; text: string; node?: string }
export interface PluginLogs { lines: PluginLogLine[]; dropped: number; next: number; missing?: string[] }
export interface PluginRecording { id: string | number; time: string; version: string; rows: number; size: number; fault?: string }

export interface Attempt { ended_at: string; consumer?: string; held_ms: number; expired?: boolean; error?: string }
export interface DeadLetter {
  submission: string; index: number; submission_state: string; attempts: number; expiries: number; redrives: number
  died_at?: string; consumer?: string; error?: string; fingerprint: string; history?: Attempt[]; content?: { text: string } | { base64: string }
}
export interface DeadGroup { fingerprint: string; pattern: string; example: string; count: number; submissions: number; first_died_at?: string; last_died_at?: string }
export interface DeadGroups { items: DeadGroup[]; others: number }
export interface DeadFilter { submission?: string; fingerprint?: string; died_before?: string; died_after?: string; oldest?: number }
/** The chunks or submissions of a bulk operation; all given fields must match. */
export interface BulkFilter extends DeadFilter { states?: string[]; meta?: Meta; created_before?: string; created_after?: string }
export interface BulkOperation {
  id: string; queue: string; action: string; actor?: string; filter?: BulkFilter; to?: string; priority?: number; limit?: number; rate_per_second: number; dry_run: boolean; state: string
  created_at: string; finished_at?: string; matched: number; done: number; unchanged?: number; refused: number; failure?: string
  examined?: number; to_examine?: number; percent?: number; remaining_ms?: number; cancelled_by?: string
}

export interface Ledger { id: string; branch: string; key: string; cost: string; depth: number; places: number; active: number; owing: number; blocked: number }
export interface LedgerTenant { value?: MetaValue; around?: Tenant[]; state: string; weight: number; share: number; received: number; entitled: number; lag: number; lately?: { received: number; entitled: number } }
/** How many tenants have a lag above `from` and up to `to`; the first has no `from`, the last no `to`. */
export interface LagClass { from?: number; to?: number; tenants: number }
export interface LedgerTenants {
  ledger: Ledger; at: string; received: number; entitled: number; lag: number; most_behind: number; most_ahead: number; tenants: number; whole: boolean; items: LedgerTenant[]; sentence: string; lately_since?: string; lately?: { received: number; entitled: number }; lags: LagClass[]
}
export interface ChunkMap {
  chunks: number; from: number; to: number; each: number; every: number; ruling?: 'paused' | 'blocked'
  ready: number[]; waiting: number[]; reserved: number[]; done: number[]; dead: number[]; skipped: number[]
}

export interface Consumer {
  consumer: string; state: string; attached_since?: string; away_since?: string; lost_at?: string; last_seen_at?: string
  draining: boolean; quiet: boolean; reserved: number; oldest_reserved_at?: string; overdue: number
}
/** The consumers with the most overdue, then the most held chunks; and sums over all consumers that were counted. */
export interface ConsumersFrame { queue: string; at: string; consumers: number; attached: number; overdue: number; whole: boolean; top: Consumer[]; left: number }
export interface HeldReservation { submission: string; index: number; attempt: number; consumer: string; since: string; held_ms: number; deadline: string; overdue: boolean; finishing?: boolean; progress?: number; note?: string; meta: Meta }

export interface RuleMatch { queue?: boolean; meta?: Meta; any?: Record<string, MetaValue[]>; submission?: string }
export interface RuleRequest { action: string; match: RuleMatch; reason?: string; actor?: string; until?: string; effects?: { insert?: boolean; revoke?: boolean } }
export interface Rule extends RuleRequest { id: string; since: string; chunks?: number; ended_at?: string; end?: string; lifted_by?: string }

export interface ScheduleDefinition {
  spec: string; seconds?: boolean; tz?: string
  template: {
    meta?: Meta; priority?: number; chunks: { count?: number; prefix?: string; template?: string; inline?: unknown[] }; group?: string; attachment?: unknown; operations_per_chunk?: number
    dead_after_ms?: number; max_attempts?: number; on_exhausted?: string; max_failed_chunks?: number; timeout_ms?: number; retry_backoff?: Backoff
  }
  missed?: string; catchup_limit?: number; catchup_window_ms?: number; overlap?: string; jitter_ms?: number; start?: string | undefined; end?: string | undefined
  enabled?: boolean; pause_on_failure?: boolean; run_on_create?: boolean
}
/** A submission that a schedule inserted, and its state. */
export interface Emission { at: string; submission: string; state: string }
export interface Schedule {
  name: string; definition: ScheduleDefinition; description: string; state: string; reason?: string; next_at?: string; last_at?: string; last_submission?: string; waiting_at?: string
  emitted: number; skipped_missed: number; skipped_late: number; skipped_overlap: number; recent: Emission[]; version: number; etag: string; created_at: string; changed_at: string
}
/** The changing part of a schedule. */
export interface ScheduleNow {
  name: string; version: number; state: string; reason?: string; next_at?: string; last_at?: string; last_submission?: string; waiting_at?: string
  emitted: number; skipped_missed: number; skipped_late: number; skipped_overlap: number; open: number; newest?: string; newest_state?: string
}
export interface SchedulesFrame { queue: string; items: ScheduleNow[]; left: number }
export interface Backfilled { submissions: string[]; ticks: number; first_at?: string }
export interface SchedulePreview { description: string; tz: string; ticks: { at: string; local: string }[] }

export interface LifecycleKind {
  kind: string; pending: number; lag_seconds: number; done_total: number; stale_total: number; parked: number
  failures_total: number; failures_in_a_row: number; error?: string; last_success_at?: string
}
export interface ParkedAction { kind: string; submission?: string; index?: number; rule?: string; schedule?: string; error: string; since: string }
export interface Recount {
  every_ms: number; rounds_total: number; last_round_at?: string; progress: number; submissions_checked_total: number; values_checked_total: number
  queue_counters_checked_total: number; skipped_total: number; suspected_total: number; drifts_total: number; stopped: boolean
  newest_drift?: { scope: string; counter: string; submission?: string; meta_key?: string; value?: MetaValue; kept: number; recounted: number; corrected: boolean; at: string }
}
export interface Lifecycle {
  lag_seconds: number; degraded: boolean; restart_grace_until?: string; slices_total: number
  suspects: { shelved: number; lent: number; quota: number; slots: number }; kinds: LifecycleKind[]; parked: ParkedAction[]; recount?: Recount
}
export interface Readiness { ready: boolean; checks?: { name: string; ok: boolean; detail?: string }[] }

export interface Whoami {
  token_required: boolean; name?: string; id?: string; scopes: string[]; queues?: string[]; meta?: Meta; expires_at?: string
  session?: { ends_at: string; idle_seconds: number }
}
export interface Token {
  id: string; token?: string; name: string; scopes: string[]; queues?: string[]; meta?: Meta
  created_at: string; expires_at?: string; last_used_at?: string; previous_secret_until?: string
}
/** Something that someone changed, as it stood before and afterwards. */
export interface AuditEntry {
  at: string; actor: string; on_behalf_of?: string; from?: string; action: string; queue?: string; target?: string; before?: unknown; after?: unknown; request_id?: string; outcome: string
}

export interface RetryGroup { fingerprint: string; pattern: string; example?: string; submission: string; index: number; count: number; submissions: number; tries: { tries: number; count: number }[]; next_at?: string }
export interface RetryGroups { items: RetryGroup[]; others: number; examined: number }
