//! Warm-model: a consumer that has a model loaded gets work for that model first. Loading another costs time, so work for
//! other models waits until it is old enough to be worth the change, and long work is worth it sooner than short work.
#![cfg_attr(target_arch = "wasm32", no_std)]

use quern_plugin::{plugin, Batch, Plugin, Setup};

/// What the configuration says, in milliseconds.
pub struct WarmModel {
    load_ms: f64,
    patience: f64,
}

plugin! {
    WarmModel,
    name: "warm-model",
    version: "1.0.0",
    license: "Apache-2.0",
    columns: {
        PRIORITY: i64 = "priority",
        AGE: i64 = "age_ms",
        ATTEMPTS: u32 = "attempts",
        AVAILABLE: u32 = "available",
        ALREADY: u32 = "inflight:model",
        COST: i64 = "meta_i64:cost_ms",
        MODEL: str = "meta_str:model",
        LIMIT: i64 = "limit:model",
    },
    context: {
        WARM: str = "warm_model",
    },
    counters: {
        WARM_ROWS = "warm_rows",
        COLD_ROWS = "cold_rows",
    },
    config_schema: r#"{"type":"object","properties":{
        "load_ms":{"type":"number","minimum":0,"default":20000,"description":"what loading another model costs"},
        "patience":{"type":"number","minimum":0,"default":0.5,"description":"milliseconds of loading that one millisecond of waiting is worth"}
    },"additionalProperties":false}"#,
    take: "all",
}

impl Plugin for WarmModel {
    fn init(setup: &Setup) -> Result<Self, &'static str> {
        let config = setup.config();
        let number = |key, fallback| config.get(key).and_then(|v| v.number()).unwrap_or(fallback);
        Ok(WarmModel { load_ms: number("load_ms", 20_000.0), patience: number("patience", 0.5) })
    }

    /// The score is minus what serving the candidate costs in milliseconds: loading, shared by all the chunks that follow it,
    /// less what its waiting, its priority and its failed attempts are worth.
    fn score(&mut self, b: &Batch, scores: &mut [f64]) {
        let (priority, age, attempts, available) = (PRIORITY.of(b), AGE.of(b), ATTEMPTS.of(b), AVAILABLE.of(b));
        let (already, cost, model, limit) = (ALREADY.of(b), COST.of(b), MODEL.of(b), LIMIT.of(b));
        let warm = WARM.of(b);
        let mut warm_rows = 0;
        for (i, score) in scores.iter_mut().enumerate() {
            let mut s = age[i] as f64 * self.patience + priority[i] as f64 * 1000.0 - f64::from(attempts[i]) * 100.0;
            if model[i] == warm || model[i] == 0 {
                warm_rows += 1; // work that names no model needs none
            } else {
                // A long run of the new model pays for its loading; so does a model that others are at already, less.
                let run = f64::from(available[i]) * cost[i].max(1) as f64;
                s -= self.load_ms * self.load_ms / (self.load_ms + run + 1.0);
                s -= f64::from(already[i]);
            }
            // A model that has nearly used up its limit is left to the consumers that already have it.
            if limit[i] >= 0 && i64::from(already[i]) + 1 >= limit[i] && model[i] != warm {
                s -= self.load_ms;
            }
            *score = s;
        }
        if warm_rows > 0 {
            WARM_ROWS.add(f64::from(warm_rows));
        }
        if b.rows() as u32 > warm_rows {
            COLD_ROWS.add(f64::from(b.rows() as u32 - warm_rows));
        }
    }
}
