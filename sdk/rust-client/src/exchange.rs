//! The results that a worker reports, and the calls that carry them.

use crate::chunk::{cut, Chunk, Returned};
use crate::error::Refused;
use crate::json::Json;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAX_ERROR_BYTES: usize = 1000; // of an error that the server keeps
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 24 * 3600); // that the server gives a chunk

/// Why a result does not count.
#[derive(Clone)]
pub(crate) struct Lost {
    pub(crate) status: String,
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl Lost {
    pub(crate) fn of(result: &Json) -> Lost {
        let text = |name| result.get(name).text().to_string();
        Lost { status: text("status"), code: text("code"), detail: text("detail") }
    }

    pub(crate) fn invalid(code: &str, detail: String) -> Lost {
        Lost { status: "invalid".to_string(), code: code.to_string(), detail }
    }

    /// The result of a reservation that the server took back for this reason.
    pub(crate) fn taken(reason: &str) -> Lost {
        let (status, code, detail) = match reason {
            "submission_ended" => {
                ("gone", reason, "the submission ended (cancelled or failed), or the chunk is out of attempts".to_string())
            }
            _ => ("lost", "revoked", format!("the reservation was taken: {reason}")),
        };
        Lost { status: status.to_string(), code: code.to_string(), detail }
    }
}

/// A result that is to be reported.
pub(crate) struct Report {
    pub(crate) chunk: Arc<Chunk>,
    /// as JSON
    pub(crate) item: String,
    pub(crate) failed: bool,
    /// the server did not take what the handler returned, and the failure says so
    pub(crate) refused: bool,
    /// submissions that it inserts
    pub(crate) inserts: usize,
    /// of a failure
    error: String,
}

impl Report {
    pub(crate) fn completion(chunk: Arc<Chunk>, returned: Returned) -> Report {
        let mut item = format!("{{\"token\":{}", Json::from(&*chunk.token));
        if let Some(output) = returned.0 {
            item += &format!(",\"output\":{}", Json::bytes(&output));
        }
        let then = std::mem::take(&mut chunk.state().then);
        if !then.is_empty() {
            item += &format!(",\"insert\":[{}]", then.join(","));
        }
        item.push('}');
        Report { chunk, item, failed: false, refused: false, inserts: then.len(), error: String::new() }
    }

    pub(crate) fn failure(chunk: Arc<Chunk>, text: &str, fatal: bool, pause: Option<Duration>) -> Report {
        let error = cut(text, MAX_ERROR_BYTES).to_string();
        let mut item = Json::object([("token", (&*chunk.token).into()), ("error", (&*error).into())]);
        if fatal {
            item.set("fatal", true);
        }
        if let Some(pause) = pause {
            item.set("retry_after_ms", milliseconds(pause));
        }
        Report { chunk, item: item.to_string(), failed: true, refused: false, inserts: 0, error }
    }

    /// Turns a result that the server does not take into a failure for good.
    pub(crate) fn refuse(&mut self, mut reason: String) {
        if self.failed {
            reason += &format!("; the handler's error was: {}", self.error);
        }
        *self = Report { refused: true, ..Report::failure(self.chunk.clone(), &reason, true, None) };
    }

    /// Turns a completion into a failure, because the server has no room for the submissions that follow it.
    pub(crate) fn retry(&mut self, reason: &str) {
        *self = Report::failure(self.chunk.clone(), reason, false, None);
    }
}

/// A time in whole milliseconds, rounded up, and not longer than the server takes.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    (time.min(LONGEST_PAUSE).as_nanos() as i64 + 999_999) / 1_000_000
}

/// A chunk that goes back.
pub(crate) struct Release {
    pub(crate) token: String,
    pub(crate) delay: Duration,
}

/// One round trip that reports, extends, gives back and reserves.
pub(crate) struct Exchange {
    pub(crate) reports: Vec<Report>,
    pub(crate) extends: Vec<Arc<Chunk>>,
    pub(crate) releases: Vec<Release>,
    /// chunks that it may bring
    pub(crate) asked: usize,
    /// of the stream before it began
    pub(crate) hellos: u64,
    /// calls in a row that failed before it
    pub(crate) failures: u32,
    pub(crate) began: Instant,
    /// bytes of the answer
    pub(crate) size: usize,
}

/// An item of a call that a refusal points at, by its index.
#[derive(PartialEq)]
pub(crate) enum Item {
    Report(usize),
    Extend(usize),
    Release(usize),
}

impl Exchange {
    pub(crate) fn count(&self, failed: bool) -> usize {
        self.reports.iter().filter(|report| report.failed == failed).count()
    }

    pub(crate) fn release_body(&self) -> String {
        let item = |release: &Release| match milliseconds(release.delay) {
            0 => Json::object([("token", (&*release.token).into())]),
            ms => Json::object([("token", (&*release.token).into()), ("delay_ms", ms.into())]),
        };
        Json::object([("items", self.releases.iter().map(item).collect::<Vec<_>>().into())]).to_string()
    }

    /// The body of the exchange; `reserve` has the fields of a reserve behind `max`. `""`: there is nothing to exchange.
    pub(crate) fn body(&self, timeout_ms: i64, consumer: &str, reserve: &str) -> String {
        let mut parts = vec![];
        for (name, failed) in [("complete", false), ("fail", true)] {
            let items = self.reports.iter().filter(|report| report.failed == failed).map(|report| &*report.item).collect::<Vec<_>>();
            if !items.is_empty() {
                parts.push(format!("\"{name}\":[{}]", items.join(",")));
            }
        }
        if !self.extends.is_empty() {
            let extend = |chunk: &Arc<Chunk>| {
                let mut item = Json::object([("token", (&*chunk.token).into()), ("timeout_ms", timeout_ms.into())]);
                // Each extension repeats the progress, because a restarted server does not know it.
                if let Some((part, note)) = chunk.state().says.clone() {
                    item.set("progress", part);
                    if !note.is_empty() {
                        item.set("note", note);
                    }
                }
                item
            };
            let items = Json::List(self.extends.iter().map(extend).collect());
            parts.push(format!("\"extend\":{items},\"consumer\":{}", Json::from(consumer)));
        }
        if self.asked > 0 {
            parts.push(format!("\"reserve\":{{\"max\":{},{reserve}}}", self.asked));
        }
        Some(format!("{{{}}}", parts.join(","))).filter(|_| !parts.is_empty()).unwrap_or_default()
    }

    /// The items that a refusal points at, with the field and the fault; none if it is about the call as a whole.
    pub(crate) fn pointed_at(&self, refused: &Refused) -> Vec<(Item, String, String)> {
        let place = |failed, n| self.reports.iter().enumerate().filter(|(_, report)| report.failed == failed).nth(n).map(|(i, _)| i);
        let item = |list: &str, n: usize| match list {
            "complete" => place(false, n).map(Item::Report),
            "fail" => place(true, n).map(Item::Report),
            "extend" => Some(Item::Extend(n)).filter(|_| n < self.extends.len()),
            "items" => Some(Item::Release(n)).filter(|_| n < self.releases.len()),
            _ => None,
        };
        let find = |(pointer, detail): &(String, String)| {
            let mut parts = pointer.splitn(4, '/').skip(1);
            let found = item(parts.next()?, parts.next()?.parse().ok()?)?;
            Some((found, parts.next().unwrap_or("result").to_string(), detail.clone()))
        };
        refused.problems.iter().filter_map(find).collect()
    }
}

/// One call that waits for work.
pub(crate) struct Poll {
    pub(crate) room: usize,
    pub(crate) hellos: u64,
    pub(crate) failures: u32,
}
