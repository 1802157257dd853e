//! The worker's decisions, without a connection. It takes events (a handler ended, a call returned, the stream sent an event, a quarter of
//! the timeout went by) and decides what to do next: it reserves ahead, reports in batches, extends in time, and ends when all is settled.

mod answers;

use crate::ahead::Ahead;
use crate::chunk::{Chunk, Failure, Returned};
use crate::error::Error;
use crate::exchange::{Exchange, Lost, Poll, Release, Report};
use crate::json::Json;
use crate::queue::Queue;
use crate::scope::Scope;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH_BYTES: usize = 700 << 10; // of results in one call: well below the server's default limit of 1 MiB for a body
const BATCH_ITEMS: usize = 5000;
const BATCH_INSERTS: usize = 10_000; // submissions that the completions of one call bring
const MAX_RESERVE: usize = 1000;
const PROGRESS: Duration = Duration::from_secs(1); // how often a worker makes a call because handlers say how far they are

/// An event for the core.
pub(crate) enum News {
    /// a handler ended
    Finished(Arc<Chunk>, Result<Returned, Failure>),
    /// a handler said how far it is with the chunk of this token
    Said(String),
    Called(Exchange, Result<Json, Error>),
    Polled(Poll, Result<Json, Error>),
    /// the stream said hello
    Hello,
    /// an operator told us to leave
    Drain,
    /// the stream said that these reservations were taken from us, and why
    Revoked(Vec<(String, String)>),
    /// the stream broke
    Trouble(Error),
    /// there will be no stream
    NoStream,
    /// the program told us to end
    Stop,
}

/// The queues through which threads carry out the decisions.
#[derive(Clone, Default)]
pub(crate) struct Hands {
    pub(crate) ready: Arc<Queue<Arc<Chunk>>>,
    pub(crate) calls: Arc<Queue<Exchange>>,
    pub(crate) polls: Arc<Queue<Poll>>,
    /// of the poll that is under way
    pub(crate) polling: Arc<Scope>,
    pub(crate) inbox: Arc<Queue<News>>,
}

struct Held {
    chunk: Arc<Chunk>,
    /// quarters of the timeout since it was reserved or extended
    age: u32,
    extending: bool,
    /// the reservation is not ours any more
    lost: Option<Lost>,
    /// to be given back
    back: bool,
}

/// One run of a worker.
#[derive(Default)]
pub(crate) struct Core {
    concurrency: usize,
    ahead: Ahead,
    hands: Hands,
    held: HashMap<String, Held>, // by token
    reports: Vec<Report>,        // finished, to be reported
    extends: Vec<String>,
    releases: Vec<Release>,
    unsent: Vec<String>, // tokens whose progress is to be sent
    /// when the progress in `unsent` may be sent
    pub(crate) due: Option<Instant>,
    sent: Option<Instant>,        // when progress was sent last
    early: HashMap<String, Lost>, // revoked before we knew that we have it
    calling: bool,
    asked: usize,   // chunks that the call under way may bring
    polling: usize, // chunks that the poll under way may bring
    budget: usize,
    failures: u32, // calls in a row that failed
    poll_failures: u32,
    hellos: u64,
    /// The worker reserves nothing before the first hello, or ten seconds: reservations under its name belong to its predecessor until the
    /// server sees the new incarnation and ends them.
    pub(crate) awaited: bool,
    /// the server refuses to know us
    pub(crate) unknown: bool,
    draining: bool,
    /// all is settled
    pub(crate) over: bool,
    /// errors to report to the program
    pub(crate) told: Vec<Error>,
    fatal: Option<Error>, // why the worker ends by itself
    undelivered: usize,
    reached: bool,       // a call succeeded
    away: Option<Error>, // the last failure to reach the server
    warned: Vec<Json>,   // the strategy's warnings in the last answer
}

/// Whether a worker goes on after an error. A wrong answer may come from something between us and the server.
pub(crate) fn may_pass(error: &Error) -> bool {
    error.may_pass() || matches!(error, Error::BadAnswer(_))
}

impl Core {
    pub(crate) fn new(concurrency: usize, prefetch: Option<usize>, attach: bool, hands: Hands) -> Core {
        let ahead = Ahead::new(concurrency, prefetch);
        Core { concurrency, ahead, hands, budget: BATCH_BYTES, awaited: attach, ..Core::default() }
    }

    // Events.

    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Finished(chunk, result) => self.finished(chunk, result),
            News::Said(token) => self.said(token),
            News::Called(call, result) => self.called(call, result),
            News::Polled(poll, result) => self.polled(poll, result),
            News::Hello => {
                // After a restart the server has forgotten what we hold, and after a gap we may have missed revocations. So we extend
                // everything, and the answers say what is still ours. The first hello does the same: another server may have given us
                // chunks before our stream was open.
                self.awaited = false;
                self.hellos += 1;
                self.extend_all();
            }
            News::Drain => self.leave(),
            News::Revoked(items) => self.revoke(items),
            News::Trouble(error) => {
                self.told.push(error.clone());
                self.away = Some(error).filter(may_pass).or_else(|| self.away.take());
            }
            News::NoStream => (self.awaited, self.unknown) = (false, true),
            News::Stop => self.drain(),
        }
    }

    fn finished(&mut self, chunk: Arc<Chunk>, result: Result<Returned, Failure>) {
        let held = match self.held.remove(&chunk.token) {
            Some(held) => held,
            None => return, // a token has one handler: this cannot be
        };
        if let Some(lost) = held.lost {
            return self.report_lost(&chunk, lost);
        }
        let (text, fatal, pause) = match result {
            Ok(returned) => return self.reports.push(Report::completion(chunk, returned)),
            Err(Failure::Snooze(delay)) => return self.releases.push(Release { token: chunk.token.clone(), delay }),
            Err(_) if held.back => return self.releases.push(Release { token: chunk.token.clone(), delay: Duration::ZERO }),
            Err(Failure::Failed(text)) => (text, false, None),
            Err(Failure::RetryAfter(pause, text)) => (text, false, Some(pause)),
            Err(Failure::Permanent(text)) => (text, true, None),
            Err(Failure::Cancelled) => ("the handler returned Failure::Cancelled".to_string(), false, None),
        };
        self.reports.push(Report::failure(chunk.clone(), &text, fatal, pause));
        self.told.push(Error::HandlerFailed { submission: chunk.submission.clone(), index: chunk.index, text });
    }

    /// A quarter of the timeout went by. A chunk is extended after two quarters, so at the latest when half of its timeout is over.
    pub(crate) fn tick(&mut self) {
        self.held.values_mut().for_each(|held| held.age += 1);
        self.extend_where(|held| held.age >= 2);
    }

    fn said(&mut self, token: String) {
        self.unsent.push(token);
        let now = Instant::now();
        self.due = self.due.or_else(|| Some(self.sent.map_or(now, |sent| (sent + PROGRESS).max(now))));
    }

    /// Sends progress that is due, by extending its chunks.
    pub(crate) fn send_progress(&mut self) {
        (self.due, self.sent) = (None, Some(Instant::now()));
        for token in std::mem::take(&mut self.unsent) {
            match self.held.get(&token) {
                Some(held) if held.extending => self.said(token), // the extension under way may lack this progress
                Some(held) => {
                    held.chunk.state().listed = false;
                    self.extend(&token);
                }
                None => {}
            }
        }
    }

    /// The worker is to end: it reserves no more, and gives back the chunks that no handler has begun. A poll that is under way goes on
    /// until nothing else is left to wait for, because the server may just have answered it; the chunks that it brings go back.
    fn drain(&mut self) {
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        for chunk in self.hands.ready.take_back() {
            if self.held.remove(&chunk.token).map_or(false, |held| held.lost.is_none()) {
                self.releases.push(Release { token: chunk.token.clone(), delay: Duration::ZERO });
            }
        }
    }

    /// The grace period after the drain is over.
    pub(crate) fn grace_over(&mut self) {
        for held in self.held.values_mut().filter(|held| held.lost.is_none()) {
            held.back = true;
            held.chunk.cancel();
        }
    }

    /// An operator told us to leave.
    fn leave(&mut self) {
        if !self.draining {
            self.told.push(Error::Drained);
            self.drain();
        }
    }

    /// Ends because of an error.
    fn stop(&mut self, error: Error) {
        self.fatal = self.fatal.take().or(Some(error));
        self.drain();
    }

    /// The result of a worker that has ended.
    pub(crate) fn outcome(&mut self) -> Result<(), Error> {
        match self.fatal.take() {
            Some(error) => Err(error),
            None if self.undelivered > 0 => Err(Error::Undelivered(self.undelivered)),
            None if !self.reached && self.hellos == 0 => self.away.take().map_or(Ok(()), Err), // it never worked
            None => Ok(()),
        }
    }

    // Decisions.

    /// Starts what has become possible: a call when there is something to report, which brings new work in the same round trip, and
    /// otherwise, when there is room, a poll that waits for work. Both go on beside each other, so that results never wait for work; while
    /// one polls the calls do not reserve, because there was nothing.
    pub(crate) fn start(&mut self) {
        if self.asked == 0 && self.polling == 0 {
            self.early.clear();
        }
        let settled = self.reports.is_empty() && self.extends.is_empty() && self.releases.is_empty();
        if !self.calling && !settled {
            self.start_call();
        }
        let room = self.room(0);
        if !self.calling && self.polling == 0 && room > 0 {
            self.polling = room;
            self.hands.polls.push(Poll { room, hellos: self.hellos, failures: self.poll_failures });
        }
        let busy = !(self.held.is_empty() && self.reports.is_empty() && self.releases.is_empty()) || self.calling;
        if self.draining && !busy {
            if self.polling > 0 {
                self.hands.polling.end();
            } else {
                self.over = true;
            }
        }
    }

    /// How many chunks may be asked for. Unreported results still count, so that a server that takes no results gives no work either.
    fn room(&self, reported: usize) -> usize {
        if self.draining || self.awaited {
            return 0;
        }
        let used = self.held.len() + self.reports.len() - reported + self.asked + self.polling;
        (self.concurrency + self.ahead.n).saturating_sub(used).min(MAX_RESERVE)
    }

    fn start_call(&mut self) {
        let (mut size, mut inserts, mut n) = (0, 0, 0);
        for report in self.reports.iter().take(BATCH_ITEMS) {
            size += report.item.len() + 1;
            inserts += report.inserts;
            if n > 0 && (size > self.budget || inserts > BATCH_INSERTS) {
                break;
            }
            n += 1;
        }
        let extends = first(&mut self.extends, BATCH_ITEMS);
        let extends: Vec<_> = extends.iter().filter_map(|token| Some(self.held.get(token)?.chunk.clone())).collect();
        let asked = if self.polling > 0 { 0 } else { self.room(n) };
        let call = Exchange {
            reports: first(&mut self.reports, n),
            extends,
            releases: first(&mut self.releases, BATCH_ITEMS),
            asked,
            hellos: self.hellos,
            failures: self.failures,
            began: Instant::now(),
            size: 0,
        };
        // The call may be empty: chunks to be extended may have ended since.
        if !(call.reports.is_empty() && call.extends.is_empty() && call.releases.is_empty()) {
            (self.calling, self.asked) = (true, asked);
            self.hands.calls.push(call);
        }
    }

    // Helpers of both.

    fn extend_all(&mut self) {
        self.extend_where(|_| true);
    }

    fn extend_where(&mut self, which: impl Fn(&Held) -> bool) {
        let tokens: Vec<_> = self.held.iter().filter(|(_, held)| which(held)).map(|(token, _)| token.clone()).collect();
        tokens.iter().for_each(|token| self.extend(token));
    }

    fn extend(&mut self, token: &str) {
        if let Some(held) = self.held.get_mut(token).filter(|held| !held.extending && held.lost.is_none()) {
            held.extending = true;
            self.extends.push(token.to_string());
        }
    }

    /// Extends everything if the server said hello since a call began: a restarted server has forgotten the chunks that the call brought
    /// and extended.
    fn extend_since(&mut self, hellos: u64) {
        if self.hellos > hellos {
            self.extend_all();
        }
    }

    /// Reports a result that does not count.
    fn report_lost(&mut self, chunk: &Chunk, Lost { status, code, detail }: Lost) {
        let (submission, index) = (chunk.submission.clone(), chunk.index);
        self.told.push(Error::ReservationLost { submission, index, status, code, detail });
    }
}

impl Held {
    /// The reservation is not ours any more: no handler begins with the chunk. The caller cancels a handler that runs.
    fn lose(&mut self, lost: Lost) -> Arc<Chunk> {
        self.lost = Some(lost);
        self.chunk.state().lost = true;
        self.chunk.clone()
    }
}

/// Takes the first items of a list, at most so many.
fn first<T>(list: &mut Vec<T>, most: usize) -> Vec<T> {
    let n = list.len().min(most);
    list.drain(..n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// A worker whose first poll brought chunks with these tokens.
    fn working(tokens: &[&str]) -> Core {
        let mut core = Core::new(tokens.len(), Some(0), true, Hands::default());
        core.start();
        assert!(core.hands.polls.take_back().is_empty(), "it reserves before the first hello");
        core.take(News::Hello);
        core.start();
        let poll = core.hands.polls.take_back().remove(0);
        core.take(News::Polled(poll, Ok(reservations(tokens))));
        core
    }

    fn reservations(tokens: &[&str]) -> Json {
        let one = |token: &&str| json(&format!(r#"{{"token":"{token}","submission":"7","index":3,"attempt":1,"content":"x"}}"#));
        Json::object([("reservations", Json::List(tokens.iter().map(one).collect()))])
    }

    fn done(core: &mut Core) {
        let chunk = core.hands.ready.take_back().remove(0);
        core.take(News::Finished(chunk, Ok(().into())));
    }

    #[test]
    fn a_result_is_reported_and_brings_the_next_chunk() {
        let mut core = working(&["a"]);
        done(&mut core);
        core.start();
        let call = core.hands.calls.take_back().remove(0);
        assert_eq!(call.body(1000, "c", "\"consumer\":\"c\""), r#"{"complete":[{"token":"a"}],"reserve":{"max":1,"consumer":"c"}}"#);
        let mut answer = reservations(&["b"]);
        answer.set("complete", vec![json(r#"{"status":"lost","code":"reservation_lost"}"#)]);
        core.take(News::Called(call, Ok(answer)));
        assert!(matches!(&core.told[..], [Error::ReservationLost { index: 3, status, .. }] if status == "lost"), "{:?}", core.told);
        assert_eq!(core.hands.ready.take_back()[0].token, "b");
    }

    #[test]
    fn what_is_revoked_before_it_comes_does_not_begin() {
        let mut core = working(&["a"]);
        done(&mut core);
        core.start();
        core.take(News::Revoked(vec![("b".to_string(), "ordered".to_string())]));
        let call = core.hands.calls.take_back().remove(0);
        let mut answer = reservations(&["b"]);
        answer.set("complete", vec![json(r#"{"status":"ok"}"#)]);
        core.take(News::Called(call, Ok(answer)));
        assert!(core.hands.ready.take_back()[0].state().lost);
    }

    /// The first cancelled handler makes room for the next chunk, which is revoked too.
    #[test]
    fn what_is_revoked_with_others_does_not_begin() {
        let tokens: Vec<_> = (0..3000).map(|i| i.to_string()).collect();
        let tokens: Vec<_> = tokens.iter().map(|token| token.as_str()).collect();
        let mut core = working(&tokens);
        let chunks = core.hands.ready.take_back();
        let (first, last) = (chunks[0].clone(), chunks[chunks.len() - 1].clone());
        let (runs, begins) = std::sync::mpsc::channel();
        let handler = std::thread::spawn(move || {
            runs.send(()).unwrap();
            while !first.cancelled() {}
            last.state().lost
        });
        begins.recv().unwrap();
        core.take(News::Revoked(tokens.iter().map(|token| (token.to_string(), "operator".to_string())).collect()));
        assert!(handler.join().unwrap(), "the first handler was cancelled before the last chunk was marked");
    }

    #[test]
    fn what_came_from_a_server_that_was_started_since_is_extended() {
        let mut core = working(&["a", "b"]);
        done(&mut core);
        core.start();
        let call = core.hands.calls.take_back().remove(0);
        core.take(News::Hello);
        let mut answer = reservations(&["c"]);
        answer.set("complete", vec![json(r#"{"status":"ok"}"#)]);
        core.take(News::Called(call, Ok(answer)));
        core.start();
        let mut tokens = core.hands.calls.take_back()[0].extends.iter().map(|chunk| chunk.token.clone()).collect::<Vec<_>>();
        tokens.sort();
        assert_eq!(tokens, ["b", "c"]);
    }

    #[test]
    fn a_drain_gives_back_what_has_not_begun() {
        let mut core = working(&["a", "b"]);
        let running = core.hands.ready.next().unwrap();
        core.take(News::Drain);
        core.start();
        let call = core.hands.calls.take_back().remove(0);
        assert_eq!((call.release_body(), call.asked), (r#"{"items":[{"token":"b"}]}"#.to_string(), 0));
        core.take(News::Called(call, Ok(Json::Null)));
        core.take(News::Finished(running, Err(Failure::failed("no"))));
        core.start();
        assert!(!core.over);
        let mut call = core.hands.calls.take_back().remove(0);
        let gone = Error::NoAnswer("away".to_string());
        core.take(News::Called(call, Err(gone.clone())));
        core.start();
        call = core.hands.calls.take_back().remove(0);
        core.take(News::Called(call, Err(gone)));
        core.start();
        assert!(core.over && matches!(core.outcome(), Err(Error::Undelivered(1))));
    }
}
