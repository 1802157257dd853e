package client

import (
	"cmp"
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

// WorkOptions are the options of Work. Most programs set only Queue, Strategy and Concurrency.
type WorkOptions struct {
	Queue       string   // "" is "default"
	Strategy    string   // in text form, or as a JSON tree when it begins with '{'; "" is Random
	Consumer    string   // name of this consumer, which no other process uses; "": the host's name and random digits
	Context     api.Meta // facts about this consumer, for plugins and formulas
	Concurrency int      // handlers that run at once; 0 is 1
	// chunks reserved ahead, beyond those that handlers work on; 0: as many as handlers finish during a call, which
	// Work measures, at most 1,000; negative: none
	Prefetch int
	// time until the deadline, which Work extends while a handler runs. So it is the time after which another
	// consumer gets the chunks of a crashed one; 0 is a minute
	Timeout time.Duration
	Wait    time.Duration // how long the server waits for work in a call, at most a minute; 0 is 20 s
	Grace   time.Duration // time between the end of Work's context and that of the handlers' contexts; 0 is no limit

	// NoAttach keeps Work from attaching to the server. If this process dies, the server then offers its chunks again
	// only after Timeout, and Work notices revoked chunks only when it extends them.
	NoAttach bool

	// Work calls OnError with each problem after which it continues: a call that failed and that it repeats, a
	// handler that failed (*HandlerError), a result that did not count (*ChunkError), a part of the strategy without
	// effect (*StrategyError), and ErrDrained. One goroutine at a time calls it, and it must return soon. Nil: Work
	// logs each kind at most once a minute (see WithLogger).
	OnError func(error)
}

// StrategyError is a part of the strategy that has no effect now, such as a block of a deleted plugin. Work continues
// with the other parts.
type StrategyError struct{ api.StrategyWarning }

func (e *StrategyError) Error() string { return "quern: the strategy " + e.Detail }

// Chunk is the chunk that a handler works on. A handler may read its slices and Meta, but not change them.
type Chunk struct {
	Submission string
	Index      uint32
	Attempt    uint32    // 1 for the first
	Deadline   time.Time // at the time of the reservation; Work extends it
	CreatedAt  time.Time // of the insert
	ReadyAt    time.Time // start of the wait for this attempt: the insert, its run_at, or the end of the previous attempt or its back-off
	Content    []byte    // nil when Key is set
	Key        string    // of the object that holds the content
	Meta       api.Meta
	Priority   int64
	Attachment []byte
	Trace      string

	then [][]byte
	held *held // nil of one that a test made
}

// Then inserts a submission into the chunk's queue if the handler returns nil. The server completes the chunk and
// inserts the submission in one commit, so a crash never leaves one without the other. A handler can call it up to
// 100 times. If a submission is invalid, the chunk fails for good. If the server has no room for it, the attempt
// fails, and the server retries the chunk after its back-off. A submission without a trace gets the trace of the
// chunk.
func (c *Chunk) Then(n *api.NewSubmission) {
	next := *n
	next.Trace = cmp.Or(next.Trace, c.Trace)
	c.then = append(c.then, wire.AppendInsert(nil, &next))
}

// Handler does the work of one chunk. If it returns no error, the chunk is completed with the output, or without one
// if it is nil. Any other error fails the attempt; see Permanent, RetryAfter and Snooze. If the server refuses the
// output, for example because it has more than 1 MiB, the chunk fails for good, and OnError gets the reason. ctx ends
// with the cause ErrLost when the reservation is lost or revoked: the result no longer counts. It ends with
// ErrDraining when the grace period is over: the result no longer counts either, and the chunk goes back without
// counting an attempt. A handler may return ErrDraining itself to give its chunk back.
type Handler func(ctx context.Context, chunk *Chunk) (output []byte, err error)

// ChunkError says that the server did not count the result of a chunk.
type ChunkError struct {
	Submission string
	Index      uint32
	Result     api.Result
}

func (e *ChunkError) Error() string {
	return fmt.Sprintf("quern: chunk %s/%d: the result does not count: %s %s %s", e.Submission, e.Index,
		e.Result.Status, e.Result.Code, e.Result.Detail)
}

// Work reserves chunks and calls handlers until ctx ends. Then it lets running handlers finish, gives back the chunks
// that it has not begun, reports the last results, and returns nil. It returns an error, after the same drain, if the
// server refuses its calls for good (because of an unknown queue, or a wrong strategy or token), or is not trusted
// (ErrNotTrusted). It also returns an error if it could not deliver results in the end, or never reached a server.
// Otherwise it waits for a server that is away. Work is attached to the server: if this process dies, the server
// offers its chunks again after the queue's consumer grace, or as soon as another process begins to Work under the
// same Consumer. An operator can drain it (see ErrDrained).
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
	o.Queue = cmp.Or(o.Queue, "default")
	o.Concurrency = max(o.Concurrency, 1)
	if o.Concurrency > maxHeld || o.Prefetch > maxHeld-o.Concurrency {
		return fmt.Errorf("quern: work: Concurrency and Prefetch together are %d; at most %d are allowed",
			o.Concurrency+o.Prefetch, maxHeld)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultReservation)
	if o.Timeout < minReservation {
		return fmt.Errorf("quern: work: Timeout is %v; it must be at least %v", o.Timeout, minReservation)
	}
	o.Wait = cmp.Or(o.Wait, defaultWait)
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
		if failure == nil { // the handler's result was refused
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
