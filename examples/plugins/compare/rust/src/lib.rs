//! The comparison's scorer in Rust: the same arithmetic as in ../go, ../c and ../assemblyscript.
#![cfg_attr(target_arch = "wasm32", no_std)]

use quern_plugin::{plugin, Batch, Plugin, Setup};

/// It keeps nothing.
pub struct Compare;

plugin! {
    Compare,
    name: "compare-rust",
    version: "1.0.0",
    license: "Apache-2.0",
    columns: {
        PRIORITY: i64 = "priority",
        AGE: i64 = "age_ms",
        ATTEMPTS: u32 = "attempts",
        AVAILABLE: u32 = "available",
        INFLIGHT: u32 = "inflight:tenant",
        COST: i64 = "meta_i64:cost_ms",
        MODEL: str = "meta_str:model",
        LIMIT: i64 = "limit:tenant",
    },
    context: { WARM: str = "warm_model" },
}

impl Plugin for Compare {
    fn init(_: &Setup) -> Result<Self, &'static str> {
        Ok(Compare)
    }

    fn score(&mut self, b: &Batch, scores: &mut [f64]) {
        let (p, a, at, re, inf) = (PRIORITY.of(b), AGE.of(b), ATTEMPTS.of(b), AVAILABLE.of(b), INFLIGHT.of(b));
        let (co, m, li, w) = (COST.of(b), MODEL.of(b), LIMIT.of(b), WARM.of(b));
        for (i, score) in scores.iter_mut().enumerate() {
            let busy = f64::from(inf[i]);
            let mut s = p[i] as f64 * 10.0 + a[i] as f64 * 0.001 - f64::from(at[i]) * 5.0 + 1000.0 / (1.0 + f64::from(re[i])) - 0.5 * busy * busy + co[i] as f64 * 0.25;
            if m[i] == w {
                s *= 2.0;
            }
            if li[i] == 0 {
                s -= 1e6;
            }
            *score = s;
        }
    }
}
