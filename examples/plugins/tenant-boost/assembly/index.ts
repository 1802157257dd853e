// Tenant-boost: the order follows what was agreed with each tenant. A boost moves a tenant's work up or down; a promise raises it
// the closer the waiting comes to what was promised; and who has much in flight already leaves room for the others.

import { Batch, Counter, I64Column, StrColumn, U32Column, Value, intern } from "quern-plugin/quern";
export { quern_abi_1, quern_alloc } from "quern-plugin/quern";

const priority = new I64Column("priority");
const age = new I64Column("age_ms");
const tenant = new StrColumn("meta_str:tenant");
const inflight = new U32Column("inflight:tenant");
const late = new Counter("late_rows");

let latePoints: f64 = 1000;
let crowdPoints: f64 = 1;

// The rules by tenant's id. Ids that intern gives are small: it begins at 1, and there are 4,096 at most.
let boosts = new StaticArray<f64>(0);
let promises = new StaticArray<f64>(0);

export function quern_init(at: usize, size: usize): i32 {
  const config = Value.over(at, size);
  latePoints = config.get("late").number(1000);
  crowdPoints = config.get("crowd").number(1);
  boosts = byTenant(config.get("boost"));
  promises = byTenant(config.get("promise_ms"));
  return 0;
}

/** One number per tenant's id, 0 for tenants without. */
function byTenant(rules: Value): StaticArray<f64> {
  const names = rules.keys();
  const values = rules.values();
  const ids = new Array<u32>();
  let highest: u32 = 0;
  for (let i = 0; i < names.length; i++) {
    ids.push(intern(names[i]));
    highest = max(highest, ids[i]);
  }
  const table = new StaticArray<f64>(highest + 1);
  for (let i = 0; i < names.length; i++) table[ids[i]] = values[i].number(0);
  table[0] = 0; // no tenant, or a full dictionary
  return table;
}

export function quern_score(b: Batch): i32 {
  const p = priority.of(b), waited = age.of(b), who = tenant.of(b), busy = inflight.of(b), scores = b.scores;
  let lateRows: u32 = 0;
  for (let i: u32 = 0; i < b.rows; i++) {
    const id = who[i];
    let s = <f64>p[i] - crowdPoints * <f64>busy[i];
    if (id < <u32>boosts.length) s += unchecked(boosts[id]);
    if (id < <u32>promises.length) {
      const promise = unchecked(promises[id]);
      if (promise > 0) {
        const part = <f64>waited[i] / promise;
        s += latePoints * part * part; // slowly at first, fully when the promise is due, and on
        if (part > 1) lateRows++;
      }
    }
    scores[i] = s;
  }
  if (lateRows) late.add(lateRows);
  return 0;
}
