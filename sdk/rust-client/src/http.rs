//! HTTP/1.1 over one connection: a request goes out, and an answer is read, in whatever pieces it comes.

use crate::address::Endpoint;
use crate::error::Error;
use crate::scope::Guard;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAX_HEAD: usize = 64 << 10;
/// 1,000 chunks of 1 MiB, in base64, and change; less in tests, so that they reach it.
const MAX_ANSWER: usize = if cfg!(test) { 1 << 20 } else { 1500 << 20 };
const CONNECT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

/// A call whose address is not chosen yet.
pub(crate) struct Request {
    /// for messages
    pub(crate) what: &'static str,
    pub(crate) method: &'static str,
    /// escaped, with the query
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// how long the server was asked to wait
    pub(crate) wait: Duration,
    /// how long one try may take, instead of the client's timeout
    pub(crate) patience: Option<Duration>,
    /// may be made twice
    pub(crate) safe: bool,
    /// the body comes in pieces, behind the head
    pub(crate) streamed: bool,
}

impl Request {
    pub(crate) fn new(what: &'static str, method: &'static str, path: String) -> Request {
        let wait = Duration::ZERO;
        Request { what, method, path, headers: vec![], body: vec![], wait, patience: None, safe: true, streamed: false }
    }

    pub(crate) fn json(what: &'static str, path: String, body: String) -> Request {
        let headers = vec![("Content-Type", "application/json".to_string())];
        Request { headers, body: body.into_bytes(), ..Request::new(what, "POST", path) }
    }

    /// The request in bytes; of a streamed one the head.
    fn encode(&self, endpoint: &Endpoint, token: &str) -> Vec<u8> {
        let Endpoint { authority, prefix, .. } = endpoint;
        let mut head = format!("{} {prefix}{} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: quern-rust\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !token.is_empty() {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if self.streamed {
            head += "Transfer-Encoding: chunked\r\n";
        } else if self.method != "GET" {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }
}

/// One connection, used by one call at a time.
pub(crate) struct Connection {
    pub(crate) stream: Arc<TcpStream>,
    buffer: Vec<u8>,
    /// bytes of the buffer that were taken
    taken: usize,
    /// something of the answer came
    heard: bool,
    /// when its last call ended; `None` before the first one did
    pub(crate) since: Option<Instant>,
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Connection, Error> {
        let failed = |fault| Error::NoAnswer(format!("no server answers at {}:{}: {fault}", endpoint.host, endpoint.port));
        let mut last = std::io::Error::from(ErrorKind::NotFound);
        for address in (&*endpoint.host, endpoint.port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(failed)?;
                    return Ok(Connection { stream: Arc::new(stream), buffer: vec![], taken: 0, heard: false, since: None });
                }
                Err(fault) => last = fault,
            }
        }
        Err(failed(last))
    }

    pub(crate) fn send(&self, data: &[u8], patience: Duration) -> Result<(), Error> {
        let until = Instant::now() + patience;
        let mut rest = data;
        let sent = loop {
            if rest.is_empty() {
                break Ok(());
            }
            let left = until.saturating_duration_since(Instant::now()); // of all writes: a server may take a few bytes at a time
            if left.is_zero() {
                break Err(ErrorKind::TimedOut.into());
            }
            match self.stream.set_write_timeout(Some(left)).and_then(|()| (&*self.stream).write(rest)) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(n) => rest = &rest[n..],
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) => break Err(fault),
            }
        };
        sent.map_err(|fault: std::io::Error| match fault.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::TimedOut("the server did not take the request in time".to_string()),
            _ => Error::NoAnswer(format!("the request could not be sent: {fault}")),
        })
    }

    /// Makes a call and reads the head of its answer. `pieces` is the body of a streamed request.
    pub(crate) fn call(
        mut self,
        request: &Request,
        (endpoint, token): (&Endpoint, &str),
        pieces: Option<&mut dyn Iterator<Item = Vec<u8>>>,
        (patience, until, guard): (Duration, Instant, Guard),
    ) -> Result<Answer, Failed> {
        self.heard = false;
        let mut sent = self.send(&request.encode(endpoint, token), patience);
        for data in pieces.into_iter().flatten() {
            if sent.is_err() {
                break;
            }
            sent = self.send(&[format!("{:x}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat(), patience);
        }
        if request.streamed && sent.is_ok() {
            sent = self.send(b"0\r\n\r\n", patience);
        }
        let used = self.since.is_some();
        match self.head(until) {
            // A server may answer before it has read all, such as a body over the limit.
            Ok((status, headers, keep)) => Answer::new(self, guard, status, headers, keep && sent.is_ok()),
            Err(error) => {
                // A kept connection may have been closed by the server, which shows only when it is used.
                let stale = used && !self.heard && !matches!(error, Error::TimedOut(_));
                return Err(Failed { stale, error: sent.err().unwrap_or(error) });
            }
        }
        .map_err(|error| Failed { stale: false, error })
    }

    /// Reads some bytes into the buffer. False at the end of the connection.
    fn fill(&mut self, until: Instant) -> Result<bool, Error> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let old = self.buffer.len();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::TimedOut("no answer in time".to_string()));
        }
        self.buffer.resize(old + READ_BYTES, 0);
        let read = loop {
            match self.stream.set_read_timeout(Some(left)).and_then(|()| (&*self.stream).read(&mut self.buffer[old..])) {
                Err(fault) if fault.kind() == ErrorKind::Interrupted => continue,
                read => break read,
            }
        };
        self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(n) => {
                self.heard |= n > 0;
                Ok(n > 0)
            }
            Err(fault) if matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Error::TimedOut("no answer in time".to_string()))
            }
            Err(fault) => Err(Error::NoAnswer(format!("no answer: {fault}"))),
        }
    }

    /// A line without its end.
    fn line(&mut self, until: Instant) -> Result<String, Error> {
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.taken += end + 2;
                return Ok(line);
            }
            if rest.len() > MAX_HEAD {
                return Err(Error::BadAnswer(format!("a line of the answer's head is longer than {MAX_HEAD} bytes")));
            }
            if !self.fill(until)? {
                let place = if !self.heard { "before an answer" } else { "in the middle of the answer" };
                return Err(Error::NoAnswer(format!("the connection ended {place}")));
            }
        }
    }

    fn head(&mut self, until: Instant) -> Result<(u16, Headers, bool), Error> {
        loop {
            let first = self.line(until)?;
            let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
            let status = status.ok_or_else(|| Error::BadAnswer(format!("this is not an answer in HTTP/1.1: {first:.40?}")))?;
            let mut headers = Headers(vec![]);
            let mut size = 0;
            loop {
                let line = self.line(until)?;
                if line.is_empty() {
                    break;
                }
                size += line.len();
                let (name, value) =
                    line.split_once(':').filter(|_| size <= MAX_HEAD && !line.starts_with([' ', '\t'])).ok_or_else(|| {
                        Error::BadAnswer(format!("a line of the answer's head is broken, or the head is too long: {line:.60?}"))
                    })?;
                headers.0.push((name.to_ascii_lowercase(), value.trim().to_string()));
            }
            let keep = first.starts_with("HTTP/1.1") && !headers.get("connection").eq_ignore_ascii_case("close");
            match status {
                101 => return Err(Error::BadAnswer("the server switched protocols".to_string())),
                100..=199 => continue, // the real answer follows
                _ => return Ok((status, headers, keep)),
            }
        }
    }
}

/// Why there is no answer.
pub(crate) struct Failed {
    /// the connection had been kept from an earlier call, and nothing came back on it: another one may do
    pub(crate) stale: bool,
    pub(crate) error: Error,
}

#[derive(Clone)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// A header by its name in lower case; `""` if it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// How long the server asked to wait. A date counts from the answer's own: the clocks need not agree.
    pub(crate) fn retry_after(&self) -> Duration {
        let value = self.get("retry-after");
        let dates = || Some(moment(value)?.saturating_sub(moment(self.get("date"))?).max(0) as u64);
        Duration::from_secs(value.parse::<u32>().ok().map(u64::from).or_else(dates).unwrap_or(0))
    }
}

/// The seconds since the year 0 of a date as HTTP writes it: `Wed, 21 Oct 2026 07:28:30 GMT`.
fn moment(date: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let parts: Vec<&str> = date.split(&[' ', ':'][..]).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = parts[..] else { return None };
    let number = |text: &str| text.parse::<u16>().ok().map(i64::from);
    let month = MONTHS.match_indices(month).find(|(at, found)| at % 3 == 0 && found.len() == 3)?.0 as i64 / 3;
    // The year begins in March, so that a leap day is the last of its year.
    let years = number(year)? - i64::from(month < 2);
    let days = years * 365 + years / 4 - years / 100 + years / 400 + ((month + 10) % 12 * 153 + 2) / 5 + number(day)?;
    Some(((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?)
}

enum Framing {
    Done,
    /// so many bytes are left
    Length(u64),
    /// so many bytes are left of this piece
    Pieces(u64),
    UntilEnd,
}

/// An answer, whose body is read as it comes.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    connection: Connection,
    framing: Framing,
    keep: bool,
    _guard: Guard,
}

impl Answer {
    fn new(connection: Connection, guard: Guard, status: u16, headers: Headers, mut keep: bool) -> Result<Answer, Error> {
        let (coding, length) = (headers.get("transfer-encoding"), headers.get("content-length"));
        let framing = if matches!(status, 204 | 304) {
            Framing::Done
        } else if coding.eq_ignore_ascii_case("chunked") {
            keep &= length.is_empty(); // two lengths are none to build the next answer's start on
            Framing::Pieces(0)
        } else if !coding.is_empty() {
            return Err(Error::BadAnswer(format!("the answer's Transfer-Encoding is not known: {coding:.60?}")));
        } else if length.is_empty() {
            keep = false;
            Framing::UntilEnd
        } else {
            match length.parse() {
                Ok(0) => Framing::Done,
                Ok(n) => Framing::Length(n),
                Err(_) => return Err(Error::BadAnswer(format!("the answer's Content-Length is broken: {length:.60?}"))),
            }
        };
        Ok(Answer { status, headers, connection, framing, keep, _guard: guard })
    }

    /// Some bytes of the body; none at its end.
    pub(crate) fn read(&mut self, until: Instant) -> Result<Vec<u8>, Error> {
        loop {
            let left = match self.framing {
                Framing::Done => return Ok(vec![]),
                Framing::Length(left) => left,
                Framing::Pieces(0) => {
                    self.next_piece(until)?;
                    continue;
                }
                Framing::Pieces(left) => left,
                Framing::UntilEnd => u64::MAX,
            };
            let connection = &mut self.connection;
            if connection.taken == connection.buffer.len() && !connection.fill(until)? {
                if matches!(self.framing, Framing::UntilEnd) {
                    self.framing = Framing::Done;
                    return Ok(vec![]);
                }
                return Err(Error::NoAnswer("the connection ended in the middle of the answer".to_string()));
            }
            let rest = &connection.buffer[connection.taken..];
            let n = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let data = rest[..n].to_vec();
            connection.taken += n;
            let left = left - n as u64;
            self.framing = match self.framing {
                Framing::Length(_) if left == 0 => Framing::Done,
                Framing::Length(_) => Framing::Length(left),
                Framing::Pieces(_) => Framing::Pieces(left),
                _ => Framing::UntilEnd,
            };
            if let Framing::Pieces(0) = self.framing {
                if !self.connection.line(until)?.is_empty() {
                    return Err(Error::BadAnswer("a piece of the answer is longer than it says".to_string()));
                }
            }
            return Ok(data);
        }
    }

    fn next_piece(&mut self, until: Instant) -> Result<(), Error> {
        let line = self.connection.line(until)?;
        let size = line.split(';').next().unwrap_or("").trim();
        let n = u64::from_str_radix(size, 16)
            .map_err(|_| Error::BadAnswer(format!("the size of a piece of the answer is broken: {size:.40?}")))?;
        self.framing = Framing::Pieces(n);
        if n == 0 {
            while !self.connection.line(until)?.is_empty() {} // trailers, which no one asked for
            self.framing = Framing::Done;
        }
        Ok(())
    }

    /// The whole body, and the connection if it can be used again.
    pub(crate) fn finish(mut self, until: Instant) -> Result<(Vec<u8>, Option<Connection>), Error> {
        let mut body = vec![];
        loop {
            let data = self.read(until)?;
            if data.is_empty() {
                break;
            }
            if body.len() + data.len() > MAX_ANSWER {
                return Err(Error::BadAnswer("the answer is longer than a server's can be".to_string()));
            }
            body.extend(data);
        }
        let spare = self.connection.buffer.len() > self.connection.taken; // more than the answer came
        self.connection.since = Some(Instant::now());
        Ok((body, Some(self.connection).filter(|_| self.keep && !spare)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, date, want) in [
            ("", "", 0),
            ("7", "", 7),
            ("-1", "", 0),
            ("soon", "", 0),
            ("Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30),
            ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:30 GMT", 0),
            ("Wed, 21 Oct 2026 07:28:00 GMT", "", 0),
            ("Wed, 21 Oct 2026 07:28:00 CET", "Wed, 21 Oct 2026 07:28:00 CET", 0),
            ("Fri, 01 Jan 2027 00:00:01 GMT", "Thu, 31 Dec 2026 23:59:59 GMT", 2),
            ("Fri, 01 Mar 2024 00:00:00 GMT", "Wed, 28 Feb 2024 00:00:00 GMT", 2 * 86_400),
            ("Mon, 01 Mar 2100 00:00:00 GMT", "Sun, 28 Feb 2100 00:00:00 GMT", 86_400),
            ("Mon, 01 Jan 2001 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 GMT", 366 * 86_400),
            ("Mon, 30 Nov 2026 00:00:00 GMT", "Mon, 01 Jun 2026 00:00:00 GMT", 182 * 86_400),
        ] {
            let headers = Headers(vec![("retry-after".into(), value.into()), ("date".into(), date.into())]);
            assert_eq!(headers.retry_after(), Duration::from_secs(want), "{value:?} at {date:?}");
        }
    }
}
