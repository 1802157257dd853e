//! A client of the [Quern](https://github.com/quern-queue/quern) queue server: insert work, process it in threads, collect the results.
//! It has no dependencies: HTTP and JSON are its own.
//!
//! ```no_run
//! use quern_client::{Client, NewSubmission};
//!
//! # fn main() -> Result<(), quern_client::Error> {
//! let client = Client::new("http://127.0.0.1:7700")?;
//! let submission = client.insert("default", &NewSubmission::inline(["ash", "beech", "cedar"]))?;
//! client.wait(&submission.id, None)?;
//! for output in client.outputs(&submission.id)? {
//!     println!("{}", String::from_utf8_lossy(&output?.data));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::work`] is the other side: it runs a handler for every chunk.
#![warn(missing_docs)]

mod address;
mod ahead;
mod base64;
mod call;
mod chunk;
mod client;
mod core;
mod error;
mod exchange;
mod http;
mod json;
mod kinds;
mod notice;
mod panics;
mod queue;
mod random;
mod scope;
mod shared;
mod signal;
mod stream;
mod submission;
mod worker;

pub use chunk::{Chunk, Failure, Returned};
pub use client::{Client, ClientOptions, Ended, Outputs};
pub use error::{Error, Refused};
pub use json::Json;
pub use kinds::{KindOptions, Kinds, META_KIND};
pub use submission::{NewSubmission, Output, Submission};
pub use worker::{Stop, WorkOptions};
