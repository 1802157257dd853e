//! Runs a plugin natively, in `cargo test`: [`Rows`] builds a batch, [`Host`] lays it out as the real host does and keeps the
//! dictionary, the log and the counters. Each thread has its own host, so that tests run side by side.

use crate::abi::{self, Type};
use crate::host::{Level, Setup};
use crate::{Batch, Declared};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::format;
use std::marker::PhantomData;
use std::string::{String, ToString};
use std::vec::Vec;

/// The bits of the NaN that stands in every score before the plugin runs.
const NOT_WRITTEN: u64 = 0x7ff8_0000_314e_5251;

#[derive(Default)]
struct World {
    words: Vec<Vec<u8>>,
    log: Vec<(Level, String)>,
    counters: Vec<f64>,
}

std::thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

fn world<T>(use_it: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with(|w| use_it(&mut w.borrow_mut()))
}

pub(crate) fn log(level: Level, text: &[u8]) {
    world(|w| w.log.push((level, String::from_utf8_lossy(text).into_owned())))
}

pub(crate) fn log_enabled(_: Level) -> bool {
    true
}

pub(crate) fn metric_add(id: u32, v: f64) {
    world(|w| {
        if let Some(sum) = w.counters.get_mut(id as usize).filter(|_| v >= 0.0 && v.is_finite()) {
            *sum += v;
        }
    })
}

pub(crate) fn intern(column: u32, text: &[u8]) -> u32 {
    if column == u32::MAX || text.len() > 1024 {
        return 0;
    }
    world(|w| w.id(text))
}

pub(crate) fn str(id: u32, buf: &mut [u8]) -> i32 {
    world(|w| match (id as usize).checked_sub(1).and_then(|i| w.words.get(i)) {
        None => -1,
        Some(word) => {
            let n = word.len().min(buf.len());
            buf[..n].copy_from_slice(&word[..n]);
            word.len() as i32
        }
    })
}

impl World {
    fn id(&mut self, text: &[u8]) -> u32 {
        if let Some(i) = self.words.iter().position(|w| w == text) {
            return i as u32 + 1;
        }
        self.words.push(text.to_vec());
        self.words.len() as u32
    }
}

#[derive(Clone)]
enum Values {
    I64(Vec<i64>),
    U32(Vec<u32>),
    Str(Vec<String>),
}

/// A batch under construction. Its columns must be those that the plugin declares; context keys that are not set are
/// absent.
#[derive(Clone)]
pub struct Rows {
    rows: usize,
    now: i64,
    seed: u64,
    want: u32,
    flags: u32,
    columns: BTreeMap<String, Values>,
    absent: BTreeMap<String, Vec<usize>>,
}

impl Rows {
    /// A batch of n candidates at time 0 with seed 0, of which one is wanted.
    pub fn new(n: usize) -> Rows {
        Rows { rows: n, now: 0, seed: 0, want: 1, flags: 0, columns: BTreeMap::new(), absent: BTreeMap::new() }
    }

    /// Sets a column; it needs one value per candidate.
    pub fn i64(self, name: &str, values: &[i64]) -> Rows {
        self.set(name, Values::I64(values.to_vec()))
    }

    /// Sets a column; it needs one value per candidate.
    pub fn u32(self, name: &str, values: &[u32]) -> Rows {
        self.set(name, Values::U32(values.to_vec()))
    }

    /// Sets a column; it needs one string per candidate.
    pub fn str(self, name: &str, values: &[&str]) -> Rows {
        self.set(name, Values::Str(values.iter().map(|s| s.to_string()).collect()))
    }

    /// Marks candidates as lacking the value of a meta column; the column's values there do not count.
    pub fn absent(mut self, name: &str, candidates: &[usize]) -> Rows {
        self.absent.insert(name.to_string(), candidates.to_vec());
        self
    }

    /// Lets the reservation carry a number.
    pub fn context_i64(self, key: &str, value: i64) -> Rows {
        self.set(&format!("context.{}", key), Values::I64([value].to_vec()))
    }

    /// Lets the reservation carry a string.
    pub fn context_str(self, key: &str, value: &str) -> Rows {
        self.set(&format!("context.{}", key), Values::Str([value.to_string()].to_vec()))
    }

    /// Sets the batch's time, milliseconds since 1970.
    pub fn at(mut self, now: i64) -> Rows {
        self.now = now;
        self
    }

    /// Sets the batch's seed.
    pub fn seeded(mut self, seed: u64) -> Rows {
        self.seed = seed;
        self
    }

    /// Sets how many chunks will be taken.
    pub fn wanting(mut self, n: u32) -> Rows {
        self.want = n;
        self
    }

    /// Says that the scores are not acted on, or that they are only compared.
    pub fn only(mut self, dry_run: bool, shadow: bool) -> Rows {
        self.flags = dry_run as u32 * abi::FLAG_DRY_RUN + shadow as u32 * abi::FLAG_SHADOW;
        self
    }

    fn set(mut self, name: &str, values: Values) -> Rows {
        self.columns.insert(name.to_string(), values);
        self
    }

    fn column(&self, name: &str, t: Type, w: &mut World) -> Result<(Vec<u64>, Vec<bool>), String> {
        let single = name.starts_with("context.");
        let rows = if single { 1 } else { self.rows };
        let values: Vec<u64> = match (self.columns.get(name), t) {
            (None, _) if single => return Ok(([0].to_vec(), [false].to_vec())),
            (None, _) => return Err(format!("the batch lacks the column {}", name)),
            (Some(Values::I64(v)), Type::i64) => v.iter().map(|v| *v as u64).collect(),
            (Some(Values::U32(v)), Type::u32) => v.iter().map(|v| u64::from(*v)).collect(),
            (Some(Values::Str(v)), Type::str) => v.iter().map(|v| u64::from(w.id(v.as_bytes()))).collect(),
            _ => return Err(format!("the column {} is of the type {:?}; the batch gives another", name, t)),
        };
        if values.len() != rows {
            return Err(format!("the column {} has {} values, want {}", name, values.len(), rows));
        }
        let absent = self.absent.get(name).map_or(&[][..], |a| a);
        if absent.iter().any(|i| *i >= rows) || !absent.is_empty() && !nullable(name) {
            return Err(format!("of the column {} candidates are absent that cannot be: {:?}", name, absent));
        }
        let valid: Vec<bool> = (0..rows).map(|i| !absent.contains(&i)).collect();
        Ok((values.iter().zip(&valid).map(|(v, ok)| if *ok { *v } else { 0 }).collect(), valid))
    }
}

fn nullable(name: &str) -> bool {
    name.starts_with("meta_") || name.starts_with("context.")
}

/// An instance of a plugin in this process.
pub struct Host<P> {
    plugin: P,
    declared: PhantomData<P>,
}

impl<P: Declared> Host<P> {
    /// Makes an instance with a configuration in canonical form (no spaces; "{}" for none), or says why the plugin refuses it.
    /// It forgets what earlier hosts of this thread counted, logged and interned.
    pub fn new(config: &str) -> Result<Host<P>, &'static str> {
        world(|w| *w = World { counters: P::COUNTERS.iter().map(|_| 0.0).collect(), ..World::default() });
        let plugin = P::init(&Setup::new(config.as_bytes(), P::COLUMNS))?;
        Ok(Host { plugin, declared: PhantomData })
    }

    /// Scores a batch: one score per candidate, NaN for those that are passed over or left unwritten. It fails as the host
    /// would: when the batch does not have the declared columns, or nothing was written at all.
    pub fn score(&mut self, rows: &Rows) -> Result<Vec<f64>, String> {
        if let Some(name) = rows.columns.keys().find(|name| P::COLUMNS.iter().all(|(c, _)| c != name)) {
            return Err(format!("the batch has the column {}, which the plugin does not declare: it would not get it", name));
        }
        let mut region = world(|w| lay_out(rows, P::COLUMNS, w))?;
        let (batch, scores) = unsafe { Batch::over(region.as_mut_ptr() as *mut u8) };
        self.plugin.score(&batch, scores);
        if rows.rows > 0 && scores.iter().all(|s| s.to_bits() == NOT_WRITTEN) {
            return Err("no score was written at all; the host takes that for a fault".to_string());
        }
        Ok(scores.to_vec())
    }

    /// The sum that the plugin added to a counter.
    pub fn counted(&self, name: &str) -> f64 {
        let i = P::COUNTERS.iter().position(|c| *c == name).expect("a counter of the plugin");
        world(|w| w.counters[i])
    }

    /// The lines that the plugin logged so far.
    pub fn logged(&self) -> Vec<(Level, String)> {
        world(|w| w.log.clone())
    }
}

/// The bytes of the region, as the host lays them out: header, descriptors, columns with their validity, scores.
fn lay_out(rows: &Rows, columns: &[(&str, Type)], w: &mut World) -> Result<Vec<u128>, String> {
    let mut bytes: Vec<u8> = Vec::new();
    let align = |bytes: &mut Vec<u8>| bytes.resize((bytes.len() + 15) & !15, 0);
    bytes.resize(64 + columns.len() * abi::DESCRIPTOR_SIZE, 0);
    for (i, (name, t)) in columns.iter().enumerate() {
        let (values, valid) = rows.column(name, *t, w)?;
        align(&mut bytes);
        let (at, mut validity) = (bytes.len() as u32, 0);
        for v in values {
            match t {
                Type::i64 => bytes.extend(v.to_le_bytes()),
                Type::u32 | Type::str => bytes.extend((v as u32).to_le_bytes()),
            }
        }
        align(&mut bytes);
        let mut flags = 0;
        if nullable(name) {
            validity = bytes.len() as u32;
            bytes.extend(valid.iter().map(|v| *v as u8));
            flags |= abi::FLAG_NULLABLE;
        }
        if name.starts_with("context.") {
            flags |= abi::FLAG_SINGLE;
        }
        for (k, word) in [at, *t as u32 | flags << 16, validity, 0].iter().enumerate() {
            let from = 64 + i * abi::DESCRIPTOR_SIZE + k * 4;
            bytes[from..from + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
    align(&mut bytes);
    let scores = bytes.len() as u32;
    bytes.extend((0..rows.rows).flat_map(|_| NOT_WRITTEN.to_le_bytes()));
    align(&mut bytes);
    let n = rows.rows as u32;
    for (at, word) in [(0, 0x314e_5251), (4, 64), (abi::ROWS, n), (12, columns.len() as u32), (abi::DESCRIPTORS, 64), (abi::SCORES, scores), (abi::WANT, rows.want), (abi::FLAGS, rows.flags), (48, n)] {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes[abi::NOW..abi::NOW + 8].copy_from_slice(&rows.now.to_le_bytes());
    bytes[abi::SEED..abi::SEED + 8].copy_from_slice(&rows.seed.to_le_bytes());
    Ok(bytes.chunks(16).map(|c| u128::from_le_bytes(c.try_into().expect("16 bytes"))).collect())
}
