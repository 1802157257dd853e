package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// retaining has a queue with this many submissions that ended at once, of one chunk each, and the time that its clock tells.
func retaining(t *testing.T, submissions int, settings queue.Settings) (e *Engine, now *atomic.Int64) {
	t.Helper()
	ctx, seed := context.Background(), new(atomic.Uint64)
	now = new(atomic.Int64)
	now.Store(time.Now().UnixNano())
	e, err := Open(ctx, Options{Dir: t.TempDir(), BallastBytes: -1, Now: func() time.Time { return time.Unix(0, now.Load()) },
		Seed: func() uint64 { return seed.Add(1) }})
	fatal(t, err)
	t.Cleanup(func() { _ = e.Close() })
	_, _, err = e.PutQueue(ctx, DefaultQueue, settings)
	fatal(t, err)
	q := queueAt(e, DefaultQueue)
	plan, err := q.Plan([]byte(`"OldestFirst"`))
	fatal(t, err)
	for submissions > 0 {
		list := make([]queue.Insertion, min(submissions, 500))
		for i := range list {
			list[i].New = &queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x"}, OperationsPerChunk: 1}
		}
		fatal(t, q.InsertMany(ctx, list, false))
		got, err := q.Reserve(ctx, ReserveRequest{Plan: plan, Max: len(list)}, nil)
		fatal(t, err)
		var failed []queue.FailItem
		var done []queue.CompleteItem
		for _, r := range got.Reservations {
			failed = append(failed, queue.FailItem{Token: r.Token, Error: "no"})
			done = append(done, queue.CompleteItem{Token: r.Token})
		}
		if settings.DeadRetention > 0 {
			_, err = q.Fail(ctx, failed, nil)
		} else {
			_, err = q.Complete(ctx, done, nil)
		}
		fatal(t, err)
		submissions -= len(list)
	}
	return e, now
}

func retention(e *Engine) api.LifecycleKind {
	lifecycle := queueAt(e, DefaultQueue).Lifecycle()
	for _, k := range lifecycle.Kinds {
		if k.Kind == "retention" {
			return k
		}
	}
	panic("there is no kind retention")
}

// However many submissions ended, all go when their time is over, in slices. Until then the life cycle shows their number, and since when
// the oldest is overdue.
func TestRetentionKeepsUp(t *testing.T) {
	t.Parallel()
	const all, first = 2500, 100
	settings := queue.DefaultSettings()
	settings.Durability, settings.Retention = queue.Relaxed, time.Minute
	e, now := retaining(t, all, settings)
	if k := retention(e); k.Pending != all || k.LagSeconds != 0 {
		t.Errorf("before their time: %d pending, %g seconds late; want %d and 0", k.Pending, k.LagSeconds, all)
	}
	e.cleaner.round(t.Context())
	if k := retention(e); k.Pending != all || k.LagSeconds != 0 || k.Done != 0 {
		t.Errorf("after a round before their time: %+v; want %d pending, none late", k, all)
	}
	now.Add(int64(3 * time.Minute))
	q := queueAt(e, DefaultQueue)
	more, err := q.shard.Retention.Retain(t.Context(), queue.At(e.options.Now()).Add(-settings.Retention), first)
	fatal(t, err)
	if k := retention(e); !more || k.Pending != all-first || k.Done != first || k.LagSeconds < 119 || k.LagSeconds > 120 {
		t.Errorf("after a slice: %+v, more %v; want %d pending, late by the two minutes", k, more, all-first)
	}
	if err := q.shard.Health(); err != nil {
		t.Errorf("a queue with an old history is not healthy: %v", err)
	}
	fatal(t, e.CatchUp(t.Context()))
	if k := retention(e); k.Pending != 0 || k.Done != all || k.LagSeconds != 0 {
		t.Errorf("in the end: %+v; want all %d gone, and nothing late", k, all)
	}
	if got := q.store.History.Len(); got != 0 {
		t.Errorf("%d submissions are left in the history", got)
	}
}

// Dead letters go, too, and many share a commit: one commit for each would make them as slow as the disk.
//
//quern:sequential
func TestOldLettersKeepUp(t *testing.T) {
	t.Parallel()
	const all = 2500
	settings := queue.DefaultSettings()
	settings.Durability, settings.Retention, settings.MaxAttempts = queue.Relaxed, 0, 1
	settings.OnExhausted, settings.DeadRetention = queue.DeadLetter, time.Hour
	e, now := retaining(t, all, settings)
	e.cleaner.round(t.Context())
	if k := retention(e); k.Pending != all || k.LagSeconds != 0 || k.Done != 0 {
		t.Errorf("before their time: %+v; want %d pending, none late", k, all)
	}
	now.Add(int64(90 * time.Minute))
	q := queueAt(e, DefaultQueue)
	more, err := q.shard.Retention.Age(t.Context(), settings.DeadRetention, 10)
	fatal(t, err)
	if k := retention(e); !more || k.Pending != all-10 || k.LagSeconds < 1799 || k.LagSeconds > 1800 {
		t.Errorf("after a slice: %+v, more %v; want %d pending, late by half an hour", k, more, all-10)
	}
	before := q.Stats().CommitsTotal
	fatal(t, e.CatchUp(t.Context()))
	if k := retention(e); k.Pending != 0 || k.Done != all || k.LagSeconds != 0 {
		t.Errorf("in the end: %+v; want all %d gone, and nothing late", k, all)
	}
	if n := q.Stats().CommitsTotal - before; n > all/50 {
		t.Errorf("%d letters of as many submissions took %d commits, want few", all-10, n)
	}
}

// A slice that takes long is followed by smaller ones, a full one that is quick by larger ones, and a turn ends when its time is over.
func TestCleanerPaces(t *testing.T) {
	t.Parallel()
	e := openFor(t, t.TempDir())
	var now time.Time
	e.options.Now = func() time.Time { return now }
	s := size{400, 100, 1000}
	var sizes []int
	turn := func(left int, took time.Duration) (more bool) {
		return e.cleaner.turn(t.Context(), &s, "", "nothing", func(most int) (bool, error) {
			sizes = append(sizes, most)
			now = now.Add(took)
			left--
			return left > 0, nil
		})
	}
	for _, c := range []struct {
		slices int
		took   time.Duration
		more   bool
		sizes  []int
	}{
		{3, time.Millisecond, false, []int{400, 800, 1000}},
		{1, time.Millisecond, false, []int{1000}}, // a slice that was not full changes nothing
		{1000, 2 * cleanSlice, true, []int{1000, 500}},
		{1000, 3 * cleanTurn, true, []int{250}},
		{1000, 3 * cleanTurn, true, []int{125}},
		{1000, 3 * cleanTurn, true, []int{100}},
		{2, time.Millisecond, false, []int{100, 200}},
	} {
		sizes = nil
		if more := turn(c.slices, c.took); more != c.more || !slices.Equal(sizes, c.sizes) {
			t.Errorf("%d slices of %v: sizes %v, more %v; want %v, %v", c.slices, c.took, sizes, more, c.sizes, c.more)
		}
	}
}

// A list that finds nothing looks at no more than a part of what has ended, and says where to go on; page after page it comes to the end.
//
//quern:sequential
func TestListsLookAtAPart(t *testing.T) {
	t.Parallel()
	const all = 7000
	settings := queue.DefaultSettings()
	settings.Durability = queue.Relaxed
	e, _ := retaining(t, all, settings)
	q := queueAt(e, DefaultQueue)
	fatal(t, q.shard.Checkpoint())
	meta := queue.Meta{{Key: "tenant", Value: queue.IntValue(1)}}
	_, _, err := q.Insert(t.Context(), queue.NewSubmission{Meta: meta, Chunks: queue.Chunks{Count: 1, Prefix: "x"}})
	fatal(t, err)
	for name, c := range map[string]struct {
		request     ListRequest
		want        int // submissions
		least, most int // pages
	}{
		"of a tenant":   {ListRequest{Meta: meta, Limit: 1}, 1, 2, 6}, // fewer once it is known which pages have any of it
		"of no one":     {ListRequest{Meta: queue.Meta{{Key: "tenant", Value: queue.IntValue(2)}}, Limit: 5}, 0, 1, 5},
		"of a schedule": {ListRequest{Schedule: "none", Limit: 1}, 0, 3, 5},
		"in a state":    {ListRequest{States: []queue.SubmissionState{queue.Failed}, Limit: 1}, 0, 1, 1},
		"all":           {ListRequest{Limit: queue.MaxListLimit}, all + 1, 7, 9},
	} {
		var got []queue.SubmissionID
		pages := 0
		for next := ""; pages == 0 || next != ""; pages++ {
			c.request.Cursor = next
			page, err := q.Submissions.List(t.Context(), c.request)
			fatal(t, err)
			for i := range page.Items {
				got = append(got, page.Items[i].ID)
			}
			if next = page.Next; pages > all {
				t.Fatalf("%s: the list does not end", name)
			}
		}
		if len(got) != c.want || pages < c.least || pages > c.most {
			t.Errorf("%s: %d submissions on %d pages; want %d on %d to %d", name, len(got), pages, c.want, c.least, c.most)
		}
		if !slices.IsSortedFunc(got, func(a, b queue.SubmissionID) int { return cmp.Compare(b, a) }) || len(slices.Compact(got)) != c.want {
			t.Errorf("%s: not each once, the newest first", name)
		}
	}
}
