package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

type resize struct {
	Name  string `json:"name"`
	Width int    `json:"width"`
}

// insertOf inserts a submission of a kind, with at most two attempts and no pause between them.
func insertOf[Args any](t *testing.T, c *client.Client, kind string, args ...Args) string {
	t.Helper()
	made, err := client.SubmissionOf(kind, args...)
	if err != nil {
		t.Fatal(err)
	}
	made.MaxAttempts, made.OnExhausted = 2, "dead_letter"
	made.RetryBackoff = &api.Backoff{Kind: api.BackoffList, DelaysMS: []int64{0}, Jitter: api.JitterNone}
	s, err := c.Insert(t.Context(), "default", made)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// happened is a list of events from many goroutines.
type happened struct {
	mu   sync.Mutex
	list []string
}

func (h *happened) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, fmt.Sprintf(format, args...))
}

func (h *happened) sorted() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(h.list)), "\n")
}

// workKinds works in the background until the test stops it.
func workKinds(t *testing.T, c *client.Client, o client.WorkOptions, k *client.Kinds) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		err := k.Work(ctx, c, o)
		if ctx.Err() == nil {
			panic(fmt.Sprintf("the worker ended by itself: %v", err)) // the test would wait for ever
		}
		done <- err
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func wait(t *testing.T, c *client.Client, id string) *api.Submission {
	t.Helper()
	s, err := c.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each chunk goes to the handler of its kind with its arguments, through the middleware, in whatever form the strategy is given; those of
// other kinds and without a kind stay where they are.
func TestKindsOnServer(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"", ` Fair("company", OldestFirst)`, `{"type":"fair","meta_field":"company","underlying":"newest_first"}`} {
		c, ctx := connect(t, serve(t)), t.Context()
		if strategy != "" {
			strategy = strings.ReplaceAll(strategy, "company", client.MetaKind)
		}
		const odd = `o"d<d>\ é`
		sizes := insertOf(t, c, "resize", resize{"a.png", 10}, resize{"b.png", 20})
		mails := insertOf(t, c, "email", "ana", "bo")
		odds := insertOf(t, c, odd, 1)
		other := insertOf(t, c, "fax", 1)
		plain, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		var did happened
		k := &client.Kinds{}
		for _, name := range []string{"outer", "inner"} {
			k.Middleware = append(k.Middleware, func(next client.Handler) client.Handler {
				return func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
					output, err := next(ctx, chunk)
					return fmt.Appendf(nil, "%s(%s)", name, output), err
				}
			})
		}
		client.Handle(k, "resize", client.KindOptions{}, func(_ context.Context, args resize, chunk *client.Chunk) ([]byte, error) {
			did.add("resize %s to %d as %d", args.Name, args.Width, chunk.Index)
			return []byte(args.Name), nil
		})
		client.Handle(k, "email", client.KindOptions{Concurrency: 1}, func(_ context.Context, to string, _ *client.Chunk) ([]byte, error) {
			did.add("email to %s", to)
			return nil, nil
		})
		client.Handle(k, odd, client.KindOptions{}, func(context.Context, int, *client.Chunk) ([]byte, error) { return nil, nil })
		stop := workKinds(t, c, client.WorkOptions{Concurrency: 4, Strategy: strategy}, k)
		for _, id := range []string{sizes, mails, odds} {
			if s := wait(t, c, id); s.State != api.StateCompleted {
				t.Errorf("strategy %q: got %+v, want it completed", strategy, s)
			}
		}
		stop()
		if want := "email to ana\nemail to bo\nresize a.png to 10 as 0\nresize b.png to 20 as 1"; did.sorted() != want {
			t.Errorf("strategy %q: got\n%s\nwant\n%s", strategy, did.sorted(), want)
		}
		for output, err := range c.Outputs(ctx, sizes) {
			if want := "outer(inner(" + string("ab"[output.Index]) + ".png))"; err != nil || string(output.Output) != want {
				t.Errorf("output %d: got %s %v, want %s", output.Index, output.Output, err, want)
			}
		}
		for _, id := range []string{other, plain.ID} {
			if s, err := c.Get(ctx, id); err != nil || s.Done != 0 || s.Reserved != 0 || s.Ready != 1 {
				t.Errorf("another kind: got %+v %v, want it untouched", s, err)
			}
		}
	}
}

// The handler's error decides, then the retries of its kind, then the queue. Hooks hear of each failure, and of the last one.
func TestFailuresOfKinds(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ids := map[string]string{}
	for _, kind := range []string{"fails", "twice", "hopeless", "slow", "large", "wrong"} {
		ids[kind] = insertOf(t, c, kind, resize{Name: kind})
	}
	snoozed := insertOf(t, c, "snoozed", 1)
	k := &client.Kinds{}
	var did happened
	k.OnFailure = func(_ context.Context, chunk *client.Chunk, err error) {
		text, _, _ := strings.Cut(err.Error(), ": ")
		did.add("%s failed, attempt %d: %s", chunk.Meta[client.MetaKind].Text(), chunk.Attempt, text)
	}
	k.OnDead = func(_ context.Context, chunk *client.Chunk, _ error) {
		did.add("%s is dead, attempt %d", chunk.Meta[client.MetaKind].Text(), chunk.Attempt)
		if chunk.Meta[client.MetaKind].Text() == "fails" {
			panic("in a hook")
		}
	}
	broken := errors.New("broken")
	handle := func(kind string, o client.KindOptions, fn func(context.Context, *client.Chunk) ([]byte, error)) {
		client.Handle(k, kind, o, func(ctx context.Context, _ resize, chunk *client.Chunk) ([]byte, error) { return fn(ctx, chunk) })
	}
	handle("fails", client.KindOptions{}, func(context.Context, *client.Chunk) ([]byte, error) { return nil, broken })
	handle("twice", client.KindOptions{Retry: func(_ *client.Chunk, err error) (time.Duration, bool) {
		return 0, errors.Is(err, broken)
	}}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
		if chunk.Attempt == 1 {
			return nil, broken
		}
		return []byte("now it works"), nil
	})
	handle("hopeless", client.KindOptions{Retry: func(*client.Chunk, error) (time.Duration, bool) { return 0, false }},
		func(context.Context, *client.Chunk) ([]byte, error) { return nil, broken })
	handle("slow", client.KindOptions{Timeout: time.Millisecond, Retry: func(_ *client.Chunk, err error) (time.Duration, bool) {
		return 0, !errors.Is(err, client.ErrHandlerTimeout)
	}}, func(ctx context.Context, _ *client.Chunk) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	handle("large", client.KindOptions{}, func(context.Context, *client.Chunk) ([]byte, error) { return make([]byte, 2<<20), nil })
	client.Handle(k, "wrong", client.KindOptions{Retry: func(*client.Chunk, error) (time.Duration, bool) { return 0, true }},
		func(context.Context, []int, *client.Chunk) ([]byte, error) { return nil, nil })
	var once sync.Once
	client.Handle(k, "snoozed", client.KindOptions{Retry: func(*client.Chunk, error) (time.Duration, bool) { return 0, false }},
		func(context.Context, int, *client.Chunk) (_ []byte, err error) {
			once.Do(func() { err = client.Snooze(0) })
			return nil, err
		})
	var seen happened
	stop := workKinds(t, c, client.WorkOptions{Concurrency: 3, OnError: func(err error) {
		if strings.Contains(err.Error(), "hook") {
			seen.add("%v", err)
		}
	}}, k)
	for kind, id := range ids {
		want := api.StateCompletedWithDead
		if kind == "twice" {
			want = api.StateCompleted
		}
		if s := wait(t, c, id); s.State != want {
			t.Errorf("%s: got %s, want %s", kind, s.State, want)
		}
	}
	if s := wait(t, c, snoozed); s.State != api.StateCompleted {
		t.Errorf("snoozed: got %s, want it completed", s.State)
	}
	stop() // waits for the hooks
	want := strings.Join([]string{
		"fails failed, attempt 1: broken", "fails failed, attempt 2: broken", "fails is dead, attempt 2",
		"hopeless failed, attempt 1: broken", "hopeless is dead, attempt 1",
		"large failed, attempt 1: the server refused the output", "large is dead, attempt 1",
		"slow failed, attempt 1: the handler took too long (more than 1ms)", "slow is dead, attempt 1",
		"twice failed, attempt 1: broken",
		"wrong failed, attempt 1: the content is not the JSON of []int", "wrong is dead, attempt 1",
	}, "\n")
	if did.sorted() != want {
		t.Errorf("got\n%s\nwant\n%s", did.sorted(), want)
	}
	if !strings.HasSuffix(seen.sorted(), "panic: in a hook") {
		t.Errorf("OnError heard %q, want the panic of the hook", seen.sorted())
	}
}

// A kind with a Concurrency of its own holds up no other: while all its handlers wait, the others' chunks are done, and none of its own
// begins beyond its number.
func TestKindsWithHandlersOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	slow := insertOf(t, c, "slow", 1, 2, 3, 4, 5)
	k := &client.Kinds{}
	begun, goOn := make(chan int, 5), make(chan struct{})
	client.Handle(k, "slow", client.KindOptions{Concurrency: 2}, func(_ context.Context, n int, _ *client.Chunk) ([]byte, error) {
		begun <- n
		<-goOn
		return nil, nil
	})
	client.Handle(k, "quick", client.KindOptions{}, func(context.Context, int, *client.Chunk) ([]byte, error) { return nil, nil })
	stop := workKinds(t, c, client.WorkOptions{Consumer: "w"}, k)
	<-begun
	<-begun
	if s := wait(t, c, insertOf(t, c, "quick", 1, 2, 3)); s.State != api.StateCompleted {
		t.Errorf("got %s, want it completed", s.State)
	}
	if n := len(begun); n != 0 {
		t.Errorf("%d more have begun, want two at once", n)
	}
	var names []string
	for consumer, err := range c.Consumers(t.Context(), "default") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, consumer.Consumer)
	}
	if want := []string{"w", "w-slow"}; !slices.Equal(names, want) {
		t.Errorf("the consumers are %q, want %q", names, want)
	}
	close(goOn)
	wait(t, c, slow)
	stop()
}

// A worker whose hooks are slow reserves less, so that no failures pile up behind them.
func TestHooksAreBounded(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	var running, most atomic.Int32
	k := &client.Kinds{OnFailure: func(context.Context, *client.Chunk, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			continue
		}
		time.Sleep(20 * time.Millisecond) // in which others would begin
	}}
	client.Handle(k, "a", client.KindOptions{}, func(context.Context, int, *client.Chunk) ([]byte, error) {
		return nil, client.Permanent(errors.New("no"))
	})
	stop := workKinds(t, c, client.WorkOptions{Concurrency: 1, Prefetch: -1}, k)
	wait(t, c, insertOf(t, c, "a", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
	stop()
	if most.Load() > 2 { // the hooks of a call's results, and those of the chunks that the same call reserved
		t.Errorf("%d hooks ran at once, want at most 2", most.Load())
	}
}

// A chunk whose failure ends its submission is over, too.
func TestDeadByTheEndOfTheSubmission(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	made, err := client.SubmissionOf("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	made.OnExhausted = "fail_submission"
	var did happened
	k := &client.Kinds{OnDead: func(_ context.Context, chunk *client.Chunk, err error) { did.add("%d: %v", chunk.Index, err) }}
	client.Handle(k, "a", client.KindOptions{}, func(context.Context, int, *client.Chunk) ([]byte, error) {
		return nil, client.Permanent(errors.New("no"))
	})
	stop := workKinds(t, c, client.WorkOptions{}, k)
	s, err := c.Insert(t.Context(), "default", made)
	if err != nil {
		t.Fatal(err)
	}
	if s := wait(t, c, s.ID); s.State != api.StateFailed {
		t.Errorf("got %s, want it failed", s.State)
	}
	stop()
	if did.sorted() != "0: no" {
		t.Errorf("OnDead heard %q, want it of chunk 0", did.sorted())
	}
}

// When an operator drains one of a worker's consumers, or it cannot go on, the whole worker ends.
func TestKindsEndTogether(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	k := &client.Kinds{}
	client.Handle(k, "a", client.KindOptions{}, func(context.Context, int, *client.Chunk) ([]byte, error) { return nil, nil })
	client.Handle(k, "b", client.KindOptions{Concurrency: 1}, func(context.Context, int, *client.Chunk) ([]byte, error) { return nil, nil })
	done := make(chan error, 1)
	go func() { done <- k.Work(ctx, c, client.WorkOptions{Consumer: "w"}) }()
	wait(t, c, insertOf(t, c, "b", 1))
	if _, err := c.DrainConsumer(ctx, "default", "w-b"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	err := k.Work(ctx, c, client.WorkOptions{Strategy: "Nonsense"})
	if client.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a wrong strategy: got %v, want %s", err, api.CodeInvalid)
	}
}

// Kinds that cannot work are refused before anything is reserved.
func TestKindsThatCannotWork(t *testing.T) {
	t.Parallel()
	c, err := client.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	add := func(k *client.Kinds, name string, o client.KindOptions) *client.Kinds {
		client.Handle(k, name, o, func(context.Context, int, *client.Chunk) ([]byte, error) { return nil, nil })
		return k
	}
	many := &client.Kinds{}
	for i := range 65 {
		add(many, fmt.Sprint("kind ", i), client.KindOptions{})
	}
	for want, k := range map[string]*client.Kinds{
		"there are 0 kinds":          {},
		"there are 65 kinds":         many,
		"a kind has no name":         add(&client.Kinds{}, "", client.KindOptions{}),
		"the kind a has two":         add(add(&client.Kinds{}, "a", client.KindOptions{}), "a", client.KindOptions{}),
		"the kind a has a negative":  add(&client.Kinds{}, "a", client.KindOptions{Timeout: -1}),
		"at most 128 are allowed":    add(&client.Kinds{}, strings.Repeat("k", 130), client.KindOptions{Concurrency: 1}),
		"at most 100000 are allowed": add(&client.Kinds{}, "a", client.KindOptions{Concurrency: 200_000}),
	} {
		if err := k.Work(t.Context(), c, client.WorkOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := client.SubmissionOf("a", make(chan int)); err == nil || !strings.Contains(err.Error(), "arguments 0 of the kind a") {
		t.Errorf("arguments that are no JSON: got %v", err)
	}
}
