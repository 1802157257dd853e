//! How many chunks a worker reserves ahead.

use crate::exchange::Exchange;
use std::time::Instant;

const MAX_AHEAD: usize = 1000; // unless the program sets prefetch
const LARGE_ANSWER: usize = 1 << 20; // a call this large is slow because of its bytes, and more chunks in it would not help

/// How many chunks a worker reserves beyond those that its handlers work on: so many that no handler waits while a call is under way, and
/// no more, because no other worker can get them. Unless the program sets the number, the worker finds it as TCP finds its window: it
/// begins with 0, doubles the number when handlers ran out of work and had to wait, and lowers it by an eighth when more than half was
/// left.
#[derive(Default)]
pub(crate) struct Ahead {
    concurrency: usize,
    fixed: bool,
    pub(crate) n: usize,
    pub(crate) most: usize,
    answered: Option<Instant>, // when the last call ended
}

impl Ahead {
    pub(crate) fn new(concurrency: usize, prefetch: Option<usize>) -> Ahead {
        let (n, most) = (prefetch.unwrap_or(0), prefetch.unwrap_or(MAX_AHEAD));
        Ahead { concurrency, fixed: prefetch.is_some(), n, most, answered: None }
    }

    /// A call ended when `left` chunks were there that no handler had begun. If it brought all that it asked for, the server has more. A
    /// handler had to wait if that is a sixteenth of its time or more: the length of the call by how long a handler works on a chunk, which
    /// follows from how many chunks ended since the call before.
    pub(crate) fn answered(&mut self, call: &Exchange, brought: usize, left: isize) {
        let now = Instant::now();
        let since = self.answered.replace(now).map_or(f64::INFINITY, |before| (now - before).as_secs_f64());
        if self.fixed || call.asked == 0 {
            return;
        }
        let waited = 16.0 * (now - call.began).as_secs_f64() * call.reports.len() as f64 >= since * self.concurrency as f64;
        if left <= 0 && brought == call.asked && waited && call.size < LARGE_ANSWER {
            self.n = (2 * self.n).max(1).min(self.most);
        } else if left > (self.n / 2) as isize {
            self.n -= (self.n / 8).max(1).min(self.n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn grows_while_handlers_wait_and_shrinks_when_much_is_left() {
        let mut ahead = Ahead::new(1, None);
        let call =
            |began| Exchange { reports: vec![], extends: vec![], releases: vec![], asked: 1, hellos: 0, failures: 0, began, size: 0 };
        ahead.answered(&call(Instant::now()), 1, 0);
        assert_eq!(ahead.n, 0, "no chunk ended");
        ahead.n = 16;
        ahead.answered(&call(Instant::now()), 1, 9);
        assert_eq!(ahead.n, 14);
        ahead.n = 0;
        ahead.answered(&call(Instant::now()), 1, 5);
        assert_eq!(ahead.n, 0);
        let mut fixed = Ahead::new(1, Some(3));
        fixed.answered(&call(Instant::now() - Duration::from_secs(1)), 1, 9);
        assert_eq!(fixed.n, 3);
    }
}
