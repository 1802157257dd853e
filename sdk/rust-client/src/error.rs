//! The errors of the client.

use crate::json::Json;
use std::fmt;
use std::time::Duration;

/// An error of a call or of a worker.
#[derive(Clone, Debug)]
pub enum Error {
    /// The server answered with an error.
    Refused(Box<Refused>),
    /// The client could not reach the server, or the answer broke off. The server may have done the work.
    NoAnswer(String),
    /// The server did not answer in time. The server may have done the work.
    TimedOut(String),
    /// The worker itself ended the call, which says nothing about the server.
    Stopped,
    /// The answer does not come from a Quern server: something else listens at this address.
    BadAnswer(String),
    /// The program asked for something that cannot be, such as an address that is none.
    Config(String),
    /// A submission is still open after the time that [`crate::Client::wait`] was given.
    StillOpen(String),
    /// A handler failed, and the server was told. Workers call `on_error` with it.
    #[allow(missing_docs)] // the fields name the chunk and the error
    HandlerFailed { submission: String, index: u32, text: String },
    /// The result of a chunk does not count, or the server refused it (the status is then `invalid`). Workers call `on_error` with it.
    #[allow(missing_docs)]
    ReservationLost { submission: String, index: u32, status: String, code: String, detail: String },
    /// An operator ordered the worker to leave. Workers call `on_error` with it, and end.
    Drained,
    /// A part of the strategy has no effect now. Workers call `on_error` with it, and continue with the other parts.
    #[allow(missing_docs)]
    StrategyWithoutEffect { pointer: String, detail: String },
    /// A worker ended and could not deliver so many results: the server offers their chunks again after the deadline.
    Undelivered(usize),
}

/// An answer of the server that is an error.
#[derive(Clone, Debug)]
pub struct Refused {
    /// the HTTP status
    pub status: u16,
    /// the stable name of the problem, such as `unknown_queue`
    pub code: String,
    /// the problem in words
    pub detail: String,
    /// the faults of the request: a pointer to a field, and the fault
    pub problems: Vec<(String, String)>,
    /// the pause that the server asked for, or 0
    pub retry_after: Duration,
    /// names the request in the server's log
    pub request_id: String,
}

impl Refused {
    /// The error of an answer. An answer of another program, such as a proxy, keeps its status and the beginning of its text.
    pub(crate) fn of(status: u16, body: &[u8], retry_after: Duration) -> Refused {
        let problem = Json::parse(body).ok().filter(|value| matches!(value, Json::Object(_)));
        let problem = problem.unwrap_or_else(|| {
            let line = String::from_utf8_lossy(&body[..body.len().min(200)]).lines().next().unwrap_or("").to_string();
            Json::object([("detail", line.into())])
        });
        let either = if problem.get("detail").text().is_empty() { "title" } else { "detail" };
        Refused {
            status,
            code: problem.get("code").text().to_string(),
            detail: problem.get(either).text().to_string(),
            problems: problem
                .get("errors")
                .items()
                .iter()
                .map(|one| (one.get("pointer").text().to_string(), one.get("detail").text().to_string()))
                .collect(),
            retry_after,
            request_id: problem.get("request_id").text().to_string(),
        }
    }
}

impl Error {
    /// The server's refusal, if this is one.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Error::Refused(refused) => Some(refused),
            _ => None,
        }
    }

    /// The stable name of the problem that the server answered with; `""` if there was no answer.
    pub fn code(&self) -> &str {
        self.refused().map_or("", |refused| &refused.code)
    }

    /// Whether the error may be over when the call is made again.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::NoAnswer(_) | Error::TimedOut(_) | Error::Stopped => true,
            // Any other 421 is about a host that the server does not serve, and does not pass.
            Error::Refused(r) if r.status == 421 => matches!(&*r.code, "moved" | "moving" | "elsewhere"),
            Error::Refused(r) => matches!(r.status, 429 | 502..=504),
            _ => false,
        }
    }

    /// Which errors are alike, for a log that tells each kind once.
    pub(crate) fn kind(&self) -> String {
        match self {
            Error::Refused(r) => format!("refused {} {}", r.status, r.code),
            Error::ReservationLost { status, code, .. } => format!("chunk {status} {code}"),
            Error::StrategyWithoutEffect { detail, .. } => format!("strategy {detail}"),
            Error::HandlerFailed { .. } => "handler".to_string(),
            Error::BadAnswer(_) => "answer".to_string(),
            _ => "away".to_string(),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(r) => {
                write!(f, "{} ({} {}", if r.detail.is_empty() { "the server refused the call" } else { &r.detail }, r.status, r.code)?;
                if !r.request_id.is_empty() {
                    write!(f, ", request {}", r.request_id)?;
                }
                r.problems.iter().try_for_each(|(pointer, detail)| write!(f, "; {pointer} {detail}"))?;
                f.write_str(")")
            }
            Error::NoAnswer(text) | Error::TimedOut(text) | Error::BadAnswer(text) | Error::Config(text) | Error::StillOpen(text) => {
                f.write_str(text)
            }
            Error::Stopped => f.write_str("the worker ended the call"),
            Error::HandlerFailed { submission, index, text } => write!(f, "chunk {submission}/{index}: the handler failed: {text}"),
            Error::ReservationLost { submission, index, status, code, detail } => {
                write!(f, "chunk {submission}/{index}: the result does not count: {status} {code} {detail}")
            }
            Error::Drained => f.write_str("an operator told this consumer to finish what it holds and leave"),
            Error::StrategyWithoutEffect { detail, .. } => write!(f, "the strategy {detail}"),
            Error::Undelivered(n) => {
                write!(f, "the results of {n} chunks were not delivered; the server offers these chunks again after their deadline")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let body =
            br#"{"code":"invalid","detail":"The request is not valid.","request_id":"r-7","errors":[{"pointer":"/max","detail":"is 0"}]}"#;
        let error = Error::Refused(Box::new(Refused::of(422, body, Duration::ZERO)));
        assert_eq!(error.to_string(), "The request is not valid. (422 invalid, request r-7; /max is 0)");
        assert!(!error.may_pass() && error.code() == "invalid");
        let proxy = Refused::of(502, b"Bad Gateway\nmore", Duration::ZERO);
        assert_eq!((proxy.detail.as_str(), proxy.code.as_str()), ("Bad Gateway", ""));
        assert!(Error::Refused(Box::new(proxy)).may_pass());
    }
}
