//! The guest SDK for Rust, for scoring plugins of Quern. No standard library in the sandbox, no dependencies, rustc 1.63 or
//! newer with the target wasm32-unknown-unknown.
//!
//! ```
//! use quern_plugin::{plugin, Batch, Plugin, Setup};
//!
//! pub struct DeadlineFirst;
//!
//! plugin! {
//!     DeadlineFirst,
//!     name: "deadline-first",
//!     version: "1.0.0",
//!     columns: {
//!         PRIORITY: i64 = "priority",
//!         DEADLINE: i64 = "meta_i64:deadline_ms",
//!     },
//! }
//!
//! impl Plugin for DeadlineFirst {
//!     fn init(_: &Setup) -> Result<Self, &'static str> {
//!         Ok(DeadlineFirst)
//!     }
//!
//!     fn score(&mut self, b: &Batch, scores: &mut [f64]) {
//!         let (priority, deadline, known) = (PRIORITY.of(b), DEADLINE.of(b), DEADLINE.valid(b));
//!         for (i, score) in scores.iter_mut().enumerate() {
//!             *score = priority[i] as f64;
//!             if known[i] {
//!                 *score += 1e6 / (deadline[i] - b.now()).max(1) as f64;
//!             }
//!         }
//!     }
//! }
//!
//! // The same scorer runs natively, over the bytes that the host would write.
//! use quern_plugin::testing::{Host, Rows};
//! let mut host = Host::<DeadlineFirst>::new("{}").unwrap();
//! let rows = Rows::new(2).i64("priority", &[1, 2]).i64("meta_i64:deadline_ms", &[10, 0]).absent("meta_i64:deadline_ms", &[1]);
//! assert_eq!(host.score(&rows).unwrap(), [100_001.0, 2.0]);
//! ```
//!
//! The crate of a plugin has `#![cfg_attr(target_arch = "wasm32", no_std)]`, `crate-type = ["cdylib", "rlib"]` and the link
//! argument `-zstack-size=16384` (the default of 1 MiB makes every instance 16 times as large). [`plugin!`] writes the exports
//! and puts the manifest into the module, so that what cargo builds can be uploaded as it is.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

mod abi;
mod batch;
mod config;
mod host;
mod macros;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

#[doc(hidden)]
pub use abi::{column_is, declared, Type};
pub use batch::{Batch, ContextI64, ContextStr, I64Column, StrColumn, U32Column};
pub use config::Value;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub use host::alloc;
pub use host::{log, log_enabled, Counter, Level, Setup};

/// A plugin: the state that it keeps between batches, and its scoring. [`plugin!`] declares the rest.
pub trait Plugin: Sized {
    /// Makes an instance's state from the configuration, once, before any batch. An error refuses the configuration, and
    /// people see its text.
    fn init(setup: &Setup) -> Result<Self, &'static str>;

    /// Writes one score per candidate: larger goes first, NaN ([`SKIP`]) passes the candidate over. A candidate without a
    /// score is passed over too, and counted. A panic is a fault: the instance is gone and the next branch of the strategy
    /// decides.
    fn score(&mut self, batch: &Batch, scores: &mut [f64]);
}

/// The score of a candidate that is to be passed over in this window.
pub const SKIP: f64 = f64::NAN;

/// The declarations that [`plugin!`] makes for a plugin.
pub trait Declared: Plugin {
    /// The manifest, as JSON.
    const MANIFEST: &'static str;
    /// The columns, those of the context last, as they lie in a batch.
    const COLUMNS: &'static [(&'static str, Type)];
    /// The names of the counters.
    const COUNTERS: &'static [&'static str];
}
