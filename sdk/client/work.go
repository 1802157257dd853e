package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// WorkOptions says how Work works. Only Queue is usually set.
type WorkOptions struct {
	Queue       string   // "" is "default"
	Strategy    string   // in text form, or as a JSON tree when it begins with '{'; "" is Random
	Consumer    string   // name of this consumer, which no other process uses; "": the host's name and random digits
	Context     api.Meta // what plugins may know of this consumer
	Concurrency int      // handlers that run at once; 0 is 1
	// chunks reserved ahead, beyond those that handlers work on; 0 is as many as handlers finish during a call, at most 1,000, which Work
	// finds out, beginning with none; negative is none
	Prefetch int
	// of a reservation, which is extended while a handler runs: how soon a crashed consumer's work goes on elsewhere; 0
	// is a minute
	Timeout time.Duration
	Wait    time.Duration // how long the server is asked to wait for work, at most a minute; 0 is 20 s
	Grace   time.Duration // how long handlers may go on after the end of Work's context before theirs ends too; 0 is without limit

	// NoAttach keeps Work from attaching to the server. Then the server does not notice when this process dies, and what it held
	// comes back only after Timeout; and revoked chunks are noticed only when they are extended.
	NoAttach bool

	// OnError hears what Work goes on after: calls that failed and are made again, handlers that failed (*HandlerError), results that
	// did not count (*ChunkError), a part of the strategy without effect (*StrategyError); and ErrDrained. It is called by one
	// goroutine at a time and must return soon. Nil: they are logged, each kind once a minute at most (see WithLogger).
	OnError func(error)
}

// StrategyError is a part of the strategy that has no effect now, such as a block of a plugin that was deleted: Work
// goes on with what the rest offers.
type StrategyError struct{ api.StrategyWarning }

func (e *StrategyError) Error() string { return "quern: the strategy " + e.Detail }

// Chunk is a piece of work in a handler's hands. Its slices and Meta are the handler's to read, not to change.
type Chunk struct {
	Submission string
	Index      uint32
	Attempt    uint32    // 1 for the first try
	Deadline   time.Time // of the reservation as it was made; Work extends it
	CreatedAt  time.Time // of the insert
	ReadyAt    time.Time // since when it waited for this attempt: the insert, its run_at, or the end of the attempt or back-off before
	Content    []byte    // nil when Key is set
	Key        string    // of the object that holds the content
	Meta       api.Meta
	Priority   int64
	Attachment []byte
	Trace      string

	then [][]byte
	held *held // nil of one that a test made
}

// Then has a submission inserted into the chunk's queue when the handler returns nil, in the commit of the completion: the chunk is done
// and the submission is there, or neither, whatever crashes meanwhile. It may be called up to 100 times. A submission that the server
// refuses as wrong fails the chunk for good; one for which it has no room now fails the try, which is made again after its back-off. A
// submission without a trace gets the chunk's.
func (c *Chunk) Then(n *api.NewSubmission) {
	next := *n
	if next.Trace == "" {
		next.Trace = c.Trace
	}
	c.then = append(c.then, wire.AppendInsert(nil, &next))
}

// Handler does the work of one chunk. A nil error completes the chunk with the output (nil: without one). Any other error
// fails this try; see Permanent, RetryAfter and Snooze. An output that the server refuses, such as one of more than
// 1 MiB, fails the chunk for good; OnError hears of it. ctx ends, with the cause ErrLost, when the reservation was lost
// or revoked, and with ErrDraining when the grace period is over; what the handler then returns does not count, and in the second case the
// chunk is given back without counting an attempt. A handler that returns ErrDraining itself gives its chunk back, too.
type Handler func(ctx context.Context, chunk *Chunk) (output []byte, err error)

// ChunkError says that the result of a chunk did not count.
type ChunkError struct {
	Submission string
	Index      uint32
	Result     api.Result
}

func (e *ChunkError) Error() string {
	return fmt.Sprintf("quern: chunk %s/%d: the result does not count: %s %s %s", e.Submission, e.Index,
		e.Result.Status, e.Result.Code, e.Result.Detail)
}

// Work reserves chunks and hands them to handlers until ctx ends; then it lets the running handlers finish, gives back
// what it had reserved ahead, reports the last results and returns nil. It returns an error when the server refuses its
// calls for good (an unknown queue, a wrong strategy or token) or is not trusted (ErrNotTrusted), after the same drain;
// when results could not be delivered in the end; and when the server never answered. Servers that are away are waited
// for. Meanwhile Work is attached to the server: when this process dies, what it held is offered again after the
// queue's consumer grace, or as soon as another process begins to Work under the same Consumer; and an operator can
// drain it (see ErrDrained).
func (c *Client) Work(ctx context.Context, o WorkOptions, handler Handler) error {
	if err := o.fill(c); err != nil {
		return err
	}
	strategy, err := strategyJSON(o.Strategy)
	if err != nil {
		return err
	}
	return newWorker(ctx, c, o, strategy, handler).run(ctx)
}

const (
	defaultReservation = time.Minute
	minReservation     = 100 * time.Millisecond
	defaultWait        = 20 * time.Second
	maxWait            = time.Minute
	maxHeld            = 100_000 // chunks that one Work holds: a bound on memory, and on what a crash loses
)

func (o *WorkOptions) fill(c *Client) error {
	if o.Queue == "" {
		o.Queue = "default"
	}
	o.Concurrency = max(o.Concurrency, 1)
	if o.Concurrency > maxHeld || o.Prefetch > maxHeld-o.Concurrency {
		return fmt.Errorf("quern: work: Concurrency and Prefetch together are %d; at most %d are allowed",
			o.Concurrency+o.Prefetch, maxHeld)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultReservation
	}
	if o.Timeout < minReservation {
		return fmt.Errorf("quern: work: Timeout is %v; it must be at least %v", o.Timeout, minReservation)
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Wait < 0 || o.Wait > maxWait {
		return fmt.Errorf("quern: work: Wait is %v; it must be from 0 to %v", o.Wait, maxWait)
	}
	if o.Consumer == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "consumer"
		}
		key, err := c.random.key()
		if err != nil {
			return err
		}
		const most = 100
		o.Consumer = host[:min(len(host), most)] + "-" + key[:8]
	}
	return nil
}

// strategyJSON makes a strategy one JSON value.
func strategyJSON(strategy string) (json.RawMessage, error) {
	strategy = strings.TrimSpace(strategy)
	switch {
	case strategy == "":
		return nil, nil
	case strategy[0] != '{':
		return json.Marshal(strategy)
	case !json.Valid([]byte(strategy)):
		return nil, fmt.Errorf("quern: work: the strategy begins with { but is not valid JSON: %.80s", strategy)
	}
	return json.RawMessage(strategy), nil
}

// hooks are the calls of a worker's hook.
type hooks struct {
	failed  func(context.Context, *Chunk, error) error // for failures that the server has recorded; nil: there is none
	running int
	ended   chan error // each with its error
}

// hook calls the hook for a failure that the server has recorded, beside the loop. A worker whose hooks are slow reserves less: at most
// twice as many hooks run as the worker holds chunks.
func (w *worker) hook(h *held) {
	if w.hooks.failed == nil {
		return
	}
	w.hooks.running++
	go func() {
		var err error
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("quern: a hook failed for the chunk %s/%d: panic: %v", h.chunk.Submission, h.chunk.Index, r)
			}
			w.hooks.ended <- err
		}()
		failure := h.err
		if failure == nil { // what the handler returned was refused
			failure = errors.New(h.reason)
		}
		err = w.hooks.failed(WithTraceContext(w.base, h.chunk.Trace), &h.chunk, failure)
	}()
}

// hookEnded takes the end of a hook.
func (w *worker) hookEnded(err error) {
	w.hooks.running--
	if err != nil {
		w.report(err)
	}
}
