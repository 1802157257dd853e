//! The chunk that a handler works on, with its progress and the submissions that follow it.

use crate::core::News;
use crate::error::Error;
use crate::json::Json;
use crate::queue::Queue;
use crate::submission::NewSubmission;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const MAX_NOTE_BYTES: usize = 256; // of a note that the server takes

/// The output of a handler: nothing (`()`), a text or bytes.
#[derive(Debug, Default)]
pub struct Returned(pub(crate) Option<Vec<u8>>);

impl From<()> for Returned {
    fn from(_: ()) -> Returned {
        Returned(None)
    }
}

impl From<String> for Returned {
    fn from(text: String) -> Returned {
        Returned(Some(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Returned {
    fn from(bytes: Vec<u8>) -> Returned {
        Returned(Some(bytes))
    }
}

impl<T: Into<Returned>> From<Option<T>> for Returned {
    fn from(some: Option<T>) -> Returned {
        some.map_or(Returned(None), Into::into)
    }
}

/// Why a handler has no result. `?` makes one of any error: the attempt then fails with its text.
#[derive(Debug)]
pub enum Failure {
    /// This attempt failed. The server retries the chunk after the back-off of its submission or queue.
    Failed(String),
    /// This attempt failed. The server retries the chunk after this time, at most 30 days.
    RetryAfter(Duration, String),
    /// The chunk failed for good.
    Permanent(String),
    /// The chunk goes back and counts no attempt. The server offers it again after this time, at most 30 days.
    Snooze(Duration),
    /// The result does not count any more. [`Chunk::check`] and [`Chunk::sleep`] return it.
    Cancelled,
}

impl Failure {
    /// A failed attempt with a text.
    pub fn failed(text: impl Into<String>) -> Failure {
        Failure::Failed(text.into())
    }

    /// A failure for good with a text.
    pub fn permanent(text: impl Into<String>) -> Failure {
        Failure::Permanent(text.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// The chunk that a handler works on.
pub struct Chunk {
    /// the id of the submission
    pub submission: String,
    /// the chunk's number in the submission, from 0
    pub index: u32,
    /// 1 for the first attempt
    pub attempt: u32,
    /// the content; empty if `key` is set
    pub content: Vec<u8>,
    /// the key of the content in object storage
    pub key: Option<String>,
    /// the server's JSON for the reservation, without the content
    pub json: Json,
    pub(crate) token: String,
    inbox: Arc<Queue<News>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// the reservation is not ours any more: no handler begins with the chunk
    pub(crate) lost: bool,
    pub(crate) cancelled: bool,
    /// when the time of the handler's kind is over, and how long that time is
    pub(crate) until: Option<(Instant, Duration)>,
    /// the progress that the handler reported last: how far it is, and a note
    pub(crate) says: Option<(f64, String)>,
    /// the worker is going to send `says`
    pub(crate) listed: bool,
    /// submissions that are to be inserted with the completion, as JSON
    pub(crate) then: Vec<String>,
}

impl State {
    /// Why the handler is to end; `None`: it goes on.
    fn ends(&self) -> Option<Failure> {
        match self.until {
            _ if self.cancelled => Some(Failure::Cancelled),
            Some((until, time)) if Instant::now() >= until => {
                Some(Failure::Failed(format!("the handler took too long (more than {time:?})")))
            }
            _ => None,
        }
    }
}

impl Chunk {
    pub(crate) fn of(mut json: Json, inbox: Arc<Queue<News>>) -> Result<Chunk, Error> {
        let mut content = json.take("content");
        let wrong = || Error::BadAnswer(format!("this is no reservation: {:.200}", json.to_string()));
        let number = |name| json.get(name).int().and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong);
        let (key, content) = match content.take("key") {
            Json::Text(key) => (Some(key), vec![]),
            _ => (None, content.into_bytes().ok_or_else(wrong)?),
        };
        Ok(Chunk {
            submission: json.get("submission").text().to_string(),
            index: number("index")?,
            attempt: number("attempt")?,
            content,
            key,
            token: Some(json.get("token").text()).filter(|token| !token.is_empty()).ok_or_else(wrong)?.to_string(),
            json,
            inbox,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The content as a text. If it is none, the chunk fails for good.
    pub fn text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(&self.content).map_err(|fault| Failure::Permanent(format!("the content is no text: {fault}")))
    }

    /// An entry of the submission's meta, or `Null`.
    pub fn meta(&self, name: &str) -> &Json {
        self.json.get("meta").get(name)
    }

    /// Whether the server no longer counts the result: the reservation was lost or revoked, or the time after a stop is over.
    pub fn cancelled(&self) -> bool {
        self.state.lock().unwrap().cancelled
    }

    /// An error if the result no longer counts, or the time of the chunk's kind is over. Long handlers call it now and then.
    pub fn check(&self) -> Result<(), Failure> {
        self.state.lock().unwrap().ends().map_or(Ok(()), Err)
    }

    /// Waits, but not longer than the result counts, nor longer than the time of the chunk's kind.
    pub fn sleep(&self, time: Duration) -> Result<(), Failure> {
        let until = Instant::now() + time;
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(failure) = state.ends() {
                return Err(failure);
            }
            let mut left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if let Some((end, _)) = state.until {
                left = left.min(end.saturating_duration_since(Instant::now()));
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Says how far the handler is, from 0 to 1, with a note of at most 256 bytes. It can be called in a tight loop: the worker sends the
    /// latest report, at most once a second.
    pub fn progress(&self, part: f64, note: &str) {
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        let mut state = self.state.lock().unwrap();
        let before = state.says.take().map_or(String::new(), |(_, note)| note);
        state.says = Some((part, if note.is_empty() { before } else { cut(note, MAX_NOTE_BYTES).to_string() }));
        if !state.listed {
            state.listed = true; // a later report replaces this one until the worker sends it
            self.inbox.push(News::Said(self.token.clone()));
        }
    }

    /// Inserts a submission into the chunk's queue, in one commit with the completion: at most 100 of them. If the handler fails, nothing is
    /// inserted.
    pub fn then(&self, next: &NewSubmission) {
        self.state.lock().unwrap().then.push(next.following());
    }

    pub(crate) fn cancel(&self) {
        self.state.lock().unwrap().cancelled = true;
        self.changed.notify_all();
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The beginning of a text, at most so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
