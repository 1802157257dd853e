package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// errorsSeen collects the errors that OnError gets.
type errorsSeen struct {
	mu  sync.Mutex
	all []error
}

func (e *errorsSeen) add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, err)
}

func (e *errorsSeen) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.all)
}

// work runs Work in the background until the test stops it; stop returns what Work returned.
func work(t *testing.T, c *Client, o WorkOptions, handler Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Work(ctx, o, handler) }()
	return func() error {
		cancel()
		return <-done
	}
}

// Every chunk is worked on and completed with its output, never more of them are held than were allowed, and the calls are
// far fewer than the chunks.
func TestWorkCompletesAll(t *testing.T) {
	t.Parallel()
	const n = 2000
	f := newFake(t, n, nil)
	var running, most atomic.Int32
	stop := work(t, f.client(), WorkOptions{Concurrency: 4, Prefetch: 60, Strategy: "OldestFirst"}, func(_ context.Context, chunk *Chunk) ([]byte, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			continue
		}
		if chunk.Meta["company"] != api.Int(int64(chunk.Index%3)) || string(chunk.Content) != fmt.Sprintf("row %d", chunk.Index) {
			t.Errorf("got the chunk %+v", chunk)
		}
		return append([]byte("done "), chunk.Content...), nil
	})
	f.wait(func() bool { return len(f.done) == n })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock() // a call that was broken off may still be counted
	defer f.mu.Unlock()
	for i := range uint32(n) {
		if want := fmt.Sprintf("done row %d", i); f.done[i] != want {
			t.Fatalf("chunk %d: got %q, want %q", i, f.done[i], want)
		}
	}
	if f.max > 64 || most.Load() > 4 {
		t.Errorf("%d chunks held and %d handlers at once, want at most 64 and 4", f.max, most.Load())
	}
	if f.calls["exchange"] >= n || len(f.held) > 0 {
		t.Errorf("%d exchanges for %d chunks; %d still held", f.calls["exchange"], n, len(f.held))
	}
}

// Errors fail the try, with their wishes; the chunk comes again unless the error is permanent. A panic is an error.
func TestWorkFailures(t *testing.T) {
	t.Parallel()
	f := newFake(t, 6, nil)
	var seen errorsSeen
	stop := work(t, f.client(), WorkOptions{Concurrency: 2, OnError: seen.add}, func(_ context.Context, chunk *Chunk) ([]byte, error) {
		switch {
		case chunk.Index == 0:
			return nil, fmt.Errorf("wrapped: %w", Permanent(errors.New("hopeless")))
		case chunk.Attempt > 1:
			return nil, nil
		case chunk.Index == 1:
			return nil, RetryAfter(errors.New("later"), 1500*time.Millisecond)
		case chunk.Index == 2:
			return nil, errors.New(strings.Repeat("é", 600) + "\xff")
		case chunk.Index == 3:
			panic("boom")
		case chunk.Index == 4:
			return nil, Permanent(fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}))
		}
		return []byte{}, nil
	})
	f.wait(func() bool { return len(f.done) == 4 && len(f.failed) == 5 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := f.failed[0]; got.Error != "wrapped: hopeless" || !got.Fatal || got.RetryAfterMS != nil {
		t.Errorf("permanent: got %+v", got)
	}
	if got := f.failed[1]; got.Error != "later" || got.Fatal || *got.RetryAfterMS != 1500 {
		t.Errorf("retry after: got %+v", got)
	}
	if got := f.failed[2]; got.Error != strings.Repeat("é", 500) {
		t.Errorf("long: got %d bytes: %q", len(got.Error), got.Error)
	}
	const where = "panic: boom\n\tat github.com/quern-queue/quern/sdk/client.TestWorkFailures"
	if got := f.failed[3]; !strings.HasPrefix(got.Error, where) || strings.Contains(got.Error, "held.go") {
		t.Errorf("panic: got %+v, want the frames of the handler", got)
	}
	if got := f.failed[4]; got.Error != "*fs.PathError: read: open x: file does not exist" || !got.Fatal {
		t.Errorf("of a type: got %+v", got)
	}
	heard := map[uint32]*HandlerError{}
	for _, err := range seen.all {
		if handler := new(HandlerError); errors.As(err, &handler) {
			heard[handler.Index] = handler
		}
	}
	for i := range uint32(5) {
		if e := heard[i]; e == nil || (e.Stack != nil) != (i == 3) || !strings.Contains(e.Error(), "the handler failed: ") {
			t.Errorf("chunk %d: OnError heard %v, want a HandlerError, with a stack after the panic", i, e)
		}
	}
}

// A handler that ends its goroutine fails its try and no more: the worker goes on with as many handlers as before.
func TestWorkGoexit(t *testing.T) {
	t.Parallel()
	f := newFake(t, 5, nil)
	var seen errorsSeen
	stop := work(t, f.client(), WorkOptions{Concurrency: 1, NoAttach: true, OnError: seen.add}, func(_ context.Context, chunk *Chunk) ([]byte, error) {
		if chunk.Attempt == 1 {
			runtime.Goexit()
		}
		return []byte("x"), nil
	})
	f.wait(func() bool { return len(f.done) == 5 })
	if err := stop(); err != nil || len(f.failed) != 5 || f.failed[2].Error != errGoexit.Error() || len(seen.all) != 5 {
		t.Errorf("got %v, failed %v, heard %v; want each failed once, and heard of", err, f.failed, &seen)
	}
}

// At the end of the context running handlers finish and are reported, with a context that goes on. Chunks that were reserved
// ahead are given back.
func TestWorkDrains(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10, nil)
	started, finish := make(chan struct{}, 10), make(chan struct{})
	stop := work(t, f.client(), WorkOptions{Concurrency: 2, Prefetch: 3}, func(ctx context.Context, chunk *Chunk) ([]byte, error) {
		started <- struct{}{}
		<-finish
		return []byte("late"), ctx.Err()
	})
	<-started
	<-started
	f.wait(func() bool { return len(f.held) == 5 })
	done := make(chan error, 1)
	go func() { done <- stop() }()
	f.wait(func() bool { return len(f.released) == 3 })
	close(finish)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(f.done) != 2 || len(f.held) != 0 || len(f.ready) != 5 || len(f.failed) != 0 {
		t.Errorf("done %v, held %v, ready %v, failed %v; want 2 done, 3 given back, 5 never taken", f.done, f.held, f.ready, f.failed)
	}
	for _, index := range f.released {
		if _, twice := f.done[index]; twice {
			t.Errorf("chunk %d was given back and completed", index)
		}
	}
}

// A reserve that waits when the drain begins is not broken off while handlers still work. The server might just have answered it:
// then its chunks go back at once, instead of being held without a worker. It is broken off when nothing else is left to do.
func TestPollOutlivesDrain(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2, nil)
	started, finish := make(chan struct{}), make(chan struct{})
	stop := work(t, f.client(), WorkOptions{Concurrency: 1, Prefetch: 2, Wait: time.Minute}, func(context.Context, *Chunk) ([]byte, error) {
		close(started)
		<-finish
		return nil, nil
	})
	<-started
	f.wait(func() bool { return f.calls["reservations"] == 2 }) // the second one waits
	done := make(chan error, 1)
	go func() { done <- stop() }()
	f.wait(func() bool { return len(f.released) == 1 }) // the drain has begun
	f.mu.Lock()
	f.ready = append(f.ready, 2)
	f.cond.Broadcast()
	f.mu.Unlock()
	f.wait(func() bool { return len(f.released) == 2 || f.calls["broken off"] > 0 })
	close(finish)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if f.calls["broken off"] != 0 || len(f.done) != 1 || len(f.held) != 0 {
		t.Errorf("%d reserves were broken off, done %v, held %v; want none, one done and none held", f.calls["broken off"], f.done, f.held)
	}
}

// After the grace period handlers get the order to stop, and their chunks are given back without a failed try.
func TestWorkGrace(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1, nil)
	started := make(chan struct{})
	stop := work(t, f.client(), WorkOptions{Grace: time.Millisecond}, func(ctx context.Context, _ *Chunk) ([]byte, error) {
		close(started)
		<-ctx.Done()
		if cause := context.Cause(ctx); cause != ErrDraining {
			t.Errorf("got the cause %v, want %v", cause, ErrDraining)
		}
		return nil, ctx.Err()
	})
	<-started
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(f.released) != 1 || len(f.failed)+len(f.done)+len(f.held) != 0 {
		t.Errorf("released %v, failed %v, done %v, held %v; want only released", f.released, f.failed, f.done, f.held)
	}
}

// Reservations are extended while their handler runs, also of chunks that wait for one.
func TestWorkExtends(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2, nil)
	finish := make(chan struct{})
	stop := work(t, f.client(), WorkOptions{Concurrency: 1, Prefetch: 1, Timeout: 100 * time.Millisecond}, func(context.Context, *Chunk) ([]byte, error) {
		<-finish
		return nil, nil
	})
	f.wait(func() bool { return f.extended[0] >= 3 && f.extended[1] >= 3 })
	close(finish)
	f.wait(func() bool { return len(f.done) == 2 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A lost reservation ends its handler's context, and the handler's result is not reported. OnError gets a result that comes too
// late.
func TestWorkLost(t *testing.T) {
	t.Parallel()
	f := newFake(t, 2, nil)
	f.results["extend 0"] = api.StatusLost
	f.results["complete 1"] = api.StatusGone
	var seen errorsSeen
	stop := work(t, f.client(), WorkOptions{Concurrency: 2, Timeout: 100 * time.Millisecond, OnError: seen.add}, func(ctx context.Context, chunk *Chunk) ([]byte, error) {
		if chunk.Index == 0 {
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != ErrLost {
				t.Errorf("got the cause %v, want %v", cause, ErrLost)
			}
		}
		return []byte("x"), nil
	})
	f.wait(func() bool { return f.extended[0] > 0 && f.asked["complete 1"] > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(f.done)+len(f.failed) != 0 {
		t.Errorf("done %v, failed %v; want neither", f.done, f.failed)
	}
	lost, gone := false, false
	for _, err := range seen.all {
		var chunk *ChunkError
		if errors.As(err, &chunk) {
			lost = lost || chunk.Index == 0 && chunk.Result.Status == api.StatusLost
			gone = gone || chunk.Index == 1 && chunk.Result.Status == api.StatusGone
		}
	}
	if !lost || !gone {
		t.Errorf("heard %v, want a lost and a gone chunk", &seen)
	}
}

// A server that refuses the calls for good ends Work with its error. Running handlers finish before.
func TestWorkRefused(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	begun, refused := make(chan struct{}), make(chan struct{})
	f := newFake(t, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/reservations") && calls.Add(1) == 2 {
			io.Copy(io.Discard, r.Body)
			<-begun
			writeProblem(w, api.Problem{Title: "Unknown queue", Status: 404, Code: api.CodeUnknownQueue})
			close(refused)
			return true
		}
		return false
	})
	err := f.client().Work(t.Context(), WorkOptions{Concurrency: 2}, func(context.Context, *Chunk) ([]byte, error) {
		close(begun)
		<-refused
		return []byte("x"), nil
	})
	if CodeOf(err) != api.CodeUnknownQueue || f.done[0] != "x" {
		t.Errorf("got %v and %v done, want %s and the running chunk done", err, f.done, api.CodeUnknownQueue)
	}
}

// A server that is away for some calls loses nothing: results are kept and reported when it is back.
func TestWorkOutlivesFailures(t *testing.T) {
	t.Parallel()
	const n = 50
	var calls atomic.Int32
	f := newFake(t, n, func(w http.ResponseWriter, r *http.Request) bool {
		switch calls.Add(1) % 4 {
		case 1:
			io.Copy(io.Discard, r.Body)
			writeProblem(w, api.Problem{Title: "Unavailable", Status: 503, Code: api.CodeUnavailable})
			return true
		case 2:
			panic(http.ErrAbortHandler) // breaks the connection
		}
		return false
	})
	f.server.Config.ErrorLog = nil
	var seen errorsSeen
	stop := work(t, f.client(WithRetries(0)), WorkOptions{Concurrency: 20, OnError: seen.add}, func(context.Context, *Chunk) ([]byte, error) { return []byte("x"), nil })
	f.wait(func() bool { return len(f.done) == n })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(seen.all) == 0 {
		t.Error("OnError heard nothing of the failed calls")
	}
}

// Outputs that together are too much for one call go in several; one that is too much alone fails its chunk for good.
func TestWorkTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 20_000
	f := newFake(t, 40, func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength <= limit {
			return false
		}
		io.Copy(io.Discard, r.Body)
		writeProblem(w, api.Problem{Title: "Too large", Status: 413, Code: api.CodeTooLarge})
		return true
	})
	stop := work(t, f.client(), WorkOptions{Concurrency: 40}, func(_ context.Context, chunk *Chunk) ([]byte, error) {
		if chunk.Index == 7 {
			return make([]byte, 2*limit), nil
		}
		return []byte(strings.Repeat("x", 3000)), nil
	})
	f.wait(func() bool { return len(f.done) == 39 && len(f.failed) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := f.failed[7]; !got.Fatal || !strings.Contains(got.Error, "40000 bytes") {
		t.Errorf("got %+v, want a final failure that names the size", got)
	}
}

// Options that make no sense are refused before anything is sent.
func TestWorkOptions(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "http://127.0.0.1:1")
	for _, o := range []WorkOptions{{Timeout: time.Millisecond}, {Wait: time.Hour}, {Wait: -1}, {Strategy: `{"type":`}, {Concurrency: 1 << 40}, {Concurrency: 1, Prefetch: 1<<63 - 1}} {
		if err := c.Work(t.Context(), o, nil); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	for strategy, want := range map[string]string{"": "", " OldestFirst ": `"OldestFirst"`, ` {"type":"random"}`: `{"type":"random"}`} {
		if got, err := strategyJSON(strategy); err != nil || string(got) != want {
			t.Errorf("strategy %q: got %s, %v; want %s", strategy, got, err, want)
		}
	}
}
