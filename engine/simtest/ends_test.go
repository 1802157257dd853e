package simtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// endsFollower follows the ends of a shard as a client that comes back now and then: it only keeps a place.
type endsFollower struct {
	place queue.EndID
	of    machine.Filter
	seen  map[queue.EndID]bool
	last  map[queue.SubmissionID]queue.EndID
	gaps  int
}

// catchUp reads to the end.
func (f *endsFollower) catchUp(t *testing.T, b *box, limit int) {
	t.Helper()
	now := map[queue.SubmissionID]bool{}
	for tail := b.shard.Ends.Last(); f.place.Compare(tail) < 0; {
		if from, same := b.shard.Ends.Since(f.place); !same {
			t.Fatalf("%s is lost: the follower is to go on behind %s", f.place, from)
		}
		page, err := b.shard.Ends.After(ctx, f.place.EndPlace, f.of, limit)
		if err != nil {
			t.Fatal(err)
		}
		if page.To.Compare(f.place) <= 0 {
			t.Fatalf("a page behind %s goes on at %s: it gets nowhere", f.place, page.To)
		}
		if page.Gone.Compare(f.place) > 0 {
			f.gaps++
		}
		for _, e := range page.List {
			if e.ID.Compare(f.place) <= 0 || e.ID.Compare(page.To) > 0 || f.seen[e.ID] {
				t.Fatalf("a page of (%s, %s] has an end at %s, seen before: %v", f.place, page.To, e.ID, f.seen[e.ID])
			}
			if e.Submission.State == queue.Open {
				t.Fatalf("an open submission ended at %s", e.ID)
			}
			if now[e.Submission.ID] {
				t.Fatalf("an end of %s was listed, although it was opened again and has ended again, at %s", e.Submission.ID, e.ID)
			}
			now[e.Submission.ID] = true
			f.seen[e.ID], f.last[e.Submission.ID] = true, e.ID
			f.place = e.ID // as a client that is cut off here would go on
		}
		f.place = page.To
	}
}

// Followers that come and go at any time see every end once and in order, whether it is in memory, in the history, or on its way there,
// over restarts and kills. They are told when retention removed ends before they came.
func TestFollowersSeeEveryEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			playEnds(t, seed)
		})
	}
}

func playEnds(t *testing.T, seed uint64) {
	r := newRand(seed, 77)
	settings := deadLetters()
	settings.MaxAttempts = 1
	b := openBox(t, settings)
	odd := machine.Filter{Meta: queue.Meta{{Key: "odd", Value: queue.IntValue(1)}}}
	follower := func(f machine.Filter) *endsFollower {
		return &endsFollower{of: f, seen: map[queue.EndID]bool{}, last: map[queue.SubmissionID]queue.EndID{}}
	}
	all, odds := follower(machine.Filter{}), follower(odd)
	open, ended := map[queue.SubmissionID]bool{}, map[queue.SubmissionID]bool{} // value: whether odd
	again := map[queue.SubmissionID]queue.EndID{}                               // of those opened again: their next end is behind
	removed := map[queue.SubmissionID]bool{}
	look := func() {
		t.Helper()
		for i, f := range []*endsFollower{all, odds} {
			f.catchUp(t, b, 1+r.IntN(7))
			for id, isOdd := range ended {
				if last := f.last[id]; (i == 0 || isOdd) && last.Compare(again[id]) <= 0 && !removed[id] {
					t.Fatalf("seed %d: follower %d has missed the end of %s", seed, i, id)
				}
			}
			for id := range f.last {
				if !ended[id] && !open[id] && i == 1 {
					t.Fatalf("seed %d: the follower of the odd ones has the end of %s", seed, id)
				}
			}
		}
	}
	for n := range 150 {
		playEnd(t, b, r, n, open, ended, again)
		switch r.IntN(14) {
		case 0:
			b.restarted(0)
		case 1:
			b.crashed(0)
		case 2, 3:
			if err := b.shard.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		case 4:
			look()
			if r.IntN(2) == 0 { // ends that no one has seen are removed too
				playEnd(t, b, r, n, open, ended, again)
			}
			b.clock.pass(time.Minute)
			before := all.gaps
			if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 1000); err != nil {
				t.Fatal(err)
			}
			missed := false
			for id := range ended {
				if _, err := b.shard.Submissions.Get(ctx, id); queue.CodeOf(err) == queue.CodeUnknownSubmission && !removed[id] {
					removed[id] = true
					_, seen := all.last[id]
					missed = missed || !seen
				}
			}
			if r.IntN(2) == 0 {
				b.crashed(0)
			}
			look()
			if missed && all.gaps == before {
				t.Fatalf("seed %d: ends were removed before they were seen, and no one was told", seed)
			}
		case 5, 6, 7:
			look()
		}
		b.clock.pass(time.Millisecond)
	}
	look()
	if len(all.seen) < 30 {
		t.Errorf("seed %d: only %d ends were seen", seed, len(all.seen))
	}
}

// playEnd inserts some submissions and ends some open ones: completed, several in one call, cancelled, or with dead chunks, which may be
// offered again.
func playEnd(t *testing.T, b *box, r *rand.Rand, n int, open, ended map[queue.SubmissionID]bool,
	again map[queue.SubmissionID]queue.EndID) {
	t.Helper()
	for range 1 + r.IntN(3) {
		sub := mustInsert(t, b, prefixed(1, number("odd", n%2)))
		open[sub.ID] = n%2 == 1
	}
	end := func(id queue.SubmissionID) {
		ended[id] = open[id]
		delete(open, id)
	}
	switch r.IntN(5) {
	case 0, 1:
		held := mustReserve(t, b, "Random", 1+r.IntN(4))
		if _, err := b.shard.Complete(ctx, completions(held), nil); err != nil {
			t.Fatal(err)
		}
		for i := range held {
			end(held[i].Token.Submission)
		}
	case 2:
		held := mustReserve(t, b, "Random", 2)
		b.mustFail(held, nil)
		for i := range held {
			end(held[i].Token.Submission)
		}
	case 3:
		if ids := slices.Sorted(maps.Keys(open)); len(ids) > 0 {
			if _, err := b.shard.Submissions.Cancel(ctx, ids[0]); err != nil {
				t.Fatal(err)
			}
			end(ids[0])
		}
	case 4:
		if letters := b.letters(); len(letters) > 0 {
			id := letters[0].Chunk.Submission
			if _, err := b.shard.DeadLetters.Redrive(ctx, id, []uint32{0}); err != nil {
				t.Fatal(err)
			}
			open[id], again[id] = ended[id], b.shard.Ends.Last()
			delete(ended, id)
		}
	}
}

// The commit that ends a submission wakes a follower at the end, and so does the end of the shard, with an error.
//
//quern:overlapping
func TestFollowerIsWoken(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(1))
	wake, leave := b.shard.Ends.Follow()
	defer leave()
	at := b.shard.Ends.Last()
	if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	<-wake
	page, err := b.shard.Ends.After(ctx, at.EndPlace, machine.Filter{}, 10)
	if err != nil || len(page.List) != 1 || page.List[0].Submission.ID != sub.ID || page.List[0].Submission.State != queue.Cancelled {
		t.Fatalf("got %+v %v, want the end of %s", page, err, sub.ID)
	}
	s := b.shard
	b.close()
	for { // the wake of an earlier batch may have been left over
		<-wake
		if _, err := s.Ends.After(ctx, at.EndPlace, machine.Filter{}, 10); err != nil {
			break
		}
	}
	b.open()
}

// If the page of an end is damaged while the server runs, followers get an error, and the end is not passed over. A start refuses the
// store.
func TestDamagedEndsAreNotPassedOver(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for range 3 {
		if _, err := b.shard.Submissions.Cancel(ctx, mustInsert(t, b, prefixed(1)).ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	page, err := b.shard.Ends.After(ctx, queue.EndPlace{}, machine.Filter{}, 10)
	if err != nil || len(page.List) != 3 {
		t.Fatalf("before: %d ends, %v; want 3", len(page.List), err)
	}
	exec(t, filepath.Join(b.dir, "store.db"), store.Kind,
		"UPDATE history_page SET bytes = CAST(substr(bytes, 1, length(bytes)-1) || x'ff' AS BLOB)")
	page, err = b.shard.Ends.After(ctx, queue.EndPlace{}, machine.Filter{}, 10)
	var damage *queue.FormatError
	if !errors.As(err, &damage) || len(page.List) != 0 {
		t.Errorf("with a damaged page: %d ends, %v; want none, and what is damaged", len(page.List), err)
	}
}
