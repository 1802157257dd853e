package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// Bounds of one call of an Inserter. More than a thousand make no insert cheaper, and hold up those who share the commit.
const (
	gatherCount = 1000
	gatherBytes = 8 << 20
)

// ErrInserterClosed is the answer to an Insert after Close.
var ErrInserterClosed = errors.New("quern: the inserter is closed")

// Inserter gathers what many goroutines insert at the same time into shared calls: while one call is under way, the next one gathers
// those that come. There is no timer, so a single caller waits for its own call only, and the busier the program, the more share a call.
// It is safe for concurrent use.
type Inserter struct {
	client *Client
	queue  string

	mu      sync.Mutex
	waiting []*gathered // for the next call
	sending bool        // a goroutine makes calls while there are callers waiting
	closed  bool
	calls   sync.WaitGroup
}

// gathered is one caller's submission.
type gathered struct {
	line []byte
	done chan insertOutcome // has room for the outcome, so that one whose caller has left holds up no other
}

type insertOutcome struct {
	submission *api.Submission
	err        error
}

// NewInserter makes an Inserter into a queue. Close it when no more is inserted.
func NewInserter(c *Client, queue string) *Inserter { return &Inserter{client: c, queue: queue} }

// Insert inserts a submission and returns it as Client.Insert does, with a result or an error of its own. When ctx ends first, what has
// not been sent yet is not inserted; what was sent may be, so an Insert that is to be repeated needs a key (WithKey). Others that share
// the call do not notice.
func (i *Inserter) Insert(ctx context.Context, n *api.NewSubmission, options ...InsertOption) (*api.Submission, error) {
	line, err := i.line(ctx, n, options)
	if err != nil {
		return nil, err
	}
	g := &gathered{line: line, done: make(chan insertOutcome, 1)}
	if err := i.enter(ctx, g); err != nil {
		return nil, err
	}
	select {
	case outcome := <-g.done:
		return outcome.submission, outcome.err
	case <-ctx.Done():
		i.leave(g)
		return nil, fmt.Errorf("quern: insert: %w", context.Cause(ctx))
	}
}

// Close refuses further inserts and returns when those before it have their results.
func (i *Inserter) Close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.calls.Wait()
}

// line is the submission as it is sent. It is made by the caller, who may change the submission afterwards.
func (i *Inserter) line(ctx context.Context, n *api.NewSubmission, options []InsertOption) ([]byte, error) {
	q, err := insertRequest(i.client, i.queue, mediaLines, options)
	if err != nil {
		return nil, err
	}
	if err := q.join(ctx); err != nil {
		return nil, fmt.Errorf("quern: insert: %w", err)
	}
	one := [1]api.BatchSubmission{{NewSubmission: *n, IdempotencyKey: q.key}}
	if one[0].Trace == "" && q.trace != "" {
		one[0].Trace = strings.TrimSuffix(q.trace+";"+q.state, ";")
	}
	return wire.AppendBatchSubmission(nil, &one[0]), nil
}

// enter takes a place in the next call, and sees to it that there is one.
func (i *Inserter) enter(ctx context.Context, g *gathered) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return ErrInserterClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("quern: insert: %w", context.Cause(ctx))
	}
	i.waiting = append(i.waiting, g)
	if !i.sending {
		i.sending = true
		i.calls.Go(i.send)
	}
	return nil
}

// leave gives the place up, if the call has not begun.
func (i *Inserter) leave(g *gathered) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := slices.Index(i.waiting, g); at >= 0 {
		i.waiting = slices.Delete(i.waiting, at, at+1)
	}
}

// send makes calls until no caller waits. A call belongs to all who share it, so it goes by none of their contexts: the client's timeout
// and number of tries bound it.
func (i *Inserter) send() {
	for {
		call := i.next()
		if call == nil {
			return
		}
		lines := make([][]byte, len(call))
		for at, g := range call {
			lines[at] = g.line
		}
		results, err := i.client.InsertLines(context.Background(), i.queue, lines, false)
		for at, g := range call {
			if err != nil {
				g.done <- insertOutcome{err: err}
				continue
			}
			g.done <- outcomeOf(&results[at], at)
		}
	}
}

// next is who shares the next call: the first of those who wait. It ends the sending when there is none.
func (i *Inserter) next() []*gathered {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, size := 0, 0
	for n < min(len(i.waiting), gatherCount) {
		if size += len(i.waiting[n].line); n > 0 && size > gatherBytes {
			break
		}
		n++
	}
	if n == 0 {
		i.sending, i.waiting = false, nil
		return nil
	}
	call := i.waiting[:n:n]
	i.waiting = i.waiting[n:]
	return call
}

// outcomeOf is the result of the submission at an index of a call, as a call of its own would have it.
func outcomeOf(r *api.InsertResult, at int) insertOutcome {
	if r.Submission != nil {
		return insertOutcome{submission: r.Submission}
	}
	e := &Error{Problem: api.Problem{Status: http.StatusUnprocessableEntity, Code: r.Code, Detail: r.Detail}}
	if pointer := strings.TrimPrefix(r.Pointer, "/submissions/"+strconv.Itoa(at)); r.Status == api.InsertInvalid {
		e.Problem.Detail = "The request is not valid."
		e.Problem.Errors = []api.ProblemError{{Pointer: pointer, Detail: r.Detail}}
	}
	return insertOutcome{err: e}
}
