// The shapes of the HTTP interface that the pages read; /openapi.json is the source.

/** A whole number beyond 2^53 stays exact as a bigint. */
export type MetaValue = string | number | bigint
export type Meta = Record<string, MetaValue>

export interface Stats {
  ready: number; waiting: number; reserved: number; dead: number
  submissions_open: number; consumers_waiting: number; oldest_ready_seconds: number
  inserted_total: number; reserved_total: number; done_total: number; failed_total: number; expired_total: number; released_total: number
  journal_bytes: number; store_bytes: number; disk_full: number
}
export interface Rates { inserted: number; reserved: number; done: number; failed: number }
export interface StatsFrame { queue: string; at: string; stats: Stats; rates: Rates; empties_ms?: number }
export interface ValueCount {
  value: MetaValue; ready: number; in_flight: number; submissions: number
  limit: number | null; weight: number | null; saturated: boolean; etag?: string; changed_at?: string
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
export interface MetaKey { key: string; values: number; values_set: number }
export interface Submission {
  id: string; queue: string; state: string; chunks: number
  ready: number; waiting: number; reserved: number; done: number; dead: number; skipped?: number
  created_at: string; meta?: Meta; priority?: number; group?: string; prefix?: string; template?: string
  run_at?: string; dead_deadline?: string; finished_at?: string; max_attempts?: number; on_exhausted?: string; failure?: string
}
export interface Chunk { index: number; state: string; attempts: number; not_before?: string; consumer?: string; deadline?: string; error?: string }
export interface Tenant { key: string; value?: MetaValue; state: string; weight: number; share: number; lag: number; before?: number }
export interface WhyBranch {
  branch: number; path: string; obstacle: string; detail: string; until?: string; consumer?: string
  key?: string; value?: MetaValue; in_flight?: number; max?: number; hidden_by?: number; tenants?: Tenant[]
}
export interface Why {
  state: string; strategy: string; branches: WhyBranch[]
  standing?: { branch: number; ahead: number; among?: number; at_least: boolean; per_second: number; wait_ms?: number }
}
export interface Amount { submissions: number; chunks: number }
export interface Refused { key: string; value?: MetaValue; in_flight: number; max?: number; refused: Amount }
export interface Block { pointer: string; depth: number; block: string; text: string; entered: Amount; passed: Amount; refused: Amount; refused_values: number; top: Refused[] }
export interface Pick { submission: string; index: number; meta: Meta; priority: number; branch: number; path: string }
export interface Explained {
  strategy: string; submissions: number; examined: number; withheld: { refused: Amount; refused_values: number; top: Refused[] }
  tree: Block[]; picks: { pick: Pick }[]; seed: number
}
export interface Preview { strategy: string; picks: Pick[]; seed: number }
export interface Spread { strategy: string; picks: number; keys: { key: string; picks: number; distinct: number; max_share: number; jain: number }[] }
export interface Comparison { a: Spread; b: Spread; overlap: number; seed: number }
export interface Valid { strategy: string; branches: string[]; warnings: { kind: string; pointer: string; detail: string }[] }
export interface NamedStrategy { name: string; version: number; strategy: string; etag: string; created_at: string }
export interface Queue { name: string; created_at: string; settings: Record<string, unknown> }
