//! A queue between threads. Unlike the channels of the standard library, both of its ends can be shared, and waiting items can be taken
//! back.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { state: Mutex::new(State { items: VecDeque::new(), closed: false }), changed: Condvar::new() }
    }
}

impl<T> Queue<T> {
    pub(crate) fn push(&self, item: T) {
        self.state.lock().unwrap().items.push_back(item);
        self.changed.notify_one();
    }

    /// The next item; waits for one. `None` when the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap();
        }
    }

    /// Takes all waiting items; if there are none, waits for the first one, at most until a moment.
    pub(crate) fn all(&self, until: Instant) -> Vec<T> {
        let mut state = self.state.lock().unwrap();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !state.items.is_empty() || left.is_zero() {
                return state.items.drain(..).collect();
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Takes back the waiting items.
    pub(crate) fn take_back(&self) -> Vec<T> {
        self.state.lock().unwrap().items.drain(..).collect()
    }

    /// Ends the queue: no more items come.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn items_go_through_in_order_until_it_is_closed() {
        let queue = Queue::default();
        assert!(queue.all(Instant::now() + Duration::from_millis(1)).is_empty());
        std::thread::scope(|threads| {
            let taken = threads.spawn(|| std::iter::from_fn(|| queue.next()).collect::<Vec<_>>());
            (0..3).for_each(|i| queue.push(i));
            queue.close();
            assert_eq!(taken.join().unwrap(), [0, 1, 2]);
        });
        queue.push(7);
        assert_eq!(queue.take_back(), [7]);
    }
}
