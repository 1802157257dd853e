//! Inserts of one client into one queue share calls when they overlap. There is no timer:
//!
//! ```text
//! A inserts ─► no call is under way: A's goes at once, as a call of its own
//! B, C, D insert meanwhile and wait
//! A's call ends ─► the thread of B makes one call for B, C and D, each with its own result
//! ```
//!
//! So a lone caller waits for its own call only. No thread is started: the first waiting insert makes the next call.

use crate::error::Error;
use crate::submission::Submission;
use std::collections::HashMap;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;

// Bounds of a shared call. A large insert goes alone, as it would hold up small ones.
const COUNT: usize = 1000;
const BYTES: usize = 8 << 20;
pub(crate) const LARGE: usize = 64 << 10;

/// A message to a waiting insert.
pub(crate) enum Word {
    /// This insert makes the next call, for all of these and itself.
    Lead(Vec<Waiter>),
    /// The result of the insert.
    Outcome(Box<Result<Submission, Error>>),
    /// The call was refused, perhaps because of another insert: this one asks alone.
    Alone,
}

/// An insert that waits for a call.
pub(crate) struct Waiter {
    pub(crate) text: String,
    tell: Sender<Word>,
}

impl Waiter {
    /// Tells the insert. One whose thread is gone hears nothing.
    pub(crate) fn tell(&self, word: Word) {
        let _ = self.tell.send(word);
    }
}

/// How an insert begins.
pub(crate) enum Turn<'a> {
    /// No call was under way: its own is, until the guard is dropped.
    Own(Under<'a>),
    /// A call is under way: the result of this insert comes from here.
    Wait(Receiver<Word>),
}

/// The inserts that wait to share a call, by queue. A queue has an entry while one of its calls is under way.
#[derive(Default)]
pub(crate) struct Shared(Mutex<HashMap<String, Vec<Waiter>>>);

impl Shared {
    /// Begins an insert; `text` is its submission as one of many.
    pub(crate) fn begin(&self, queue: &str, text: impl FnOnce() -> String) -> Turn<'_> {
        let mut of = self.0.lock().unwrap();
        match of.get_mut(queue) {
            Some(waiting) => {
                let (tell, told) = channel();
                waiting.push(Waiter { text: text(), tell });
                Turn::Wait(told)
            }
            None => {
                of.insert(queue.to_string(), vec![]);
                Turn::Own(self.under(queue))
            }
        }
    }

    /// Goes on with a call that another insert has handed over.
    pub(crate) fn under(&self, queue: &str) -> Under<'_> {
        Under { shared: self, queue: queue.to_string() }
    }

    /// Hands the next call to the first waiting insert. An insert whose thread is gone is passed over.
    fn hand_over(&self, queue: &str) {
        let mut of = self.0.lock().unwrap();
        loop {
            let waiting = match of.get_mut(queue) {
                Some(waiting) if !waiting.is_empty() => waiting,
                _ => break,
            };
            let mut size = 0;
            let fit = waiting.iter().take(COUNT).take_while(|one| {
                size += one.text.len();
                size <= BYTES
            });
            let n = fit.count().max(1);
            let call = waiting.drain(..n).collect::<Vec<_>>();
            let lead = call[0].tell.clone();
            if lead.send(Word::Lead(call)).is_ok() {
                return;
            }
        }
        of.remove(queue);
    }
}

/// A call that is under way. At its end, also by a panic, the next one begins.
pub(crate) struct Under<'a> {
    shared: &'a Shared,
    queue: String,
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.shared.hand_over(&self.queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(turn: Turn<'_>) -> Receiver<Word> {
        match turn {
            Turn::Wait(told) => told,
            Turn::Own(_) => panic!("a call is under way, and this insert has one of its own"),
        }
    }

    fn leads(told: &Receiver<Word>) -> Vec<String> {
        match told.recv().unwrap() {
            Word::Lead(call) => call.iter().map(|one| one.text.clone()).collect(),
            _ => panic!("it does not lead"),
        }
    }

    #[test]
    fn those_that_wait_go_together_and_each_queue_by_itself() {
        let shared = Shared::default();
        let begin = |queue: &str, text: &str| shared.begin(queue, || text.to_string());
        let first = match begin("a", "1") {
            Turn::Own(under) => under,
            Turn::Wait(_) => panic!("a lone insert waits"),
        };
        let (second, third) = (waits(begin("a", "2")), waits(begin("a", "3")));
        assert!(matches!(begin("b", "4"), Turn::Own(_)));
        drop(first);
        assert_eq!(leads(&second), ["2", "3"]);
        assert!(third.try_recv().is_err());
        let fourth = waits(begin("a", "5"));
        drop(shared.under("a"));
        assert_eq!(leads(&fourth), ["5"]);
        drop(shared.under("a"));
        assert!(matches!(begin("a", "6"), Turn::Own(_)));
    }

    #[test]
    fn a_call_has_bounds() {
        let shared = Shared::default();
        let first = shared.begin("a", String::new);
        let told = (0..COUNT + 1).map(|_| waits(shared.begin("a", || "x".to_string()))).collect::<Vec<_>>();
        let large = (0..2).map(|_| waits(shared.begin("a", || "x".repeat(BYTES)))).collect::<Vec<_>>();
        drop(first);
        assert_eq!(leads(&told[0]).len(), COUNT);
        drop(shared.under("a"));
        assert_eq!(leads(&told[COUNT]).len(), 1); // the next one does not fit beside it
        drop(shared.under("a"));
        assert_eq!(leads(&large[0]).len(), 1);
        drop(shared.under("a"));
        assert_eq!(leads(&large[1]).len(), 1);
    }
}
