//! The stream of events that keeps a worker known to the server.

use crate::call::Caller;
use crate::core::News;
use crate::error::Error;
use crate::http::Request;
use crate::json::Json;
use crate::queue::Queue;
use crate::scope::Scope;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SILENT_BEATS: u64 = 3; // how many heartbeats may stay out before a stream is taken for dead
const MAX_EVENT: usize = 4 << 20; // bytes: 10,000 revoked tokens and room to spare

/// Keeps a consumer attached until the scope ends, and passes on the events of its stream. A stream that ends is opened again, with growing
/// pauses while that fails. After a refusal for good the worker goes on without a stream, and only deadlines count. `path` returns the
/// stream's path for each attempt.
pub(crate) fn attach(caller: &Caller, scope: &Arc<Scope>, inbox: &Queue<News>, path: impl Fn() -> String) {
    let mut failures = 0;
    while !scope.ended() {
        let error = match follow(caller, scope, inbox, path(), &mut failures) {
            Ok(()) | Err(Error::Stopped) => None,
            Err(error) => Some(error),
        };
        let for_good = error.as_ref().map_or(false, |error| !error.may_pass() && error.refused().is_some());
        let pause = caller.backoff(failures, error.as_ref());
        if let Some(error) = error.filter(|error| error.code() != "unknown_queue" && !scope.ended()) {
            inbox.push(News::Trouble(error));
        }
        if for_good {
            inbox.push(News::NoStream); // the reserves will return the error
            return;
        }
        scope.pause(pause);
        failures += 1;
    }
}

fn follow(caller: &Caller, scope: &Arc<Scope>, inbox: &Queue<News>, path: String, failures: &mut u32) -> Result<(), Error> {
    let mut request = Request::new("attach", "GET", path);
    request.headers.push(("Accept", "text/event-stream".to_string()));
    request.safe = false; // this loop makes it again
    let mut answer = caller.open(&request, scope)?;
    let mut patience = caller.timeout; // until the first hello says how often heartbeats come
    let mut events = Events::default();
    loop {
        let data = answer.read(Instant::now() + patience)?;
        if data.is_empty() {
            return Ok(());
        }
        for (name, data) in events.feed(&data)? {
            *failures = 0;
            let json = Json::parse(data.as_bytes()).map_err(|fault| Error::BadAnswer(format!("the event {name}: {fault}")))?;
            let news = match &*name {
                "hello" => {
                    if let Some(beat) = json.get("heartbeat_ms").int().filter(|beat| *beat > 0) {
                        patience = Duration::from_millis(SILENT_BEATS * beat as u64);
                    }
                    News::Hello
                }
                "drain" => News::Drain,
                "revoked" => {
                    let text = |item: &Json, name| item.get(name).text().to_string();
                    News::Revoked(json.get("items").items().iter().map(|item| (text(item, "token"), text(item, "reason"))).collect())
                }
                _ => continue,
            };
            inbox.push(news);
        }
    }
}

/// Reads server-sent events from bytes, in whatever pieces they come.
#[derive(Default)]
struct Events {
    rest: Vec<u8>,
    name: String,
    data: String,
}

impl Events {
    /// The events that are complete: names and data.
    fn feed(&mut self, data: &[u8]) -> Result<Vec<(String, String)>, Error> {
        self.rest.extend(data);
        let mut found = vec![];
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line = self.rest.drain(..=end).collect::<Vec<_>>();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(':').map(|(name, value)| (name, value.strip_prefix(' ').unwrap_or(value))) {
                Some(("event", value)) => self.name = value.to_string(),
                Some(("data", value)) => self.data = value.to_string(),
                None if line.is_empty() && !self.name.is_empty() => {
                    found.push((std::mem::take(&mut self.name), std::mem::take(&mut self.data)));
                }
                _ => {} // a comment, or a field that is not used here
            }
        }
        if self.rest.len() > MAX_EVENT {
            return Err(Error::BadAnswer(format!("a line of the stream is longer than {MAX_EVENT} bytes")));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_pieces() {
        let mut events = Events::default();
        let mut found = vec![];
        for byte in b": alive\n\nevent: hello\ndata: {\"a\":1}\r\n\nid: 7\n\nevent:drain\ndata:{}\n\n" {
            found.extend(events.feed(&[*byte]).unwrap());
        }
        let want = [("hello", "{\"a\":1}"), ("drain", "{}")].map(|(name, data)| (name.to_string(), data.to_string()));
        assert_eq!(found, want);
        assert!(events.feed(&vec![b'x'; MAX_EVENT + 1]).is_err());
    }
}
