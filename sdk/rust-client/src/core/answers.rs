//! Applies the answers to a worker's calls.

use super::{may_pass, Core, Held};
use crate::chunk::Chunk;
use crate::error::{Error, Refused};
use crate::exchange::{Exchange, Item, Lost, Poll, Release};
use crate::json::Json;
use std::sync::Arc;
use std::time::Duration;

impl Core {
    pub(super) fn called(&mut self, mut call: Exchange, result: Result<Json, Error>) {
        (self.calling, self.asked) = (false, 0);
        let error = match result {
            Ok(answer) => {
                (self.failures, self.reached) = (0, true);
                let brought = answer.get("reservations").items().len();
                self.ahead.answered(&call, brought, self.held.len() as isize - self.concurrency as isize);
                if call.asked > 0 {
                    self.warn(&answer); // an answer to a call that asked for nothing has no warnings, and takes back none
                }
                let hellos = call.hellos;
                self.settle(call, &answer);
                return self.accept(answer, hellos);
            }
            Err(error) => error,
        };
        for chunk in &call.extends {
            if let Some(held) = self.held.get_mut(&chunk.token) {
                held.extending = false; // the next tick asks again
            }
        }
        self.extend_since(call.hellos);
        let for_good = !may_pass(&error);
        let refused = error.refused();
        if refused.map_or(false, |refused| refused.status == 413) && !call.reports.is_empty() {
            return self.shrink(call, error);
        }
        if let Some(refused) = refused {
            let bad = call.pointed_at(refused);
            if !bad.is_empty() {
                return self.set_aside(call, bad, refused);
            }
        }
        if for_good && !self.draining {
            self.put_back(&mut call);
            return self.stop(error);
        }
        if for_good || self.draining && self.failures > 0 {
            self.undelivered += call.reports.len();
        } else {
            self.failures += 1;
            self.put_back(&mut call);
        }
        self.told.push(error);
    }

    pub(super) fn polled(&mut self, poll: Poll, result: Result<Json, Error>) {
        self.polling = 0;
        match result {
            Ok(answer) => {
                (self.poll_failures, self.reached) = (0, true);
                self.warn(&answer);
                self.accept(answer, poll.hellos);
            }
            Err(_) if self.draining => {}
            Err(error) if !may_pass(&error) => self.stop(error),
            Err(error) => {
                self.poll_failures += 1;
                self.told.push(error.clone());
                self.away = Some(error);
            }
        }
    }

    /// Takes new reservations; after the beginning of the drain they go back at once. If the server took some of them back, the stream may
    /// have said so first.
    fn accept(&mut self, mut answer: Json, hellos: u64) {
        if answer.get("reason").text() == "draining" {
            self.leave();
        }
        for json in answer.take("reservations").into_items() {
            let chunk = match Chunk::of(json, self.hands.inbox.clone()) {
                Ok(chunk) => Arc::new(chunk),
                Err(error) => {
                    self.told.push(error);
                    continue;
                }
            };
            if self.draining || self.held.len() >= self.concurrency + self.ahead.most {
                self.releases.push(Release { token: chunk.token.clone(), delay: Duration::ZERO });
                continue;
            }
            let lost = self.early.get(&chunk.token).cloned();
            chunk.state().lost = lost.is_some(); // then no handler begins with it
            self.held.insert(chunk.token.clone(), Held { chunk: chunk.clone(), age: 0, extending: false, lost, back: false });
            self.hands.ready.push(chunk);
        }
        self.extend_since(hellos);
    }

    /// Reports each part of the strategy that has no effect: once, until the warnings change.
    fn warn(&mut self, answer: &Json) {
        let warnings = answer.get("warnings").items();
        for warning in warnings.iter().filter(|warning| !self.warned.contains(warning)) {
            let text = |name| warning.get(name).text().to_string();
            self.told.push(Error::StrategyWithoutEffect { pointer: text("pointer"), detail: text("detail") });
        }
        self.warned = warnings.to_vec();
    }

    fn settle(&mut self, call: Exchange, answer: &Json) {
        let (mut completed, mut failed) = (answer.get("complete").items().iter(), answer.get("fail").items().iter());
        for mut report in call.reports {
            let result = if report.failed { failed.next() } else { completed.next() }.unwrap_or(&Json::Null);
            let status = result.get("status").text();
            if !matches!(status, "ok" | "already") {
                self.report_lost(&report.chunk, Lost::of(result));
            }
            if status == "refused" {
                report.retry(result.get("detail").text()); // the chunk is still ours, and its submissions may find room at another attempt
                self.reports.push(report);
            }
        }
        let mut taken = Vec::new();
        for (chunk, result) in call.extends.iter().zip(answer.get("extend").items()) {
            let held = self.held.get_mut(&chunk.token);
            match (held, result.get("status").text()) {
                (Some(held), "ok" | "already") => (held.extending, held.age) = (false, 0),
                (Some(held), "invalid") => {
                    held.extending = false;
                    self.report_lost(chunk, Lost::of(result));
                }
                (Some(held), _) => taken.push(held.lose(Lost::of(result))),
                (None, _) => {}
            }
        }
        cancel(taken);
    }

    pub(super) fn revoke(&mut self, items: Vec<(String, String)>) {
        let mut taken = Vec::new();
        for (token, reason) in items {
            let lost = Lost::taken(&reason);
            match self.held.get_mut(&token) {
                Some(held) if held.lost.is_none() => taken.push(held.lose(lost)),
                Some(_) => {}
                None if self.asked > 0 || self.polling > 0 => drop(self.early.insert(token, lost)), // the stream may have overtaken the answer
                None => {}
            }
        }
        cancel(taken);
    }

    fn put_back(&mut self, call: &mut Exchange) {
        self.reports.splice(0..0, call.reports.drain(..));
        self.releases.splice(0..0, call.releases.drain(..));
    }

    /// Answers a refusal for size with smaller calls, and in the end fails the one chunk whose output is too much.
    fn shrink(&mut self, mut call: Exchange, error: Error) {
        if call.reports.len() > 1 {
            self.budget = (self.budget / 2).max(1);
            return self.put_back(&mut call);
        }
        if call.reports[0].failed {
            self.undelivered += 1;
            self.told.push(error);
            call.reports.clear();
            return self.put_back(&mut call);
        }
        let report = &mut call.reports[0];
        let reason = match report.inserts {
            0 => format!(
                "the output of about {} bytes is more than the server takes (1 MiB at most): put it into object storage and return its key",
                report.item.len()
            ),
            _ => format!("the server refused the output and the submissions that follow: {error}"),
        };
        let lost = Lost::invalid(error.code(), reason.clone());
        report.refuse(reason);
        self.report_lost(&call.reports[0].chunk, lost);
        self.put_back(&mut call);
    }

    /// Settles each item that a refusal points at by itself, and sends the others again: a fault of one chunk costs no other chunk its
    /// result.
    fn set_aside(&mut self, mut call: Exchange, bad: Vec<(Item, String, String)>, refused: &Refused) {
        let about = |item: &Item| bad.iter().find(|(which, _, _)| which == item).map(|(_, field, detail)| (&**field, detail));
        let mut again = vec![];
        for (i, mut report) in call.reports.drain(..).enumerate() {
            if let Some((field, detail)) = about(&Item::Report(i)) {
                let settled = report.refused || field == "token"; // a failure would be refused, too
                let reason = if settled { format!("the {field} {detail}") } else { format!("the server refused the {field}: it {detail}") };
                self.report_lost(&report.chunk, Lost::invalid(&refused.code, reason.clone()));
                if settled {
                    continue;
                }
                report.refuse(reason);
            }
            again.push(report);
        }
        self.reports.splice(0..0, again);
        let releases = call.releases.drain(..).enumerate().filter(|(i, _)| about(&Item::Release(*i)).is_none());
        self.releases.splice(0..0, releases.map(|(_, release)| release));
        let mut taken = Vec::new();
        for (i, chunk) in call.extends.iter().enumerate() {
            match (about(&Item::Extend(i)), self.held.get_mut(&chunk.token)) {
                (_, None) => {}
                (None, _) => self.extend(&chunk.token),
                (Some(("token", detail)), Some(held)) => {
                    taken.push(held.lose(Lost::invalid(&refused.code, format!("the token {detail}"))));
                }
                // The next tick asks again.
                (Some((field, detail)), _) => self.report_lost(chunk, Lost::invalid(&refused.code, format!("the {field} {detail}"))),
            }
        }
        cancel(taken);
    }
}

/// Cancels the handlers of chunks that are not ours any more. A handler that ends makes room for the next chunk, which may be one of them.
/// So all are marked before the first handler is cancelled.
fn cancel(taken: Vec<Arc<Chunk>>) {
    taken.iter().for_each(|chunk| chunk.cancel());
}
