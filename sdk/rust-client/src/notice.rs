//! The log of errors after which a worker goes on by itself, and which nothing else reports.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60); // in which each kind of trouble is logged once
const KINDS: usize = 100; // that are told apart at a time

/// Logs each kind of trouble at most once a minute: a server that is away, or a handler that always fails, does not fill the log.
#[derive(Default)]
pub(crate) struct Notices(Mutex<HashMap<String, (Instant, u32)>>);

impl Notices {
    /// Writes an error to the standard error, unless one of its kind was written a moment ago.
    pub(crate) fn warn(&self, about: &str, error: &Error) {
        if let Some(missed) = self.due(error.kind(), Instant::now()) {
            let more = if missed > 0 { format!(" ({missed} more like it were not logged)") } else { String::new() };
            eprintln!("quern: {about}: {error}{more}");
        }
    }

    /// How many of a kind were not logged since the last that was, if one is to be logged now.
    fn due(&self, mut kind: String, now: Instant) -> Option<u32> {
        let mut kinds = self.0.lock().unwrap();
        if kinds.len() >= KINDS && !kinds.contains_key(&kind) {
            kinds.retain(|_, (until, _)| now < *until);
            if kinds.len() >= KINDS {
                kind = String::new(); // the others share one
            }
        }
        let (until, missed) = kinds.get(&kind).copied().unwrap_or((now, 0));
        let due = now >= until;
        kinds.insert(kind, if due { (now + EVERY, 0) } else { (until, missed + 1) });
        due.then_some(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_a_minute() {
        let (notices, now) = (Notices::default(), Instant::now());
        assert_eq!(notices.due("a".to_string(), now), Some(0));
        assert_eq!(notices.due("a".to_string(), now + EVERY / 2), None);
        assert_eq!(notices.due("b".to_string(), now), Some(0));
        assert_eq!(notices.due("a".to_string(), now + EVERY), Some(1));
        assert_eq!((0..2 * KINDS).filter_map(|i| notices.due(i.to_string(), now)).count(), KINDS - 1);
        assert!(notices.0.lock().unwrap().len() <= KINDS + 1);
    }
}
