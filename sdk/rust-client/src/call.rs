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

/// The state that all calls of a client share.
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
        match read_json(request.what, &self.call(request, scope)?)? {
            answer @ Json::Object(_) => Ok(answer),
            _ => Err(Error::BadAnswer(format!("{}: the answer is not what the server's interface says: it is no object", request.what))),
        }
    }

    /// The pause after so many tries: random, from 0 to 0.1 s times 2^tries, on top of the server's Retry-After.
    pub(crate) fn backoff(&self, tries: u32, error: Option<&Error>) -> Duration {
        let most = (BACKOFF_BASE * f64::from(1u32 << tries.min(10))).min(BACKOFF_CAP);
        let asked = error.and_then(Error::refused).map_or(Duration::ZERO, |refused| refused.retry_after);
        Duration::from_micros(random::below((most * 1e6) as u64)) + asked.min(MAX_RETRY_AFTER)
    }

    /// A node that no longer owns the queue answers 421 and has done nothing, so the call goes on to the owner that the node names.
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

    /// One try. A connection that an earlier call left open may be closed by now. The try then moves on to the next kept connection, and in
    /// the end to a new one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, ClientOptions};
    use crate::submission::NewSubmission;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server that sends the given answers: per connection, one answer to each request, in small pieces; then it closes the connection.
    /// Its thread returns the requests that it received.
    fn scripted(connections: &[&[&str]]) -> (Client, std::thread::JoinHandle<Vec<String>>) {
        let connections: Vec<Vec<String>> =
            connections.iter().map(|answers| answers.iter().map(|answer| answer.to_string()).collect()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut asked = vec![];
            for answers in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for answer in answers {
                    let mut request = String::new();
                    while !request.ends_with("\r\n\r\n") && !request.ends_with('}') {
                        let mut byte = [0];
                        stream.read_exact(&mut byte).unwrap();
                        request.push(byte[0] as char);
                    }
                    asked.push(request);
                    for piece in answer.as_bytes().chunks(7) {
                        stream.write_all(piece).unwrap();
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            }
            asked
        });
        let options = ClientOptions { addresses: vec![address], retries: 1, timeout: Duration::from_secs(5), ..Default::default() };
        (Client::with(options).unwrap(), server)
    }

    fn get(client: &Client) -> Result<Json, Error> {
        client.call("GET", "/v1/x", None)
    }

    #[test]
    fn answers_are_read_in_every_framing() {
        let (client, server) = scripted(&[&[
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":2}\r\n0\r\nT: x\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{\"a\":3}",
        ]]);
        let got: Vec<Json> = (0..4).map(|_| get(&client).unwrap()).collect();
        let a = |n: i64| Json::object([("a", n.into())]);
        assert_eq!(got, [a(1), a(2), Json::Null, a(3)]);
        assert_eq!(server.join().unwrap().len(), 4, "one connection had all of them");
    }

    #[test]
    fn what_breaks_off_is_asked_for_again() {
        let (client, server) = scripted(&[
            &["HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"a\":1}"],
            &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n"],
        ]);
        let error = get(&client).unwrap_err();
        assert!(matches!(&error, Error::NoAnswer(text) if text.contains("in the middle")), "{error}");
        assert_eq!(server.join().unwrap().len(), 2);
    }

    #[test]
    fn a_kept_connection_that_was_closed_costs_no_try() {
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        const BUSY: &str = "HTTP/1.1 503 x\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        let (client, server) = scripted(&[&[OK], &[BUSY], &[OK]]);
        get(&client).unwrap();
        std::thread::sleep(Duration::from_millis(50)); // until the server has closed it
        let began = Instant::now();
        get(&client).unwrap();
        assert!(began.elapsed() >= Duration::from_secs(1), "it came before the Retry-After was over");
        assert_eq!(server.join().unwrap().len(), 3);
    }

    #[test]
    fn what_may_not_be_made_twice_is_made_once() {
        let (client, server) = scripted(&[&["HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n"]]);
        let error = client.call("POST", "/v1/x", Some(&Json::object([("a", 1.into())]))).unwrap_err();
        assert_eq!(error.refused().unwrap().status, 503);
        assert_eq!(server.join().unwrap().len(), 1);
    }

    #[test]
    fn an_insert_is_made_again_under_its_key() {
        let (client, server) =
            scripted(&[&["HTTP/1.1 200 OK\r\n"], &["HTTP/1.1 201 x\r\nContent-Length: 27\r\n\r\n{\"id\":\"77\",\"state\":\"open\"}\r\n"]]);
        assert_eq!(client.insert("default", &NewSubmission::inline(["a"])).unwrap().id, "77");
        let asked = server.join().unwrap();
        assert!(asked[0] == asked[1] && asked[0].contains("\r\nIdempotency-Key: "), "{asked:?}");
    }

    #[test]
    fn a_server_that_takes_a_request_bit_by_bit_does_not_hold_the_call() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..200 {
                std::thread::sleep(Duration::from_millis(10));
                let _ = stream.read(&mut [0; 1 << 16]);
            }
        });
        let timeout = Duration::from_millis(200);
        let client = Client::with(ClientOptions { addresses: vec![address], retries: 0, timeout, ..Default::default() }).unwrap();
        let error = client.call("POST", "/v1/x", Some(&Json::from("x".repeat(64 << 20).as_str()))).unwrap_err();
        assert!(matches!(&error, Error::TimedOut(text) if text.contains("did not take")), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn an_answer_that_is_no_object_is_an_error() {
        for body in ["null", "[]", "7", "\"x\""] {
            let (client, server) = scripted(&[&[&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())]]);
            let error = client.insert("default", &NewSubmission::inline(["a"])).unwrap_err();
            assert!(matches!(&error, Error::BadAnswer(text) if text.contains("no object")), "{body}: {error}");
            server.join().unwrap();
        }
    }

    #[test]
    fn an_answer_without_end_is_an_error() {
        for head in ["", "Content-Length: 10737418240\r\n", "Transfer-Encoding: chunked\r\n"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1000]).unwrap();
                write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n").unwrap();
                let piece = format!("400\r\n{}\r\n", " ".repeat(1024));
                // until the client hangs up
                (0..100_000).take_while(|_| stream.write_all(piece.as_bytes()).is_ok()).count()
            });
            let options = ClientOptions { addresses: vec![address], retries: 0, ..Default::default() };
            let error = get(&Client::with(options).unwrap()).unwrap_err();
            assert!(matches!(&error, Error::BadAnswer(text) if text.contains("longer than a server's")), "{head:?}: {error}");
            assert!(server.join().unwrap() < 100_000, "{head:?}: the client read all of it");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (answer, want) in [
            ("SSH-2.0-x\r\n", "HTTP/1.1"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", "Content-Length"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "size"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", "longer"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "interface"),
        ] {
            let (client, server) = scripted(&[&[answer]]);
            let error = get(&client).unwrap_err();
            assert!(matches!(&error, Error::BadAnswer(text) if text.contains(want)), "{error}, want {want}");
            server.join().unwrap();
        }
    }
}
