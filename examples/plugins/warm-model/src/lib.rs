//! Warm-model: a consumer that has a model loaded gets work for that model first. Loading another costs time, so work for
//! other models waits until it is old enough to be worth the change, and long work is worth it sooner than short work.
#![cfg_attr(target_arch = "wasm32", no_std)]

use quern_plugin::{plugin, Batch, Plugin, Setup};

/// The values of the configuration, in milliseconds.
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
                // A long run pays for its loading. Consumers that have the model already will get to it without us.
                let run = f64::from(available[i]) * cost[i].max(1) as f64;
                s -= self.load_ms * self.load_ms / (self.load_ms + run + 1.0) + f64::from(already[i]) * 100.0;
            }
            // The last place under a limit is not worth a loading: the next reservation would have to load again.
            if limit[i] >= 0 && i64::from(already[i]) + 1 >= limit[i] {
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

#[cfg(test)]
mod tests {
    use super::WarmModel;
    use quern_plugin::testing::{Host, Rows};

    fn rows() -> Rows {
        Rows::new(3)
            .i64("priority", &[0, 0, 0])
            .i64("age_ms", &[1000, 2000, 60_000])
            .u32("attempts", &[0, 0, 0])
            .u32("available", &[1, 1, 1])
            .u32("inflight:model", &[0, 0, 0])
            .i64("meta_i64:cost_ms", &[10, 10, 10])
            .str("meta_str:model", &["llama", "mistral", "mistral"])
            .i64("limit:model", &[-1, -1, -1])
    }

    fn best(scores: &[f64]) -> usize {
        (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
    }

    /// Work for the warm model goes before older work, until that has waited for long enough.
    #[test]
    fn warm_first_until_the_other_is_old() {
        let mut host = Host::<WarmModel>::new("{}").unwrap();
        let scores = host.score(&rows().context_str("warm_model", "llama")).unwrap();
        assert!(scores[0] > scores[1] && best(&scores) == 2, "{:?}", scores);
        assert_eq!((host.counted("warm_rows"), host.counted("cold_rows")), (1.0, 2.0));
    }

    /// A consumer with another model, or with none, gives no preference.
    #[test]
    fn without_a_warm_model_age_decides() {
        let mut host = Host::<WarmModel>::new(r#"{"load_ms":1e6,"patience":1}"#).unwrap();
        let scores = host.score(&rows()).unwrap();
        assert!(scores[0] < scores[1] && scores[1] < scores[2], "{:?}", scores);
    }

    /// Work that names no model needs none.
    #[test]
    fn no_model_is_never_cold() {
        let mut host = Host::<WarmModel>::new("{}").unwrap();
        let scores = host.score(&rows().absent("meta_str:model", &[1]).context_str("warm_model", "llama")).unwrap();
        assert_eq!(scores[1], 1000.0);
    }
}
