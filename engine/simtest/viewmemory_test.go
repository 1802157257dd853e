package simtest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/strategy"
)

// userBox is a box with so many submissions of a user each, whose views may take so many bytes.
func userBox(t *testing.T, users int, most uint64) *box {
	b := newBox(t, relaxed())
	b.views = views.NewMemory(most)
	b.open()
	var all sync.WaitGroup
	for first := range 64 { // at the same time, so that they share commits
		all.Go(func() {
			for i := first; i < users; i += 64 {
				n := prefixed(1, number("u", i))
				if _, _, err := b.shard.Insert(ctx, &n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return b
}

// atMost has a view of its own for every number, as it has two limits.
func atMost(n int) string {
	return fmt.Sprintf(`MaxSimultaneous("u", %d, MaxSimultaneous("other", 9, OldestFirst))`, n)
}

// A read-only preview takes nothing from consumers: however many strategies are asked about, those in use by reserves keep their views, and
// all together stay within the bound. A question that would take more is refused, with advice.
func TestQuestionsHaveTheirOwnMemory(t *testing.T) {
	t.Parallel()
	const most = 60 << 20 // and 15 for questions
	b := userBox(t, 20_000, most)
	mustReserve(t, b, atMost(1), 1)
	refused := 0
	for n := range 100 {
		_, _, err := b.shard.Inspect.Preview(ctx, []*strategy.Plan{plan(t, atMost(n+2))}, &inspect.Question{Max: 1, Seed: 1})
		if err != nil && queue.CodeOf(err) != queue.CodeOverloaded {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
		if n%10 == 9 {
			b.shard.Tidy()
		}
		if use := b.views.Use(); use.QuestionBytes > most/4 || use.Bytes == 0 || use.Bytes > most {
			t.Fatalf("after %d questions: %+v", n, use)
		}
	}
	if refused == 0 || refused == 100 {
		t.Errorf("%d of 100 questions were refused, want some: those for which there is no room at the moment", refused)
	}
	there := false
	for _, v := range b.shard.Views.List() {
		there = there || v.Branch == plan(t, atMost(1)).Branches[0].Key() && !v.Question && v.Built
	}
	if !there {
		t.Errorf("the view that is reserved by is gone: %+v", b.shard.Views.List())
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
}

// Reserves with many strategies stay within the memory for views as well: the next strategy is refused while all others are in use, and
// gets its view when one of them is idle. The chunks in flight keep to the limits all the while.
func TestViewsKeepToTheirMemory(t *testing.T) {
	t.Parallel()
	const most = 24 << 20
	b := userBox(t, 20_000, most)
	held := map[queue.MetaValue]int{}
	take := func(n int) error {
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, atMost(n)), Max: 3}, nil)
		for _, r := range got.Reservations {
			value, _ := r.Meta.Find("u")
			if held[value]++; held[value] > n {
				t.Fatalf("%d of user %v are held under a limit of %d", held[value], value, n)
			}
		}
		if use := b.views.Use(); use.Bytes > most {
			t.Fatalf("by %d: %+v", n, use)
		}
		return err
	}
	n := 1
	for ; take(n) == nil; n++ {
	}
	if err := take(n); n < 3 || n > 10 || queue.CodeOf(err) != queue.CodeOverloaded {
		t.Fatalf("strategy %d is refused: %v", n, err)
	}
	for range 15 { // all but the first are idle
		b.shard.Tidy()
		if err := take(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := take(n); err != nil {
		t.Errorf("when others are idle: %v", err)
	}
	if got := b.shard.Views.List(); len(got) > n || got[0].Bytes < 1<<20 {
		t.Errorf("views: %+v", got)
	}
	b.shard.Tidy()
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
	b.close()
	if use := b.views.Use(); use.Bytes != 0 || use.QuestionBytes != 0 {
		t.Errorf("after the shard is closed: %+v", use)
	}
}

// Strategies with one limit that differ only in its number share their memory: very many of them are served, and asked about, where there is
// room for one or two. The chunks in flight keep to the limit of each strategy.
func TestNumbersShareTheirMemory(t *testing.T) {
	t.Parallel()
	const most = 16 << 20
	b := userBox(t, 20_000, most)
	numbered := func(n int) string { return fmt.Sprintf(`MaxSimultaneous("u", %d, OldestFirst)`, n) }
	held := map[queue.MetaValue]int{}
	for n := 1; n <= 60; n++ {
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, numbered(n)), Max: 3}, nil)
		if err != nil {
			t.Fatalf("strategy %d is refused: %v", n, err)
		}
		for _, r := range got.Reservations {
			value, _ := r.Meta.Find("u")
			if held[value]++; held[value] > n {
				t.Fatalf("%d of user %v are held under a limit of %d", held[value], value, n)
			}
		}
		if _, _, err := b.shard.Inspect.Preview(ctx, []*strategy.Plan{plan(t, numbered(1000+n))}, &inspect.Question{Max: 1, Seed: 1}); n <= 3 && err != nil {
			t.Fatalf("question %d is refused: %v", n, err)
		}
		if use := b.views.Use(); use.Bytes > 7<<20 || use.QuestionBytes > most/4 {
			t.Fatalf("by %d: %+v", n, use)
		}
	}
	b.shard.Tidy()
	sum := uint64(0)
	for _, v := range b.shard.Views.List() {
		sum += v.Bytes
	}
	if use := b.views.Use(); sum != use.Bytes+use.QuestionBytes {
		t.Errorf("the views say %d bytes, in all %+v", sum, use)
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
}
