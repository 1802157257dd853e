package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// MetaKind is the meta key whose value is the kind of a submission.
const MetaKind = "kind"

// Kinds are the kinds of work that a worker does, each with its handler (see Handle). The meta of a submission names
// its kind, and the content of each chunk is the JSON of its arguments (see SubmissionOf). The zero value is ready to
// use.
type Kinds struct {
	// Middleware wraps the handlers of all kinds; the first one is the outermost. It may look at the chunk, change
	// the context, and replace the results of the next handler.
	Middleware []func(next Handler) Handler

	// The worker calls OnFailure after each failed attempt that the server has recorded. It also calls OnDead if this
	// was the last attempt: the chunk is now dead, skipped or forwarded, or its submission has failed. To know that,
	// the client reads the chunk after each failed attempt. If a process dies in the last attempt of a chunk, no
	// client calls OnDead: follow the ends of submissions (Client.Ends), or look at the dead letters. Hooks run
	// concurrently with handlers and each other. A worker with slow hooks reserves less.
	OnFailure func(ctx context.Context, chunk *Chunk, err error)
	OnDead    func(ctx context.Context, chunk *Chunk, err error)

	all []*kind
}

// KindOptions are the options of one kind. The zero value is a good default.
type KindOptions struct {
	// Concurrency is the number of handlers for this kind alone. The kind is then a separate consumer, whose name
	// ends with the kind's. 0: the kind shares the handlers of WorkOptions.Concurrency with the other kinds.
	Concurrency int

	// Timeout limits how long a handler may take. Then its context ends with the cause ErrHandlerTimeout, and the
	// error that it returns fails the attempt. 0 is no limit.
	Timeout time.Duration

	// Retry decides after an error whether the server retries the chunk, and after which pause. The worker does not
	// call it after a panic, or for an error that decides this itself (Permanent, RetryAfter, Snooze). Nil: the
	// back-off of the submission or the queue. Their limit of attempts always holds.
	Retry func(chunk *Chunk, err error) (pause time.Duration, again bool)
}

// ErrHandlerTimeout is in the error of a handler that took longer than KindOptions.Timeout. It is also the cause with
// which its context ends.
var ErrHandlerTimeout = errors.New("the handler took too long")

type kind struct {
	KindOptions
	name    string
	handler Handler
}

// Handle makes fn the handler of a kind. If a content is not the JSON of Args, its chunk fails for good. Fields that
// Args does not have are ignored. If Args is json.RawMessage, fn gets the JSON as it is.
func Handle[Args any](k *Kinds, name string, o KindOptions, fn func(context.Context, Args, *Chunk) ([]byte, error)) {
	k.all = append(k.all, &kind{KindOptions: o, name: name, handler: func(ctx context.Context, chunk *Chunk) ([]byte, error) {
		var args Args
		if chunk.Key != "" {
			return nil, Permanent(fmt.Errorf("the content is the object %q; arguments are JSON in the chunk itself", chunk.Key))
		}
		if err := json.Unmarshal(chunk.Content, &args); err != nil {
			return nil, Permanent(fmt.Errorf("the content is not the JSON of %T: %w", args, err))
		}
		return fn(ctx, args, chunk)
	}})
}

// SubmissionOf returns a submission of a kind, with one chunk for each of args. You may change it before you insert
// it.
func SubmissionOf[Args any](kind string, args ...Args) (*api.NewSubmission, error) {
	submission := &api.NewSubmission{Meta: api.Meta{MetaKind: api.Text(kind)}}
	for i := range args {
		content, err := json.Marshal(args[i])
		if err != nil {
			return nil, fmt.Errorf("quern: the arguments %d of the kind %s: %w", i, kind, err)
		}
		submission.Chunks.Inline = append(submission.Chunks.Inline, content)
	}
	return submission, nil
}

// Work is Client.Work for submissions of these kinds only. o.Strategy orders them. If kinds have a Concurrency of
// their own, it works as several consumers, which begin and end together.
func (k *Kinds) Work(ctx context.Context, c *Client, o WorkOptions) error {
	workers, err := k.workers(ctx, c, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(workers))
	for _, w := range workers {
		go func() { ended <- w.run(ctx) }()
	}
	var first error
	for range workers {
		first = cmp.Or(first, <-ended)
		stop() // an operator drained it, or it cannot go on: the others are of this process, too
	}
	return first
}

// workers are one for the kinds that share handlers, and one for each of the others.
func (k *Kinds) workers(ctx context.Context, c *Client, o WorkOptions) ([]*worker, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	if err := o.fill(c); err != nil {
		return nil, err
	}
	if onError := o.OnError; onError != nil {
		var mu sync.Mutex
		o.OnError = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			onError(err)
		}
	}
	shared := slices.DeleteFunc(slices.Clone(k.all), func(one *kind) bool { return one.Concurrency > 0 })
	var workers []*worker
	add := func(o WorkOptions, kinds ...*kind) error {
		strategy, err := selectKinds(o.Strategy, kinds)
		if err != nil {
			return err
		}
		w := newWorker(ctx, c, o, strategy, k.dispatch(kinds))
		w.hooks.failed = k.hooks(c)
		workers = append(workers, w)
		return nil
	}
	if len(shared) > 0 {
		if err := add(o, shared...); err != nil {
			return nil, err
		}
	}
	for _, one := range k.all {
		if one.Concurrency == 0 {
			continue
		}
		own := o
		own.Concurrency, own.Consumer = one.Concurrency, o.Consumer+"-"+one.name
		if n := len(own.Consumer); n > api.MaxConsumerBytes {
			return nil, fmt.Errorf("quern: work: the consumer of the kind %s, %s, has %d bytes; at most %d are allowed: "+
				"set a shorter Consumer", one.name, own.Consumer, n, api.MaxConsumerBytes)
		}
		if err := own.fill(c); err != nil {
			return nil, err
		}
		if err := add(own, one); err != nil {
			return nil, err
		}
	}
	return workers, nil
}

// maxKinds is how many values SelectAny takes.
const maxKinds = 64

func (k *Kinds) check() error {
	if len(k.all) == 0 || len(k.all) > maxKinds {
		return fmt.Errorf("quern: work: there are %d kinds; it must be from 1 to %d: add them by Handle", len(k.all), maxKinds)
	}
	for i, one := range k.all {
		switch {
		case one.name == "":
			return errors.New("quern: work: a kind has no name")
		case slices.ContainsFunc(k.all[:i], func(other *kind) bool { return other.name == one.name }):
			return fmt.Errorf("quern: work: the kind %s has two handlers", one.name)
		case one.Concurrency < 0 || one.Timeout < 0:
			return fmt.Errorf("quern: work: the kind %s has a negative Concurrency or Timeout", one.name)
		}
	}
	return nil
}

// selectKinds is a strategy, in text form or as a tree, for some kinds only.
func selectKinds(strategy string, kinds []*kind) (json.RawMessage, error) {
	names := make([]string, len(kinds))
	for i, one := range kinds {
		names[i] = one.name
	}
	strategy = cmp.Or(strings.TrimSpace(strategy), "Random")
	underlying, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	if underlying[0] == '{' {
		return json.Marshal(map[string]any{"type": "select_any", "meta_field": MetaKind, "values": names, "underlying": underlying})
	}
	var list bytes.Buffer
	quoted := json.NewEncoder(&list)
	quoted.SetEscapeHTML(false)
	if err := quoted.Encode(names); err != nil {
		return nil, err
	}
	return json.Marshal(fmt.Sprintf("SelectAny(%q, %s, %s)", MetaKind, bytes.TrimSpace(list.Bytes()), strategy))
}

// dispatch is the handler of some kinds.
func (k *Kinds) dispatch(kinds []*kind) Handler {
	handlers := make(map[string]Handler, len(kinds))
	for _, one := range kinds {
		next := one.handler
		for _, around := range slices.Backward(k.Middleware) {
			next = around(next)
		}
		handlers[one.name] = one.bounded(next)
	}
	return func(ctx context.Context, chunk *Chunk) ([]byte, error) {
		name := chunk.Meta[MetaKind].Text()
		handler, is := handlers[name]
		if !is { // the strategy selects no such chunk
			return nil, Permanent(fmt.Errorf("no handler for the kind %q", name))
		}
		return handler(ctx, chunk)
	}
}

// bounded is a handler with the timeout and the retries of its kind.
func (k *kind) bounded(next Handler) Handler {
	return func(ctx context.Context, chunk *Chunk) ([]byte, error) {
		if k.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, k.Timeout, ErrHandlerTimeout)
			defer cancel()
		}
		output, err := next(ctx, chunk)
		if err == nil {
			return output, nil
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, ErrHandlerTimeout) {
			err = fmt.Errorf("%w (more than %v): %w", ErrHandlerTimeout, k.Timeout, err)
		}
		if k.Retry == nil || decided(err) || errors.Is(cause, ErrDraining) {
			return nil, err
		}
		if pause, again := k.Retry(chunk, err); again {
			return nil, RetryAfter(err, pause)
		}
		return nil, Permanent(err)
	}
}

// decided says that an error itself decides what happens to the chunk.
func decided(err error) bool {
	var permanent *permanentError
	var retry *retryError
	var snooze *snoozeError
	return errors.As(err, &permanent) || errors.As(err, &retry) || errors.As(err, &snooze) || errors.Is(err, ErrDraining)
}

// hooks calls OnFailure and OnDead for a failure that the server has recorded. It is nil when there are none.
func (k *Kinds) hooks(c *Client) func(context.Context, *Chunk, error) error {
	if k.OnFailure == nil && k.OnDead == nil {
		return nil
	}
	return func(ctx context.Context, chunk *Chunk, failure error) error {
		if k.OnFailure != nil {
			k.OnFailure(ctx, chunk, failure)
		}
		if k.OnDead == nil {
			return nil
		}
		path := submissionPath(chunk.Submission, fmt.Sprintf("/chunks/%d", chunk.Index))
		now, err := get[api.Chunk](ctx, c, "chunk", path)
		if err != nil {
			return fmt.Errorf("quern: OnDead was not called, as it is not known whether the chunk %s/%d is dead: %w",
				chunk.Submission, chunk.Index, err)
		}
		if now.Attempts != chunk.Attempt {
			return nil // a later attempt has ended, whose own hook it is
		}
		switch now.State {
		case api.ChunkDead, api.ChunkSkipped, api.ChunkForwarded:
			k.OnDead(ctx, chunk, failure)
		}
		return nil
	}
}
