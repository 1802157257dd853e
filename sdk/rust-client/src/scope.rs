//! Calls of one worker run in a scope, so that the worker can break them off.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A set of connections that can be ended together.
#[derive(Default)]
pub(crate) struct Scope {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ended: bool,
    next: u64,
    open: HashMap<u64, Arc<TcpStream>>,
}

impl Scope {
    /// Adds a connection, for as long as the guard lives.
    pub(crate) fn enter(self: &Arc<Scope>, stream: &Arc<TcpStream>) -> Guard {
        let mut state = self.state.lock().unwrap();
        if state.ended {
            let _ = stream.shutdown(Shutdown::Both); // the server may have closed it already
        }
        state.next += 1;
        let id = state.next;
        state.open.insert(id, stream.clone());
        Guard { scope: self.clone(), id }
    }

    /// Waits. False when the end of the scope cut it short.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state.lock().unwrap();
        while !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
        false
    }

    pub(crate) fn ended(&self) -> bool {
        self.state.lock().unwrap().ended
    }

    /// Breaks off all calls and pauses.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock().unwrap();
        state.ended = true;
        for stream in state.open.values() {
            let _ = stream.shutdown(Shutdown::Both); // the server may have closed it already
        }
        self.changed.notify_all();
    }
}

/// Keeps a connection in a scope.
pub(crate) struct Guard {
    scope: Arc<Scope>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.scope.state.lock().unwrap().open.remove(&self.id);
    }
}
