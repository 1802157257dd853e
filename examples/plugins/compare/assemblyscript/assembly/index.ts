// The comparison's scorer in AssemblyScript: the same arithmetic as in ../go, ../rust and ../c.

import { Batch, ContextStr, I64Column, StrColumn, U32Column } from "quern-plugin/quern";
export { quern_abi_1, quern_alloc } from "quern-plugin/quern";

const priority = new I64Column("priority");
const age = new I64Column("age_ms");
const attempts = new U32Column("attempts");
const available = new U32Column("available");
const inflight = new U32Column("inflight:tenant");
const cost = new I64Column("meta_i64:cost_ms");
const model = new StrColumn("meta_str:model");
const limit = new I64Column("limit:tenant");
const warm = new ContextStr("warm_model");

export function quern_score(b: Batch): i32 {
  const p = priority.of(b), a = age.of(b), at = attempts.of(b), re = available.of(b), inf = inflight.of(b);
  const co = cost.of(b), m = model.of(b), li = limit.of(b), w = warm.of(b), scores = b.scores, rows = b.rows;
  for (let i: u32 = 0; i < rows; i++) {
    const busy = <f64>inf[i];
    let s = <f64>p[i] * 10 + <f64>a[i] * 0.001 - <f64>at[i] * 5 + 1000 / (1 + <f64>re[i]) - 0.5 * busy * busy + <f64>co[i] * 0.25;
    if (m[i] == w) s *= 2;
    if (li[i] == 0) s -= 1e6;
    scores[i] = s;
  }
  return 0;
}
