package store

import (
	"context"
	"sync"
)

// commitBytes bounds one shared commit: callers behind a larger one would wait for longer than a sync.
const commitBytes = 4 << 20

// commits lets callers that come while a commit runs share the next one. There is no
// goroutine and no timer: the first caller of a batch writes for all, and when its own
// request is done it hands the lead to the first of those that came meanwhile.
//
//	caller A   ├─ append request ─ leads ─ commitAll[A] ─ handOver ─┤
//	caller B      ├─ waits ......................................... leads ─ commitAll[B C D] ─┤
//	callers C D        ├─ wait ............................................................... done
//
// Invariant, under mu: if a caller waits, another one leads. handOver keeps it: it gives the lead away
// in the same hold of the mutex in which it looks at the line. Of a failed transaction each caller
// gets the same error, as none of its requests is in the file.
type commits struct {
	mu      sync.Mutex
	waiting []*request
	led     bool // a caller commits for all
}

// request is one caller's share of a commit.
type request struct {
	bytes  int // about what it writes
	apply  func(w *writer) error
	signal chan signal
}

// signal ends a caller's waiting: either the request is done, or its caller leads from now on.
type signal struct {
	lead bool
	err  error
}

// commit adds the request to the next shared transaction and returns when that is durable.
// The context counts only before: a commit that has begun is waited for.
func (s *Store) commit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.signal = make(chan signal, 1)
	c := &s.commits
	c.mu.Lock()
	c.waiting = append(c.waiting, r)
	leads := !c.led
	c.led = true
	c.mu.Unlock()
	if !leads {
		if got := <-r.signal; !got.lead {
			return got.err
		}
	}
	batch := c.take() // a leader is the first in line, so r is in it
	err := s.commitAll(batch)
	for _, other := range batch {
		if other != r {
			other.signal <- signal{err: err}
		}
	}
	c.handOver()
	return err
}

// take takes the requests of the next commit off the line: at least one.
func (c *commits) take() []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, bytes := 0, 0
	for n < len(c.waiting) && (n == 0 || bytes+c.waiting[n].bytes <= commitBytes) {
		bytes += c.waiting[n].bytes
		n++
	}
	batch := append([]*request(nil), c.waiting[:n]...)
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return batch
}

func (c *commits) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.led = len(c.waiting) > 0; c.led {
		c.waiting[0].signal <- signal{lead: true}
	}
}

// commitAll writes a batch in one transaction.
func (s *Store) commitAll(batch []*request) error {
	return s.writing(func(w *writer) error {
		return w.conn.Tx(func() error {
			for _, r := range batch {
				if err := r.apply(w); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
