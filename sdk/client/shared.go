package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// Inserts of one client into one queue share calls when they overlap. There is no timer:
//
//	A inserts ─► no call is under way: A's goes at once, as a call of its own
//	B, C, D insert meanwhile and wait
//	A's call ends, or has to be tried again ─► one call for B, C and D, each with its own result
//
// So a lone caller waits for its own call only, and the busier the program, the more inserts share a call and the
// commit behind it.

// Bounds of a shared call. More than a thousand inserts make none of them cheaper, and hold up those that share the
// commit. A large insert goes alone, as it would hold up small ones.
const (
	shareCount = 1000
	shareBytes = 8 << 20
	shareLarge = 64 << 10
)

// shared are the inserts that share calls. The zero value is ready to use.
type shared struct {
	mu sync.Mutex
	of map[string][]*sharer // waiting inserts, by queue; a queue is there while a call of it is under way
}

// sharer is one insert that waits for a call.
type sharer struct {
	line []byte
	done chan shareOutcome // has room for the outcome, so that one whose caller has left holds up no other
}

// shareOutcome is the outcome of an insert that shared a call. Without an error and a submission the insert was
// refused, and its caller asks alone.
type shareOutcome struct {
	submission []byte // its JSON
	err        error
}

// begins says that no call is under way. The caller's own is from now on, and it calls next when that has ended.
func (s *shared) begins(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, under := s.of[queue]; under {
		return false
	}
	if s.of == nil {
		s.of = map[string][]*sharer{}
	}
	s.of[queue] = nil
	return true
}

// waits takes a place in the next call. It is false when no call is under way any more.
func (s *shared) waits(queue string, w *sharer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, under := s.of[queue]
	if under {
		s.of[queue] = append(waiting, w)
	}
	return under
}

// leaves gives the place up, if the call has not begun.
func (s *shared) leaves(queue string, w *sharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.of[queue], w); at >= 0 {
		s.of[queue] = slices.Delete(s.of[queue], at, at+1)
	}
}

// next returns the inserts that share the next call: the first of those that wait. When there is none, no call is
// under way any more.
func (s *shared) next(queue string) []*sharer {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.of[queue]
	n, size := 0, 0
	for n < min(len(waiting), shareCount) {
		if size += len(waiting[n].line); n > 0 && size > shareBytes {
			break
		}
		n++
	}
	if n == 0 {
		delete(s.of, queue)
		return nil
	}
	s.of[queue] = waiting[n:]
	return waiting[:n:n]
}

// insert makes the call of an insert, or shares one. answer is memory for its own call.
func insert(ctx context.Context, c *Client, queue string, q *request, answer *wire.Buffer) (*api.Submission, error) {
	if len(q.body()) > shareLarge {
		return insertAlone(ctx, c, q, answer)
	}
	for !c.shared.begins(queue) {
		line, err := shareLine(ctx, q)
		if err != nil {
			return nil, err
		}
		w := &sharer{line: line, done: make(chan shareOutcome, 1)}
		if !c.shared.waits(queue, w) {
			continue // the call has just ended
		}
		select {
		case outcome := <-w.done:
			switch {
			case outcome.err != nil:
				return nil, outcome.err
			case outcome.submission != nil:
				return readSubmission(outcome.submission)
			}
			return insertAlone(ctx, c, q, answer) // the same key inserts once, and the refusal is that of a single insert
		case <-ctx.Done():
			c.shared.leaves(queue, w)
			return nil, fmt.Errorf("quern: insert: %w", context.Cause(ctx))
		}
	}
	var once sync.Once
	q.pauses = func() { once.Do(func() { go insertShared(c, queue) }) } // a call that is tried again holds up no others
	defer once.Do(func() {
		if call := c.shared.next(queue); call != nil {
			go insertCall(c, queue, call)
		}
	})
	return insertAlone(ctx, c, q, answer)
}

// insertAlone makes the call of one insert.
func insertAlone(ctx context.Context, c *Client, q *request, answer *wire.Buffer) (*api.Submission, error) {
	r := reply{body: answer.B}
	err := c.do(ctx, c.hot, "insert", q, &r)
	answer.B = r.body
	if err != nil {
		return nil, err
	}
	return readSubmission(r.body)
}

// insertShared makes calls until no insert waits.
func insertShared(c *Client, queue string) {
	if call := c.shared.next(queue); call != nil {
		insertCall(c, queue, call)
	}
}

// insertCall makes a call for some inserts, and the calls after it. It belongs to all who share it, so it goes by none
// of their contexts: the client's timeout and number of tries bound it.
func insertCall(c *Client, queue string, call []*sharer) {
	for ; call != nil; call = c.shared.next(queue) {
		buffer := c.lend()
		for i, w := range call {
			if i > 0 {
				buffer.B = append(buffer.B, '\n')
			}
			buffer.B = append(buffer.B, w.line...)
		}
		handed := false
		q := &request{method: http.MethodPost, path: queuePath(queue, "/submissions:batch"), media: mediaLines,
			safe: true, buffer: buffer.B}
		q.pauses = func() {
			if !handed {
				handed = true
				go insertShared(c, queue)
			}
		}
		var r reply // of its own: each caller reads its part
		err := c.do(context.Background(), c.hot, "insert", q, &r)
		c.buffers.Put(buffer)
		tellSharers(call, r.body, err)
		runtime.Gosched() // those that got their outcome may have their next inserts ready for the next call
		if handed {
			return
		}
	}
}

// tellSharers gives each insert of a call its outcome.
func tellSharers(call []*sharer, body []byte, err error) {
	var answer wire.InsertManyResponse
	var refused *Error
	switch {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		err = nil // each asks alone, as the cause may be one of them
	case err == nil:
		if err = answer.Decode(body); err == nil && len(answer.Submissions) != len(call) {
			err = fmt.Errorf("the answer has %d results for %d submissions", len(answer.Submissions), len(call))
		}
		if err != nil {
			err = fmt.Errorf("quern: insert: %w", err)
		}
	}
	for i, w := range call {
		outcome := shareOutcome{err: err}
		if i < len(answer.Submissions) && err == nil {
			outcome.submission = answer.Submissions[i]
		}
		w.done <- outcome
	}
}

// shareLine is an insert as a line of a shared call: its body, with the values of its headers.
func shareLine(ctx context.Context, q *request) ([]byte, error) {
	if err := q.join(ctx); err != nil {
		return nil, fmt.Errorf("quern: insert: %w", err)
	}
	body := q.body()
	line := append(make([]byte, 0, len(body)+len(q.key)+len(q.trace)+len(q.state)+64), body[:len(body)-1]...)
	line = wire.AppendString(append(line, `,"idempotency_key":`...), q.key)
	if q.trace != "" && !q.traced {
		line = wire.AppendString(append(line, `,"trace":`...), strings.TrimSuffix(q.trace+";"+q.state, ";"))
	}
	return append(line, '}'), nil
}
