//! A plugin with one of everything, run natively over the bytes that the host would write.

use quern_plugin::testing::{Host, Rows};
use quern_plugin::{log, log_enabled, plugin, Batch, Declared, Level, Plugin, Setup, Type, SKIP};

pub struct Boost {
    vip: u32,
    bonus: f64,
}

plugin! {
    Boost,
    name: "boost",
    version: "1.0.0-rc.1",
    license: "MIT",
    columns: {
        PRIORITY: i64 = "priority",
        ATTEMPTS: u32 = "attempts",
        TENANT: str = "meta_str:tenant",
    },
    context: {
        WARM: str = "warm",
        ZONE: i64 = "zone",
    },
    counters: { SEEN = "seen" },
    config_schema: r#"{"type":"object","properties":{"refuse":{"type":"boolean"},"bonuses":{"type":"object","additionalProperties":{"type":"number"}}}}"#,
    state: "reset",
    take: "spread",
    window: (64, 128),
    needs: (32, 500),
}

impl Plugin for Boost {
    fn init(setup: &Setup) -> Result<Self, &'static str> {
        if setup.config().get("refuse").and_then(|v| v.truth()) == Some(true) {
            return Err("told to refuse");
        }
        let mut boost = Boost { vip: 0, bonus: 100.0 };
        for (tenant, bonus) in setup.config().get("bonuses").iter().flat_map(|v| v.entries()) {
            boost.vip = setup.intern(tenant.text(&mut [0; 64]).ok_or("a tenant's name is too long")?);
            boost.bonus = bonus.number().ok_or("a bonus must be a number")?;
        }
        Ok(boost)
    }

    fn score(&mut self, b: &Batch, scores: &mut [f64]) {
        for (i, score) in scores.iter_mut().enumerate() {
            let tenant = TENANT.of(b)[i];
            *score = PRIORITY.of(b)[i] as f64 - f64::from(ATTEMPTS.of(b)[i]) + ZONE.of(b).unwrap_or(0) as f64;
            if !TENANT.valid(b)[i] {
                *score = SKIP;
                continue;
            }
            if tenant == self.vip {
                *score += self.bonus;
            } else if tenant == WARM.of(b) {
                *score += 10.0;
            }
            SEEN.add(1.0);
            SEEN.add(f64::NAN);
        }
        if log_enabled(Level::Info) {
            let mut buf = [0; 8];
            log(Level::Info, std::str::from_utf8(b.text(self.vip, &mut buf).unwrap_or(b"no text")).unwrap());
        }
        assert!(PRIORITY.valid(b).is_empty());
        assert_eq!((b.rows(), b.now(), b.seed(), b.want(), b.dry_run(), b.shadow()), (4, 7, 8, 9, false, true));
    }
}

fn rows() -> Rows {
    Rows::new(4)
        .i64("priority", &[1, 2, 3, -4])
        .u32("attempts", &[0, 1, 0, 0])
        .str("meta_str:tenant", &["acme", "other", "third", "acme"])
        .absent("meta_str:tenant", &[3])
        .at(7)
        .seeded(8)
        .wanting(9)
        .only(false, true)
}

/// Columns, absent values, the context, interned strings, counters and the log arrive as they should.
#[test]
fn scores() {
    let mut host = Host::<Boost>::new(r#"{"bonuses":{"acme":1e2}}"#).unwrap();
    let got = host.score(&rows()).unwrap();
    assert_eq!(got[..3], [101.0, 1.0, 3.0]);
    assert!(got[3].is_nan());
    let got = host.score(&rows().context_str("warm", "third").context_i64("zone", -1000)).unwrap();
    assert_eq!(got[..3], [-899.0, -999.0, -987.0]);
    assert_eq!(host.counted("seen"), 6.0);
    assert_eq!(host.logged(), [(Level::Info, "acme".to_string()), (Level::Info, "acme".to_string())]);
}

/// The manifest says what was declared, as JSON without a trailing comma.
#[test]
fn manifest() {
    let want = r#"{"name":"boost","version":"1.0.0-rc.1","abi":1,"license":"MIT","columns":["priority","attempts","meta_str:tenant" ],"context":[{"key":"warm","type":"str"},{"key":"zone","type":"i64"} ],"counters":["seen" ],"config_schema":{"type":"object","properties":{"refuse":{"type":"boolean"},"bonuses":{"type":"object","additionalProperties":{"type":"number"}}}},"state":"reset","take":"spread","window":{"default":64,"max":128},"needs":{"pages":32,"fuel_per_candidate":500} }"#;
    assert_eq!(Boost::MANIFEST.trim_end(), want);
    assert_eq!(Boost::COLUMNS[3], ("context.warm", Type::str));
}

/// Batches and configurations that the host would never let through fail.
#[test]
fn refuses() {
    assert_eq!(Host::<Boost>::new(r#"{"refuse":true}"#).err(), Some("told to refuse"));
    let mut host = Host::<Boost>::new("{}").unwrap();
    for (want, rows) in [
        ("lacks the column attempts", Rows::new(1).i64("priority", &[1])),
        ("has 3 values", rows().i64("priority", &[1, 2, 3])),
        ("is of the type i64", rows().u32("priority", &[1, 2, 3, 4])),
        ("does not declare", rows().i64("age_ms", &[1, 2, 3, 4])),
        ("absent that cannot be", rows().absent("meta_str:tenant", &[4])),
        ("absent that cannot be", rows().absent("attempts", &[0])),
    ] {
        let got = host.score(&rows).unwrap_err();
        assert!(got.contains(want), "got {:?}, want something with {:?}", got, want);
    }
}

/// A configuration's strings come out with their escapes resolved, and nothing that is not there is made up.
#[test]
fn configuration() {
    let json = r#"{"a":-1.5e3,"b":true,"c":{"d":{"e":"x,}\"\\\u00e9\ud83d\ude00\n"},"f":12},"g":[1,[2]],"h":""}"#;
    let v = Setup::new(json.as_bytes(), &[]).config();
    assert_eq!(v.entries().count(), 5);
    assert_eq!(v.get("a").unwrap().number(), Some(-1500.0));
    assert_eq!(v.get("a").unwrap().whole(), None);
    assert_eq!(v.get("b").unwrap().truth(), Some(true));
    let c = v.get("c").unwrap();
    assert_eq!(c.get("f").unwrap().whole(), Some(12));
    assert_eq!(c.get("d").unwrap().get("e").unwrap().text(&mut [0; 64]), Some("x,}\"\\é😀\n"));
    assert_eq!(c.get("d").unwrap().get("e").unwrap().text(&mut [0; 8]), None);
    assert_eq!(v.get("h").unwrap().text(&mut []), Some(""));
    assert!(v.get("d").is_none() && c.get("f").unwrap().text(&mut [0; 8]).is_none() && v.get("h").unwrap().get("x").is_none());
    assert_eq!(Setup::new(b"{}", &[]).config().entries().count(), 0);
    assert_eq!(Setup::new(b"{}", &[]).intern("x"), 0);
}
