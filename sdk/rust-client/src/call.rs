//! How a call is made: to which address, over which connection, and again where that is safe and may help.

use crate::address::{Addresses, Endpoint};
use crate::error::{Error, Refused};
use crate::http::{Answer, Connection, Headers, Request};
use crate::json::Json;
use crate::notice::Notices;
use crate::random;
use crate::scope::Scope;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BACKOFF_BASE: f64 = 0.1; // seconds
const BACKOFF_CAP: f64 = 5.0;
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60); // a server that asks for more is asked again after this
const MAX_IDLE: usize = 64; // connections that are kept
const IDLE: Duration = Duration::from_secs(60); // for how long

/// What all calls of a client share.
pub(crate) struct Caller {
    pub(crate) addresses: Addresses,
    pub(crate) token: String,
    pub(crate) retries: u32,
    pub(crate) timeout: Duration,
    pub(crate) idle: Mutex<Vec<(Endpoint, Connection)>>,
    pub(crate) notices: Notices,
}

/// An answer that was read, or that is to be read as it comes.
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    /// of [`Caller::open`]
    pub(crate) stream: Option<Answer>,
}

/// The pieces of a streamed request.
type Pieces<'a> = Option<&'a mut dyn Iterator<Item = Vec<u8>>>;

impl Caller {
    /// Makes a call and reads its whole answer.
    pub(crate) fn call(&self, request: &Request, scope: &Arc<Scope>) -> Result<Vec<u8>, Error> {
        Ok(self.repeat(request, scope, false, None)?.body)
    }

    /// Makes a call whose answer is read as it comes.
    pub(crate) fn open(&self, request: &Request, scope: &Arc<Scope>) -> Result<Answer, Error> {
        Ok(self.repeat(request, scope, true, None)?.stream.expect("a stream was asked for"))
    }

    /// Makes a call whose body comes in pieces. It cannot be made again.
    pub(crate) fn send(&self, request: &Request, scope: &Arc<Scope>, pieces: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Json, Error> {
        read_json(request.what, &self.repeat(request, scope, false, Some(pieces))?.body)
    }

    /// Makes a call and reads the JSON of its answer.
    pub(crate) fn fetch(&self, request: &Request, scope: &Arc<Scope>) -> Result<Json, Error> {
        read_json(request.what, &self.call(request, scope)?)
    }

    /// The pause after so many tries: a draw from 0 to 0.1 s times 2^tries, on top of what the server asked for.
    pub(crate) fn backoff(&self, tries: u32, error: Option<&Error>) -> Duration {
        let most = (BACKOFF_BASE * f64::from(1u32 << tries.min(10))).min(BACKOFF_CAP);
        let asked = error.and_then(Error::refused).map_or(Duration::ZERO, |refused| refused.retry_after);
        Duration::from_micros(random::below((most * 1e6) as u64)) + asked.min(MAX_RETRY_AFTER)
    }

    /// A node that does not own the queue any more has done nothing (421), so that the call goes on to the owner that it names.
    fn repeat(&self, request: &Request, scope: &Arc<Scope>, stream: bool, mut pieces: Pieces<'_>) -> Result<Reply, Error> {
        let mut elsewhere = self.addresses.others();
        let mut tries = 0;
        let mut owner: Option<Endpoint> = None; // that a node has named
        loop {
            let endpoint = owner.clone().unwrap_or_else(|| self.addresses.of(&request.path));
            let (error, named) = match self.attempt(request, &endpoint, scope, stream, &mut pieces) {
                Ok((status, headers, reply)) => {
                    let named = self.addresses.heard(&request.path, status, headers.get("quern-owner"));
                    if status < 300 {
                        return Ok(reply);
                    }
                    let refused = Refused::of(status, &reply.body, headers.retry_after());
                    (Error::Refused(Box::new(refused)), named.filter(|named| status == 421 && *named != endpoint))
                }
                Err(Error::NoAnswer(_)) if scope.ended() => (Error::Stopped, None),
                Err(error) => (error, None),
            };
            if owner.is_none() && named.is_some() && !request.streamed {
                owner = named;
                continue;
            }
            owner = None;
            let moved = self.addresses.leave(&request.path, &endpoint, &error);
            if !request.safe || !error.may_pass() || scope.ended() {
                return Err(error);
            }
            if moved && elsewhere > 0 {
                elsewhere -= 1;
                continue;
            }
            elsewhere = self.addresses.others();
            if tries >= self.retries || !scope.pause(self.backoff(tries, Some(&error))) {
                return Err(error);
            }
            tries += 1;
        }
    }

    /// One try. What was kept of an earlier call may be closed by now: such a try is made again on the next connection, at the latest on a
    /// new one.
    fn attempt(
        &self,
        request: &Request,
        endpoint: &Endpoint,
        scope: &Arc<Scope>,
        stream: bool,
        pieces: &mut Pieces<'_>,
    ) -> Result<(u16, Headers, Reply), Error> {
        loop {
            let kept = if stream || request.streamed { None } else { self.take(endpoint) };
            let connection = kept.map_or_else(|| Connection::open(endpoint), Ok)?;
            let until = Instant::now() + request.patience.unwrap_or(self.timeout) + request.wait;
            let guard = scope.enter(&connection.stream);
            let pieces = pieces.as_mut().map(|pieces| &mut **pieces as &mut dyn Iterator<Item = Vec<u8>>);
            match connection.call(request, (endpoint, &self.token), pieces, (self.timeout, until, guard)) {
                Ok(answer) if stream && answer.status == 200 => {
                    return Ok((200, answer.headers.clone(), Reply { body: vec![], stream: Some(answer) }));
                }
                Ok(answer) => {
                    let (status, headers) = (answer.status, answer.headers.clone());
                    let (body, kept) = answer.finish(until)?;
                    if let Some(connection) = kept.filter(|_| !scope.ended()) {
                        self.give(endpoint, connection);
                    }
                    return Ok((status, headers, Reply { body, stream: None }));
                }
                Err(failed) if failed.stale && request.safe && !scope.ended() => continue,
                Err(failed) => return Err(failed.error),
            }
        }
    }

    fn take(&self, endpoint: &Endpoint) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap();
        idle.retain(|(_, connection)| connection.since.map_or(false, |since| since.elapsed() < IDLE));
        let place = idle.iter().rposition(|(of, _)| of == endpoint)?;
        Some(idle.remove(place).1)
    }

    fn give(&self, endpoint: &Endpoint, connection: Connection) {
        let mut idle = self.idle.lock().unwrap();
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push((endpoint.clone(), connection));
    }
}

/// Reads an answer.
pub(crate) fn read_json(what: &str, body: &[u8]) -> Result<Json, Error> {
    Json::parse(body).map_err(|fault| Error::BadAnswer(format!("{what}: the answer is not what the server's interface says: {fault}")))
}
