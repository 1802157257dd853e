package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

func connect(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Dead letters over the wire: found, redriven, deleted, and many at once.
func TestDeadLettersOnServer(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	s, err := c.Insert(ctx, "default", &api.NewSubmission{
		Chunks: api.Chunks{Count: 6, Template: "{index}"}, MaxAttempts: 1, OnExhausted: "dead_letter", MaxFailedChunks: 6, TimeoutMS: 60_000,
		RetryBackoff: &api.Backoff{Kind: api.BackoffList, DelaysMS: []int64{0, 1000}, Jitter: api.JitterNone},
	})
	if err != nil || s.MaxFailedChunks != 6 || s.TimeoutMS != 60_000 || s.OnExhausted != "dead_letter" || s.RetryBackoff == nil ||
		!slices.Equal(s.RetryBackoff.DelaysMS, []int64{0, 1000}) || s.RetryBackoff.Jitter != api.JitterNone {
		t.Fatalf("insert: got %+v %v, want the policy and the budget as asked", s, err)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var once sync.Once
	work := func(ctx context.Context, _ *client.Chunk) ([]byte, error) { return nil, errors.New("no luck in 3 ms") }
	go func() {
		_, _ = c.Wait(ctx, s.ID)
		once.Do(stop)
	}()
	if err := c.Work(working, client.WorkOptions{Concurrency: 2}, work); err != nil {
		t.Fatal(err)
	}
	filter := api.DeadFilter{Submission: s.ID}
	var dead []api.DeadLetter
	for d, err := range c.DeadLetters(ctx, "default", filter) {
		if err != nil {
			t.Fatal(err)
		}
		dead = append(dead, d)
	}
	groups, err := c.DeadGroups(ctx, "default", filter)
	if err != nil || len(dead) != 6 || len(groups.Items) != 1 || groups.Items[0].Pattern != "no luck in <n> ms" || groups.Others != 0 {
		t.Fatalf("got %d dead letters in the groups %+v, %v; want 6 in one", len(dead), groups, err)
	}
	if d, err := c.DeadLetter(ctx, "default", s.ID, 3); err != nil || len(d.History) != 1 || d.History[0].Error != "no luck in 3 ms" {
		t.Errorf("dead letter 3: got %+v %v, want its one try", d, err)
	}
	if sub, err := c.Redrive(ctx, "default", s.ID, 3); err != nil || sub.State != api.StateOpen || sub.Ready != 1 || sub.Dead != 5 {
		t.Errorf("redrive: got %+v %v, want an open submission with 1 ready and 5 dead", sub, err)
	}
	if err := c.DeleteDeadLetter(ctx, "default", s.ID, 3); client.CodeOf(err) != api.CodeUnknownDeadLetter {
		t.Errorf("deletion of what was redriven: got %v, want %s", err, api.CodeUnknownDeadLetter)
	}
	if err := c.DeleteDeadLetter(ctx, "default", s.ID, 4); err != nil {
		t.Error(err)
	}
	b, err := c.StartBulk(ctx, &api.BulkRequest{Queue: "default", Action: api.BulkRedrive, Filter: api.BulkFilter{Submission: s.ID}, RatePerSecond: 1})
	if err != nil || b.State != api.BulkRunning || b.Filter.Submission != s.ID {
		t.Fatalf("bulk operation: got %+v %v, want it running", b, err)
	}
	if b, err = c.CancelBulk(ctx, b.ID, "ana"); err != nil || b.State != api.BulkCancelled {
		t.Errorf("cancel: got %+v %v", b, err)
	}
	if now, err := c.Bulk(ctx, b.ID); err != nil || !reflect.DeepEqual(now, b) {
		t.Errorf("the cancelled operation: got %+v %v, want %+v", now, err, b)
	}
	for first, err := range c.Bulks(ctx, "default") {
		if err != nil || !reflect.DeepEqual(first, *b) {
			t.Errorf("the list of operations begins with %+v %v, want %+v", first, err, b)
		}
		break
	}
}

// An output that the server refuses fails its chunk for good, with the server's reason. The others are done, each in its first try.
func TestOutputIsRefusedByServer(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	s, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 20, Template: "{index}"}, OnExhausted: "dead_letter", MaxFailedChunks: 20})
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	var tries atomic.Int32
	go func() {
		worked <- c.Work(working, client.WorkOptions{Concurrency: 20}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			tries.Add(1)
			if chunk.Index == 7 {
				return make([]byte, 1<<20+1), nil
			}
			return chunk.Content, nil
		})
	}()
	ended, err := c.Wait(ctx, s.ID)
	if err != nil || ended.Done != 19 || ended.Dead != 1 || tries.Load() != 20 {
		t.Errorf("got %+v %v after %d tries; want 19 done and 1 dead after 20", ended, err, tries.Load())
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	const want = "the server refused the output: it has 1048577 bytes"
	if d, err := c.DeadLetter(ctx, "default", s.ID, 7); err != nil || len(d.History) != 1 || !strings.HasPrefix(d.History[0].Error, want) {
		t.Errorf("dead letter: got %+v %v, want one try that says %q", d, err, want)
	}
}

// Two consumers share the work of a real server; every chunk is completed once, with its own output.
func TestWorkOnServer(t *testing.T) {
	t.Parallel()
	const n = 5000
	c := connect(t, serve(t))
	chunks := func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(fmt.Appendf(nil, "in %d\xff", i), nil) {
				return
			}
		}
	}
	s, err := c.InsertStream(t.Context(), "default", &api.NewSubmission{Meta: api.Meta{"company": api.Int(5)}, Attachment: api.Bytes("with all")}, chunks)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	tries, snoozed := make(map[uint32]int), make(map[uint32]bool)
	unexpected := func(err error) {
		if failed := new(client.HandlerError); !errors.As(err, &failed) || failed.Err.Error() != "again" {
			t.Error(err)
		}
	}
	var consumers sync.WaitGroup
	for range 2 {
		consumers.Go(func() {
			err := c.Work(ctx, client.WorkOptions{Concurrency: 8, Prefetch: 100, OnError: unexpected}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
				mu.Lock()
				tries[chunk.Index]++
				try := tries[chunk.Index]
				if string(chunk.Attachment) != "with all" || chunk.Meta["company"] != api.Int(5) || int(chunk.Attempt) != try {
					t.Errorf("try %d: got %+v", try, chunk)
				}
				if chunk.Index%100 == 50 && !snoozed[chunk.Index] {
					snoozed[chunk.Index] = true
					tries[chunk.Index]-- // so the next one is attempt 1 again
					mu.Unlock()
					return nil, client.Snooze(time.Millisecond)
				}
				mu.Unlock()
				if chunk.Index%100 == 0 && try == 1 {
					return nil, client.RetryAfter(errors.New("again"), 0)
				}
				return append([]byte("out of "), chunk.Content...), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	s, err = c.Wait(t.Context(), s.ID)
	cancel()
	consumers.Wait()
	if err != nil || s.State != api.StateCompleted || s.Done != n {
		t.Fatalf("got %+v, %v", s, err)
	}
	next := uint32(0)
	for output, err := range c.Outputs(t.Context(), s.ID) {
		if want := fmt.Sprintf("out of in %d\xff", next); err != nil || output.Index != next || string(output.Output) != want {
			t.Fatalf("got output %d %q, %v; want %d %q", output.Index, output.Output, err, next, want)
		}
		next++
	}
	if next != n {
		t.Errorf("got %d outputs, want %d", next, n)
	}
	stats, err := c.Stats(t.Context(), "default")
	if err != nil || stats.DoneTotal != n || stats.FailedTotal != n/100 || stats.Reserved != 0 {
		t.Errorf("stats: got %+v, %v", stats, err)
	}
}

// Inserts with one key insert once; another request under the key is refused.
func TestInsertOnce(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx := t.Context()
	n := &api.NewSubmission{Chunks: api.Chunks{Count: 4_000_000_000, Prefix: "s3://x/"}, Priority: -7, Meta: api.Meta{"mode": api.Text("a\"b")}}
	first, err := c.Insert(ctx, "default", n, client.WithKey("once"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Insert(ctx, "default", n, client.WithKey("once"))
	if err != nil || again.ID != first.ID || again.Chunks != 4_000_000_000 {
		t.Errorf("got %+v, %v; want the submission %s", again, err, first.ID)
	}
	n.Priority = 8
	if _, err := c.Insert(ctx, "default", n, client.WithKey("once")); client.CodeOf(err) != api.CodeIdempotencyReuse {
		t.Errorf("another request: got %v, want %s", err, api.CodeIdempotencyReuse)
	}
	got, err := c.Get(ctx, first.ID)
	if err != nil || got.Priority != -7 || got.Meta["mode"] != api.Text("a\"b") || got.Prefix != "s3://x/" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Lists, chunks, cancel and queues work through the client as the server means them.
func TestReadingServer(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx := t.Context()
	if _, err := c.PutQueue(ctx, "other", api.QueueSettingsInput{MaxAttempts: new(uint16(3)), Durability: new(api.DurabilityRelaxed)}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 7 {
		s, err := c.Insert(ctx, "other", &api.NewSubmission{Meta: api.Meta{"n": api.Int(int64(i % 2)), "t": api.Text("1")}, Chunks: api.Chunks{Count: 3, Template: "{index}"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	for _, priority := range []int64{7, -3} {
		if s, err := c.SetPriority(ctx, ids[2], priority); err != nil || s.Priority != priority {
			t.Errorf("priority %d: got %+v, %v", priority, s, err)
		}
	}
	cancelled, err := c.Cancel(ctx, ids[2])
	if err != nil || cancelled.State != api.StateCancelled {
		t.Fatalf("got %+v, %v", cancelled, err)
	}
	if _, err := c.SetPriority(ctx, ids[2], 1); client.CodeOf(err) != api.CodeConflict {
		t.Errorf("priority of what has ended: got %v, want %s", err, api.CodeConflict)
	}
	var got []string
	for s, err := range c.List(ctx, "other", client.ListOptions{States: []string{api.StateOpen}, Meta: api.Meta{"n": api.Int(0), "t": api.Text("1")}, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.ID)
	}
	if want := []string{ids[6], ids[4], ids[0]}; !slices.Equal(got, want) {
		t.Errorf("list: got %v, want %v", got, want)
	}
	held, err := c.Reserve(ctx, "other", &api.ReserveRequest{Max: 1, Strategy: []byte(`"OldestFirst"`), Consumer: "me"})
	if err != nil || len(held.Reservations) != 1 || held.Reservations[0].Submission != ids[0] {
		t.Fatalf("got %+v, %v", held, err)
	}
	var states []string
	for chunk, err := range c.Chunks(ctx, ids[0]) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, fmt.Sprint(chunk.Index, chunk.State, chunk.Consumer))
	}
	if want := []string{"0reservedme", "1ready", "2ready"}; !slices.Equal(states, want) {
		t.Errorf("chunks: got %q, want %q", states, want)
	}
	var names []string
	for q, err := range c.Queues(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, q.Name+" "+q.Settings.Durability)
	}
	slices.Sort(names)
	if want := []string{"default full", "other relaxed"}; !slices.Equal(names, want) {
		t.Errorf("queues: got %q, want %q", names, want)
	}
	if err := c.DeleteQueue(ctx, "other"); client.CodeOf(err) != api.CodeConflict {
		t.Errorf("deleting a queue with work: got %v, want %s", err, api.CodeConflict)
	}
	if _, err := c.Queue(ctx, "none"); client.CodeOf(err) != api.CodeUnknownQueue {
		t.Errorf("got %v, want %s", err, api.CodeUnknownQueue)
	}
}

// A submission that is cancelled under its handlers ends their contexts' work as gone, and Work goes on.
func TestCancelUnderWork(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	s, err := c.Insert(t.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan *client.ChunkError, 10)
	err = c.Work(ctx, client.WorkOptions{OnError: func(err error) {
		var chunk *client.ChunkError
		if errors.As(err, &chunk) {
			heard <- chunk
			cancel()
		}
	}}, func(context.Context, *client.Chunk) ([]byte, error) {
		if _, err := c.Cancel(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		return []byte("too late"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got.Result.Status != api.StatusGone || got.Submission != s.ID {
		t.Errorf("got %+v, want a chunk of %s that is gone", got, s.ID)
	}
}

// Named strategies through the client: versions, conditions, use by name, warnings.
func TestStrategiesOnServer(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx := t.Context()
	first, err := c.PutStrategy(ctx, "default", "nightly", "OldestFirst", client.Condition{Absent: true})
	if err != nil || first.Version != 1 || first.Strategy != "OldestFirst" {
		t.Fatalf("put: got %+v, %v", first, err)
	}
	if _, err := c.PutStrategy(ctx, "default", "nightly", "Random", client.Condition{Absent: true}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("create over it: got %v, want %s", err, api.CodePrecondition)
	}
	second, err := c.PutStrategy(ctx, "default", "nightly", `{"type":"newest_first"}`, client.Condition{ETag: first.ETag})
	if err != nil || second.Version != 2 || second.Strategy != "NewestFirst" {
		t.Errorf("change: got %+v, %v", second, err)
	}
	if _, err := c.PutStrategy(ctx, "default", "nightly", "Random", client.Condition{ETag: first.ETag}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("change of an old version: got %v, want %s", err, api.CodePrecondition)
	}
	if old, err := c.Strategy(ctx, "default", "nightly", 1); err != nil || *old != *first {
		t.Errorf("version 1: got %+v, %v; want %+v", old, err, first)
	}
	var names []string
	for s, err := range c.Strategies(ctx, "default") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(s.Name, s.Version))
	}
	if want := []string{"nightly2"}; !slices.Equal(names, want) {
		t.Errorf("list: got %q, want %q", names, want)
	}
	valid, err := c.ValidateStrategy(ctx, "default", "OrElse(Random, OldestFirst)")
	if err != nil || !slices.Equal(valid.Branches, []string{"Random", "OldestFirst"}) || len(valid.Warnings) != 1 || valid.Warnings[0].Pointer != "/strategy/fallback" {
		t.Errorf("validate: got %+v, %v", valid, err)
	}
	if _, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 1, Strategy: []byte(`{"name":"nightly"}`)}); err != nil {
		t.Errorf("reserve by name: %v", err)
	}
	if err := c.DeleteStrategy(ctx, "default", "nightly", client.Condition{ETag: first.ETag}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("delete of an old version: got %v, want %s", err, api.CodePrecondition)
	}
	if err := c.DeleteStrategy(ctx, "default", "nightly", client.Condition{ETag: second.ETag}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.Strategy(ctx, "default", "nightly", 0); client.CodeOf(err) != api.CodeUnknownStrategy {
		t.Errorf("after the deletion: got %v, want %s", err, api.CodeUnknownStrategy)
	}
}

// Settings of values, through the client: conditions, both kinds of values, odd texts, and why an empty reserve is empty.
func TestValuesOnServer(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx := t.Context()
	values := []api.MetaValue{api.Text("acme"), api.Int(-7), api.Text("-7"), api.Text(""), api.Text("."), api.Text(".."), api.Text("s:x"), api.Text("a/b c+d%2F?e=f#g&h;i\\\"€\x00\n")}
	for i, value := range values {
		limit, weight := uint32(i), float64(i)+0.001
		put, err := c.PutValue(ctx, "default", "company", value, api.ValueSettings{Limit: &limit, Weight: &weight}, client.Condition{Absent: true})
		if err != nil || put.Value != value || *put.Limit != limit || *put.Weight != weight || put.ETag == "" {
			t.Fatalf("put %q: got %+v, %v", value, put, err)
		}
	}
	for i, value := range values {
		got, err := c.Value(ctx, "default", "company", value)
		if err != nil || got.Value != value || *got.Limit != uint32(i) {
			t.Errorf("get %q: got %+v, %v", value, got, err)
		}
	}
	byDefault, err := client.PutMetaKey(ctx, c, "default", "company", api.ValueSettings{Limit: new(uint32(9))}, client.Condition{Absent: true})
	if err != nil || *byDefault.Limit != 9 || byDefault.Weight != nil || byDefault.ETag == "" {
		t.Fatalf("put a default: got %+v, %v", byDefault, err)
	}
	rates := api.ValueSettings{Rate: &api.Rate{Max: 50, PerMS: 60_000}}
	if put, err := c.PutValue(ctx, "default", "rated", api.Int(1), rates, client.Condition{Absent: true}); err != nil || *put.Rate != *rates.Rate {
		t.Errorf("put a rate: got %+v, %v", put, err)
	}
	if put, err := client.PutMetaKey(ctx, c, "default", "rated", rates, client.Condition{Absent: true}); err != nil || *put.Rate != *rates.Rate {
		t.Errorf("put a default rate: got %+v, %v", put, err)
	}
	for _, err := range []error{c.DeleteValue(ctx, "default", "rated", api.Int(1), client.Condition{}),
		client.DeleteMetaKey(ctx, c, "default", "rated", client.Condition{})} {
		if err != nil {
			t.Errorf("delete a rate: %v", err)
		}
	}
	if got, err := client.MetaKey(ctx, c, "default", "company"); err != nil || *got.Limit != 9 || got.ETag != byDefault.ETag {
		t.Errorf("get a default: got %+v, %v", got, err)
	}
	if got, err := c.Value(ctx, "default", "company", values[0]); err != nil || *got.Limit != 0 || *got.DefaultLimit != 9 {
		t.Errorf("get a value with a default: got %+v, %v", got, err)
	}
	if err := client.DeleteMetaKey(ctx, c, "default", "company", client.Condition{ETag: `"9-0000000000000000"`}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("delete of another version: got %v, want %s", err, api.CodePrecondition)
	}
	if err := client.DeleteMetaKey(ctx, c, "default", "company", client.Condition{ETag: byDefault.ETag}); err != nil {
		t.Errorf("delete a default: %v", err)
	}
	n := 0
	for got, err := range c.Values(ctx, "default", "company", "ready") {
		if err != nil || !slices.Contains(values, got.Value) {
			t.Errorf("list: got %+v, %v", got, err)
		}
		n++
	}
	if n != len(values) {
		t.Errorf("list: got %d values, want %d", n, len(values))
	}
	first, err := c.Value(ctx, "default", "company", values[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.PutValue(ctx, "default", "company", values[0], api.ValueSettings{Weight: new(2.0)}, client.Condition{ETag: first.ETag})
	if err != nil || second.Limit != nil || *second.Weight != 2 {
		t.Errorf("change: got %+v, %v", second, err)
	}
	if _, err := c.PutValue(ctx, "default", "company", values[0], api.ValueSettings{Weight: new(3.0)}, client.Condition{ETag: first.ETag}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("change of an old version: got %v, want %s", err, api.CodePrecondition)
	}
	if err := c.DeleteValue(ctx, "default", "company", values[0], client.Condition{ETag: first.ETag}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("delete of an old version: got %v, want %s", err, api.CodePrecondition)
	}
	if err := c.DeleteValue(ctx, "default", "company", values[0], client.Condition{ETag: second.ETag}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.Value(ctx, "default", "company", values[0]); client.CodeOf(err) != api.CodeUnknownValue {
		t.Errorf("after the deletion: got %v, want %s", err, api.CodeUnknownValue)
	}
	var keys []api.MetaKey
	for key, err := range c.MetaKeys(ctx, "default") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if want := []api.MetaKey{{Key: "company", Values: uint64(len(values) - 1), ValuesSet: uint64(len(values) - 1)}}; !slices.Equal(keys, want) {
		t.Errorf("keys: got %+v, want %+v", keys, want)
	}
	if _, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 3, Prefix: "x"}, Meta: api.Meta{"host": api.Int(7)}}); err != nil {
		t.Fatal(err)
	}
	request := &api.ReserveRequest{Max: 5, Strategy: []byte(`"MaxSimultaneous(\"host\", 2, Random)"`)}
	want := []api.Saturated{{Key: "host", Value: api.Int(7), InFlight: 2, Limit: 2}}
	if got, err := c.Reserve(ctx, "default", request); err != nil || len(got.Reservations) != 2 || got.Limited != nil {
		t.Errorf("reserve: got %+v, %v", got, err)
	}
	if got, err := c.Reserve(ctx, "default", request); err != nil || *got.Reason != api.ReasonAllLimited || !slices.Equal(got.Limited, want) {
		t.Errorf("empty reserve: got %+v, %v; want %+v", got, err, want)
	}
	if got, err := c.Exchange(ctx, "default", &api.ExchangeRequest{Reserve: request}); err != nil || *got.Reason != api.ReasonAllLimited || !slices.Equal(got.Limited, want) {
		t.Errorf("empty exchange: got %+v, %v; want %+v", got, err, want)
	}
}

// Rules are set, read and lifted through the client; the second time says the same.
func TestRulesOnServer(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	if _, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 2, Template: "x"}, Meta: api.Meta{"customer": api.Int(7)}}); err != nil {
		t.Fatal(err)
	}
	asked := api.RuleRequest{
		Action: api.ActionBlock, Match: api.RuleMatch{Meta: api.Meta{"customer": api.Int(7)}}, Reason: "unpaid", Actor: "eve & adam",
		Until: api.At(time.Now().Add(time.Hour)), Effects: api.RuleEffects{Insert: true},
	}
	set, err := c.SetRule(ctx, "default", &asked)
	if err != nil || set.ID == "" || set.Reason != asked.Reason || set.Effects != asked.Effects || !set.Until.Equal(asked.Until.Time) {
		t.Fatalf("set: got %+v %v, want what was asked", set, err)
	}
	if again, err := c.SetRule(ctx, "default", &asked); err != nil || again.ID != set.ID {
		t.Errorf("set again: got %+v %v, want the same rule", again, err)
	}
	var listed []api.Rule
	for r, err := range c.Rules(ctx, "default") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, r)
	}
	if one, err := c.Rule(ctx, "default", set.ID); err != nil || len(listed) != 1 || listed[0].ID != one.ID || one.Match.Meta["customer"] != api.Int(7) {
		t.Errorf("read: got %+v, %+v %v; want the one rule twice", one, listed, err)
	}
	if stats, err := c.Stats(ctx, "default"); err != nil || stats.Blocked != 2 || stats.Ready != 0 {
		t.Errorf("stats: got %+v %v, want 2 blocked chunks", stats, err)
	}
	_, err = c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "x"}, Meta: api.Meta{"customer": api.Int(7)}})
	if client.CodeOf(err) != api.CodeRefusedByRule {
		t.Errorf("an insert that the rule refuses: got %v", err)
	}
	for range 2 {
		if err := c.LiftRule(ctx, "default", set.ID, "eve & adam"); err != nil {
			t.Errorf("lift: %v", err)
		}
	}
	if _, err := c.Rule(ctx, "default", set.ID); client.CodeOf(err) != api.CodeUnknownRule {
		t.Errorf("a lifted rule: got %v, want it to be unknown", err)
	}
}

// A process that ensures its queue makes it once, and changes nothing of one that is there. A refusal for another reason is
// returned.
func TestEnsureQueueOnServer(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	want := api.QueueSettingsInput{MaxAttempts: new(uint16(3)), OnExhausted: new(api.ExhaustedSkip)}
	made, err := c.EnsureQueue(ctx, "night", want)
	if err != nil || made.Settings.MaxAttempts != 3 || made.Settings.OnExhausted != api.ExhaustedSkip {
		t.Fatalf("got %+v %v, want the queue with these settings", made, err)
	}
	if _, err := c.ChangeQueue(ctx, "night", api.QueueSettingsInput{MaxAttempts: new(uint16(4))}); err != nil {
		t.Fatal(err)
	}
	again, err := c.EnsureQueue(ctx, "night", want)
	if err != nil || again.Settings.MaxAttempts != 4 || again.Settings.OnExhausted != api.ExhaustedSkip {
		t.Errorf("got %+v %v, want the queue as the operator left it", again, err)
	}
	if _, err := c.EnsureQueue(ctx, "not a name", want); err == nil {
		t.Error("a name that is none was accepted")
	}
	if _, err := c.EnsureQueue(ctx, "night", api.QueueSettingsInput{OnExhausted: new("forget")}); err == nil {
		t.Error("settings that are none were accepted")
	}
}
