//! Where calls go: to the addresses of a client, and to owners of queues that answers name.

use crate::error::Error;
use crate::random;
use std::sync::Mutex;

const MAX_QUEUES: usize = 256; // whose owners are remembered
const MAX_URL: usize = 2048; // of an owner

/// One address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// for the Host header, and for messages
    pub(crate) authority: String,
    /// path before /v1
    pub(crate) prefix: String,
}

impl Endpoint {
    /// Reads an address such as `http://127.0.0.1:7700` or `http://queue.example/behind/a/proxy`.
    pub(crate) fn parse(address: &str) -> Result<Endpoint, Error> {
        let wrong = || Error::Config(format!("{address:?} is not an address of a server: write it as http://host:port"));
        if address.starts_with("https://") {
            return Err(Error::Config(format!(
                "{address}: this client has no TLS, because Rust's standard library has none. Run a TLS proxy on this machine, such as \
                 stunnel, and give the client its address, http://127.0.0.1:PORT. On a network that you trust, use the server's http address."
            )));
        }
        let rest = address.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rfind(':') {
            Some(colon) if !authority.ends_with(']') => (&authority[..colon], authority[colon + 1..].parse().map_err(|_| wrong())?),
            _ => (authority, 80),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || !rest.bytes().all(|b| b.is_ascii_graphic() && !b"@?#\\".contains(&b)) {
            return Err(wrong());
        }
        let prefix = path.trim_end_matches('/').to_string();
        Ok(Endpoint { host: host.to_string(), port, authority: authority.to_string(), prefix })
    }
}

/// Which address a call goes to.
pub(crate) struct Addresses {
    given: Vec<Endpoint>,
    /// calls of a queue go to its owner
    direct: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    at: usize,
    owners: Vec<(String, Endpoint)>, // by the name of a queue, as paths spell it
}

impl Addresses {
    pub(crate) fn new(addresses: &[String], direct: bool) -> Result<Addresses, Error> {
        let mut given = addresses.iter().map(|address| Endpoint::parse(address)).collect::<Result<Vec<_>, _>>()?;
        for i in (1..given.len()).rev() {
            given.swap(i, random::below(i as u64 + 1) as usize); // so that clients spread
        }
        Ok(Addresses { given, direct, state: Mutex::default() })
    }

    /// How many other addresses a call may try before it pauses.
    pub(crate) fn others(&self) -> usize {
        self.given.len() - usize::from(!self.direct)
    }

    /// Where a call goes now.
    pub(crate) fn of(&self, path: &str) -> Endpoint {
        let state = self.state.lock().unwrap();
        let owner = state.owners.iter().find(|(queue, _)| queue == queue_of(path));
        owner.map_or(&self.given[state.at], |(_, owner)| owner).clone()
    }

    /// Sends the next calls elsewhere, if the error shows that this address does not serve; returns whether it does. A server that is only
    /// busy (429) would be as busy by another way.
    pub(crate) fn leave(&self, path: &str, endpoint: &Endpoint, error: &Error) -> bool {
        let busy = error.refused().map_or(false, |refused| refused.status == 429);
        if !error.may_pass() || busy || matches!(error, Error::Stopped) {
            return false;
        }
        let mut state = self.state.lock().unwrap();
        if let Some(i) = state.owners.iter().position(|(queue, owner)| queue == queue_of(path) && owner == endpoint) {
            state.owners.remove(i);
            return true;
        }
        if self.given[state.at] == *endpoint {
            state.at = (state.at + 1) % self.given.len();
        }
        self.given.len() > 1
    }

    /// Remembers the owner that an answer names, and returns it if this call may go on there. A token never goes to an https owner over
    /// plain http, because such an owner cannot be parsed.
    pub(crate) fn heard(&self, path: &str, status: u16, owner: &str) -> Option<Endpoint> {
        if owner.is_empty() || owner.len() > MAX_URL || !self.direct && status != 421 {
            return None;
        }
        let owner = Endpoint::parse(owner).ok()?;
        let queue = queue_of(path);
        if self.direct && !queue.is_empty() {
            let mut state = self.state.lock().unwrap();
            state.owners.retain(|(name, _)| name != queue);
            if state.owners.len() >= MAX_QUEUES {
                state.owners.remove(0);
            }
            state.owners.push((queue.to_string(), owner.clone()));
        }
        Some(owner)
    }
}

/// The queue that a path is about, as the path spells it; `""` if there is none.
fn queue_of(path: &str) -> &str {
    let rest = path.strip_prefix("/v1/queues/").unwrap_or("");
    rest.split(['/', '?']).next().unwrap_or("")
}

/// A name as a path has it. The names `.` and `..` would change the path.
pub(crate) fn escape(name: &str) -> Result<String, Error> {
    if matches!(name, "" | "." | "..") {
        return Err(Error::Config(format!("{name:?} cannot stand in a path")));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    Ok(name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let one = Endpoint::parse("http://queue.example/behind/").unwrap();
        assert_eq!((&*one.host, one.port, &*one.prefix), ("queue.example", 80, "/behind"));
        let six = Endpoint::parse("http://[::1]:7700").unwrap();
        assert_eq!((&*six.host, six.port, &*six.authority), ("::1", 7700, "[::1]:7700"));
        for wrong in ["", "127.0.0.1:7700", "ftp://a", "http://", "http://:80", "http://a:x", "http://a b", "http://u@h", "http://h/?q"] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong} was taken");
        }
    }

    #[test]
    fn https_is_refused_with_what_to_do() {
        let error = Endpoint::parse("https://queue.example").unwrap_err().to_string();
        assert!(error.contains("no TLS") && error.contains("proxy") && error.contains("http://127.0.0.1:PORT"), "{error}");
    }

    #[test]
    fn owners_are_followed_and_left() {
        let direct = Addresses::new(&["http://a:1".to_string()], true).unwrap();
        let path = "/v1/queues/default/reservations";
        assert!(direct.heard(path, 200, "https://b:2").is_none());
        let owner = direct.heard(path, 200, "http://b:2").unwrap();
        assert_eq!(direct.of(path), owner);
        assert_eq!(direct.of("/v1/queues/other/reservations").host, "a");
        assert!(direct.leave(path, &owner, &Error::NoAnswer(String::new())));
        assert_eq!(direct.of(path).host, "a");
        let plain = Addresses::new(&["http://a:1".to_string()], false).unwrap();
        assert!(plain.heard(path, 200, "http://b:2").is_none() && plain.heard(path, 421, "http://b:2").is_some());
        assert_eq!(plain.of(path).host, "a");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("a b/é").unwrap(), "a%20b%2F%C3%A9");
        assert!(escape("..").is_err());
    }
}
