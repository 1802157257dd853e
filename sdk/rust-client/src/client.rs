//! The client: how a program inserts work, waits for it, and makes any other call.

use crate::address::{escape, Addresses};
use crate::call::{read_json, Caller};
use crate::error::{Error, Refused};
use crate::http::{Answer, Request};
use crate::json::Json;
use crate::random;
use crate::scope::Scope;
use crate::shared::{Shared, Turn, Waiter, Word, LARGE};
use crate::submission::{visible, NewSubmission, Output, Submission};
use std::sync::Arc;
use std::time::{Duration, Instant};

// Bounds of one call of many. A larger call makes no insert cheaper, and delays the other callers that share the commit.
const CALL_COUNT: usize = 1000;
const CALL_BYTES: usize = 8 << 20;
const WAIT_SECONDS: u64 = 30; // that the server is asked to hold its answer

/// Options of a client. The defaults suit most programs.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// addresses of one server, or of several nodes that serve the same queues: `http://host:port`
    pub addresses: Vec<String>,
    /// an access token; `""` for none
    pub token: String,
    /// send the calls of a queue straight to the node of a cluster that owns it
    pub direct: bool,
    /// further attempts of a call
    pub retries: u32,
    /// for one attempt, not counting the time that you asked the server to wait
    pub timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        let addresses = vec!["http://127.0.0.1:7700".to_string()];
        ClientOptions { addresses, token: String::new(), direct: false, retries: 5, timeout: Duration::from_secs(30) }
    }
}

/// A client of a Quern server. Clones share their connections. It can be used from many threads at once.
#[derive(Clone)]
pub struct Client {
    pub(crate) caller: Arc<Caller>,
    /// of calls that no worker makes: it never ends
    scope: Arc<Scope>,
    shared: Arc<Shared>,
}

impl Client {
    /// A client of the server at an address such as `http://127.0.0.1:7700`.
    pub fn new(address: &str) -> Result<Client, Error> {
        Client::with(ClientOptions { addresses: vec![address.to_string()], ..ClientOptions::default() })
    }

    /// A client with these options.
    pub fn with(options: ClientOptions) -> Result<Client, Error> {
        if options.addresses.is_empty() || options.timeout.is_zero() {
            return Err(Error::Config("a client needs an address, and a timeout of more than 0".to_string()));
        }
        if !visible(&options.token) {
            let text = "the token has characters that no token has (spaces, line breaks or others outside ASCII)";
            return Err(Error::Config(text.to_string()));
        }
        let caller = Caller {
            addresses: Addresses::new(&options.addresses, options.direct)?,
            token: options.token,
            retries: options.retries,
            timeout: options.timeout,
            idle: Default::default(),
            notices: Default::default(),
        };
        Ok(Client { caller: Arc::new(caller), scope: Arc::default(), shared: Arc::default() })
    }

    /// Inserts a submission. After a lost answer the client repeats it under the same idempotency key. Inserts of several threads that
    /// overlap share calls: those that begin during a call go together in the next one, each with its own result.
    pub fn insert(&self, queue: &str, new: &NewSubmission) -> Result<Submission, Error> {
        let key = new.insert_key()?;
        let mut request = Request::json("insert", format!("/v1/queues/{}/submissions", escape(queue)?), new.body().to_string());
        request.headers.push(("Idempotency-Key", key.clone()));
        let alone = || Submission::of(self.caller.fetch(&request, &self.scope)?);
        if request.body.len() > LARGE {
            return alone();
        }
        let told = match self.shared.begin(queue, || new.keyed(&key)) {
            Turn::Own(_under) => return alone(),
            Turn::Wait(told) => told,
        };
        let mut word = told.recv();
        if let Ok(Word::Lead(call)) = word {
            let _under = self.shared.under(queue);
            self.insert_call(queue, &call);
            word = told.recv();
        }
        match word {
            Ok(Word::Outcome(result)) => *result,
            _ => alone(), // under the same key it is inserted once, and its refusal is that of a single insert
        }
    }

    /// Makes one call for some inserts, and tells each its outcome. A refused submission, and those of a refused call, ask alone.
    fn insert_call(&self, queue: &str, call: &[Waiter]) {
        let texts = call.iter().map(|one| &*one.text).collect::<Vec<_>>();
        let results = self.insert_texts(queue, "insert", &texts);
        for (at, one) in call.iter().enumerate() {
            one.tell(match &results {
                Ok(answer) => match answer.get("results").items()[at].get("submission") {
                    submission @ Json::Object(_) => Word::Outcome(Box::new(Submission::of(submission.clone()))),
                    _ => Word::Alone,
                },
                Err(Error::Refused(refused)) if refused.status < 500 => Word::Alone,
                Err(error) => Word::Outcome(Box::new(Err(error.clone()))),
            });
        }
    }

    /// Makes one call for some submissions. The answer has as many results.
    fn insert_texts(&self, queue: &str, what: &'static str, texts: &[&str]) -> Result<Json, Error> {
        let body = format!("{{\"submissions\":[{}]}}", texts.join(","));
        let request = Request::json(what, format!("/v1/queues/{}/submissions:batch", escape(queue)?), body);
        let answer = self.caller.fetch(&request, &self.scope)?;
        if answer.get("results").items().len() != texts.len() {
            return Err(Error::BadAnswer(format!("{what}: the answer does not have {} results", texts.len())));
        }
        Ok(answer)
    }

    /// Inserts many submissions, up to 1,000 per call and commit. Each has its own result. If a call fails, its error is returned;
    /// submissions that earlier calls inserted stay.
    pub fn insert_many(&self, queue: &str, list: &[NewSubmission]) -> Result<Vec<Result<Submission, Error>>, Error> {
        let texts = list.iter().map(NewSubmission::one_of_many).collect::<Result<Vec<_>, _>>()?;
        let (mut results, mut rest) = (Vec::with_capacity(list.len()), &texts[..]);
        while !rest.is_empty() {
            let mut size = 0;
            let fit = rest.iter().take(CALL_COUNT).take_while(|text| {
                size += text.len();
                size <= CALL_BYTES
            });
            let n = fit.count().max(1);
            let answer = self.insert_texts(queue, "insert many", &rest[..n].iter().map(|text| &**text).collect::<Vec<_>>())?;
            results.extend(answer.get("results").items().iter().enumerate().map(|(at, result)| one_of_many(at, result)));
            rest = &rest[n..];
        }
        Ok(results)
    }

    /// Inserts a submission, and sends its chunks as an iterator yields them. It makes the call once: after an error it is not known whether
    /// the server has inserted.
    pub fn insert_stream<T: AsRef<[u8]>>(
        &self,
        queue: &str,
        new: &NewSubmission,
        contents: impl IntoIterator<Item = T>,
    ) -> Result<Submission, Error> {
        let mut request = Request::new("insert", "POST", format!("/v1/queues/{}/submissions", escape(queue)?));
        request.headers = vec![("Content-Type", "application/x-ndjson".to_string()), ("Idempotency-Key", new.insert_key()?)];
        request.safe = false;
        request.streamed = true;
        let lines = std::iter::once(new.body()).chain(contents.into_iter().map(|content| Json::bytes(content.as_ref())));
        Submission::of(self.caller.send(&request, &self.scope, &mut Pieces { lines })?)
    }

    /// Waits until a submission has ended; `None` waits without limit.
    pub fn wait(&self, submission: &str, timeout: Option<Duration>) -> Result<Submission, Error> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = until.map_or(WAIT_SECONDS, |until| until.saturating_duration_since(Instant::now()).as_secs());
            let seconds = left.clamp(1, WAIT_SECONDS);
            let mut request = Request::new("wait", "GET", format!("/v1/submissions/{}", escape(submission)?));
            request.headers = vec![("Prefer", format!("wait={seconds}"))];
            request.wait = Duration::from_secs(seconds);
            let found = Submission::of(self.caller.fetch(&request, &self.scope)?)?;
            if found.state != "open" {
                return Ok(found);
            }
            if until.map_or(false, |until| Instant::now() >= until) {
                return Err(Error::StillOpen(format!("submission {submission} is still open after {timeout:?}")));
            }
            // A server that does not hold its answers is not asked in a tight loop.
            self.scope.pause(Duration::from_millis(random::below(100)));
        }
    }

    /// Waits for many submissions, of any queues, in calls of up to 1,000. The iterator yields each once, as it ends. For an id that the
    /// server does not know it yields the error `unknown_submission`, and continues; any other error ends it.
    pub fn wait_many<T: AsRef<str>>(&self, submissions: impl IntoIterator<Item = T>) -> Ended<'_> {
        let mut left: Vec<String> = vec![];
        let mut seen = std::collections::HashSet::new();
        for id in submissions {
            let id = id.as_ref().parse::<u64>().map_or_else(|_| id.as_ref().to_string(), |id| id.to_string());
            if seen.insert(id.clone()) {
                left.push(id);
            }
        }
        Ended { client: self, left, ready: Default::default() }
    }

    /// The outputs of a submission's chunks in the order of their indexes, without chunks that have none.
    pub fn outputs(&self, submission: &str) -> Result<Outputs, Error> {
        let request = Request::new("outputs", "GET", format!("/v1/submissions/{}/outputs", escape(submission)?));
        let answer = self.caller.open(&request, &self.scope)?;
        Ok(Outputs { answer: Some(answer), rest: vec![], at: 0, timeout: self.caller.timeout })
    }

    /// Makes any other call of the HTTP API, such as `call("PUT", "/v1/queues/nightly", Some(&settings))`. The client repeats it after a
    /// failure if it is a GET, PUT or DELETE: it may then have been made twice.
    pub fn call(&self, method: &'static str, path: &str, body: Option<&Json>) -> Result<Json, Error> {
        if !path.starts_with("/v1/") || !visible(path) {
            return Err(Error::Config(format!("{path:?} is not an escaped path below /v1/")));
        }
        let mut request = Request::json("call", path.to_string(), body.map_or(String::new(), Json::to_string));
        request.method = method;
        request.safe = method != "POST" && method != "PATCH";
        let answer = self.caller.call(&request, &self.scope)?;
        if answer.is_empty() {
            return Ok(Json::Null);
        }
        read_json("call", &answer)
    }
}

/// Submissions as they end; see [`Client::wait_many`].
pub struct Ended<'a> {
    client: &'a Client,
    left: Vec<String>,
    ready: std::collections::VecDeque<Result<Submission, Error>>,
}

impl Ended<'_> {
    /// Asks once, and waits until one of them has ended, or for half a minute.
    fn ask(&mut self) -> Result<(), Error> {
        let ids = self.left.iter().take(CALL_COUNT).map(|id| Json::from(&**id)).collect::<Vec<_>>();
        let body = Json::object([("ids", ids.into()), ("wait_ms", (WAIT_SECONDS as u32 * 1000).into())]);
        let mut request = Request::json("wait", "/v1/submissions:wait".to_string(), body.to_string());
        request.wait = Duration::from_secs(WAIT_SECONDS);
        let answer = self.client.caller.fetch(&request, &self.client.scope)?;
        let mut over = std::collections::HashSet::new();
        for one in answer.get("ended").items() {
            let submission = Submission::of(one.clone())?;
            over.insert(submission.id.clone());
            self.ready.push_back(Ok(submission));
        }
        for id in answer.get("unknown").items() {
            over.insert(id.text().to_string());
            self.ready.push_back(Err(Error::Refused(Box::new(Refused {
                status: 404,
                code: "unknown_submission".to_string(),
                detail: format!("There is no submission {}.", id.text()),
                problems: vec![],
                retry_after: Duration::ZERO,
                request_id: String::new(),
            }))));
        }
        self.left.retain(|id| !over.contains(id));
        Ok(())
    }
}

impl Iterator for Ended<'_> {
    type Item = Result<Submission, Error>;

    fn next(&mut self) -> Option<Result<Submission, Error>> {
        while self.ready.is_empty() && !self.left.is_empty() {
            if let Err(error) = self.ask() {
                self.left.clear();
                self.ready.clear();
                return Some(Err(error));
            }
            if self.ready.is_empty() {
                // A server that does not hold its answers is not asked in a tight loop.
                self.client.scope.pause(Duration::from_millis(random::below(100)));
            }
        }
        self.ready.pop_front()
    }
}

/// The result of one submission of many: the submission, or the error that a call of its own would have had.
fn one_of_many(at: usize, result: &Json) -> Result<Submission, Error> {
    if let submission @ Json::Object(_) = result.get("submission") {
        return Submission::of(submission.clone());
    }
    let text = |name| result.get(name).text().to_string();
    let pointer = text("pointer");
    let own = pointer.strip_prefix(&format!("/submissions/{at}")).unwrap_or(&pointer).to_string();
    Err(Error::Refused(Box::new(Refused {
        status: 422,
        code: text("code"),
        detail: text("detail"),
        problems: if text("status") == "invalid" { vec![(own, text("detail"))] } else { vec![] },
        retry_after: Duration::ZERO,
        request_id: String::new(),
    })))
}

/// Puts lines into pieces that are worth a write.
struct Pieces<I> {
    lines: I,
}

impl<I: Iterator<Item = Json>> Iterator for Pieces<I> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut piece = String::new();
        for line in self.lines.by_ref() {
            piece += &format!("{line}\n");
            if piece.len() >= 64 << 10 {
                break;
            }
        }
        Some(piece.into_bytes()).filter(|piece| !piece.is_empty())
    }
}

/// Outputs, read as they come. An answer that breaks off ends with an error.
pub struct Outputs {
    answer: Option<Answer>, // until its end, or an error
    rest: Vec<u8>,
    at: usize, // where the next line begins
    timeout: Duration,
}

impl Outputs {
    fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut seen = self.at;
        loop {
            if let Some(end) = self.rest[seen..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest[self.at..seen + end].to_vec();
                self.at = seen + end + 1;
                return Ok(Some(line));
            }
            self.rest.drain(..self.at);
            (self.at, seen) = (0, self.rest.len());
            let data = match &mut self.answer {
                Some(answer) => answer.read(Instant::now() + self.timeout)?,
                None => vec![],
            };
            if data.is_empty() {
                self.answer = None;
                return Ok(Some(std::mem::take(&mut self.rest)).filter(|line| !line.is_empty()));
            }
            self.rest.extend(data);
        }
    }
}

impl Iterator for Outputs {
    type Item = Result<Output, Error>;

    fn next(&mut self) -> Option<Result<Output, Error>> {
        let read = self.line().and_then(|line| line.map(|line| read_json("outputs", &line)).transpose());
        let output = read.transpose()?.and_then(|mut found| {
            let index = found.get("index").int().and_then(|index| u32::try_from(index).ok());
            let both = index.and_then(|index| Some(Output { index, data: found.take("output").into_bytes()? }));
            both.ok_or_else(|| Error::BadAnswer("outputs: a line of the answer is no output".to_string()))
        });
        if output.is_err() {
            (self.answer, self.rest, self.at) = (None, vec![], 0);
        }
        Some(output)
    }
}
