package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/queue"
)

func anyGroup(GroupSettings) error { return nil }

// reopened is the engine of a directory again, with the settings that its queue has.
func reopened(t *testing.T, dir string) (*Engine, Work) {
	t.Helper()
	e, err := Open(t.Context(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return e, workAt(t, e)
}

// limit sets limits for a group.
func limit(t *testing.T, e *Engine, name string, limits queue.Quota) {
	t.Helper()
	if _, _, err := e.PutGroup(t.Context(), shardedName, name, "", limits, anyGroup); err != nil {
		t.Fatal(err)
	}
}

// tryPut inserts a submission of a group and says why that was refused.
func tryPut(t *testing.T, w Work, group string, chunks uint32) error {
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: group, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: chunks, Prefix: "x/"}}}}
	return errors.Join(w.InsertMany(t.Context(), list, false), list[0].Err)
}

// reached checks that an insert was refused by a limit, with these numbers.
func reached(t *testing.T, err error, current, most uint64) {
	t.Helper()
	var refused *queue.Error
	if !errors.As(err, &refused) || refused.Code != queue.CodeLimitReached || *refused.Reached != (queue.Reached{Current: current, Max: most}) {
		t.Errorf("%v; want it refused with %d of %d", err, current, most)
	}
}

// Behaviour 112, in a queue of one shard and of four, and after a restart: of more inserts than a limit has room for, at
// the same time, exactly so many are taken.
func TestGroupLimitsAreExact(t *testing.T) {
	t.Parallel()
	for _, shards := range []uint8{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, w := openSharded(t, dir, shards)
			limit(t, e, "s", queue.Quota{Submissions: 10})
			limit(t, e, "w", queue.Quota{Waiting: 30})
			together := func(group string, n int, chunks uint32) (taken uint64) {
				var all sync.WaitGroup
				var count atomic.Uint64
				for range n {
					all.Go(func() {
						if err := tryPut(t, w, group, chunks); err == nil {
							count.Add(1)
						} else if queue.CodeOf(err) != queue.CodeLimitReached {
							t.Error(err)
						}
					})
				}
				all.Wait()
				return count.Load()
			}
			if n := together("s", 40, 1); n != 10 {
				t.Errorf("%d submissions were taken, want 10", n)
			}
			if n := together("w", 40, 4); n != 7 { // 28 of 30 chunks
				t.Errorf("%d submissions of 4 chunks were taken, want 7", n)
			}
			reached(t, tryPut(t, w, "s", 1), 10, 10)
			reached(t, tryPut(t, w, "w", 3), 28, 30)
			if err := tryPut(t, w, "w", 2); err != nil {
				t.Errorf("the last two: %v", err)
			}
			if err := tryPut(t, w, "free", 100); err != nil {
				t.Errorf("a group without limits: %v", err)
			}
			closed(t, e)
			e, w = reopened(t, dir)
			defer closed(t, e)
			reached(t, tryPut(t, w, "s", 1), 10, 10)
			reached(t, tryPut(t, w, "w", 1), 30, 30)

			held := takenBy(t, w, `SelectOnly("group", "s", OldestFirst)`, 3)
			if results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
				t.Fatal(results, err)
			}
			if n := together("s", 20, 1); n != 1 {
				t.Errorf("%d were taken after one had ended, want 1", n)
			}
			if got := len(takenBy(t, w, `SelectOnly("group", "w", OldestFirst)`, 5)); got != 5 {
				t.Fatalf("%d chunks were taken", got)
			}
			if n := together("w", 20, 1); n != 5 {
				t.Errorf("%d were taken when 5 chunks were reserved, want 5", n)
			}
		})
	}
}

// A chunk that waits for its run_at counts from its insert until it is reserved, also after a restart.
func TestGroupLimitCountsWhatIsHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openSharded(t, dir, 1)
	limit(t, e, "7", queue.Quota{Waiting: 10})
	later := queue.At(time.Now().Add(time.Hour))
	put1(t, w, queue.NewSubmission{Group: "7", RunAt: later, Chunks: queue.Chunks{Count: 6}})
	number, err := queue.NewMeta(queue.Meta{{Key: queue.GroupKey, Value: queue.IntValue(7)}})
	if err != nil {
		t.Fatal(err)
	}
	cancelled := put1(t, w, queue.NewSubmission{Meta: number, RunAt: later, Chunks: queue.Chunks{Count: 4}})
	reached(t, tryPut(t, w, "7", 1), 10, 10)
	closedWhole(t, e)
	e, w = openSharded(t, dir, 1)
	defer closed(t, e)
	reached(t, tryPut(t, w, "7", 1), 10, 10)
	if info, err := e.Group(shardedName, "7"); err != nil || info.Waiting != 10 || info.Submissions != 2 {
		t.Errorf("the group has %+v, %v", info, err)
	}
	if _, err := queueAt(e, shardedName).Submissions.Cancel(t.Context(), cancelled.ID); err != nil {
		t.Fatal(err)
	}
	if err := tryPut(t, w, "7", 4); err != nil {
		t.Errorf("in the place of what was cancelled: %v", err)
	}
	reached(t, tryPut(t, w, "7", 1), 10, 10)
	put1(t, w, queue.NewSubmission{Group: "07"}) // another group
}

// Groups are created, changed and deleted, each under its condition. A group that the setting group_must_exist refuses is not made.
func TestGroupsAreCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	for _, shards := range []uint8{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, w := openSharded(t, dir, shards)
			defer func() { closed(t, e) }()
			put1(t, w, queue.NewSubmission{Group: "old"})
			must := with(func(s *queue.Settings) { s.Shards, s.GroupMustExist = shards, true })
			if _, _, err := e.PutQueue(t.Context(), shardedName, must); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"acme", "old"} {
				if err := tryPut(t, w, name, 1); queue.CodeOf(err) != queue.CodeUnknownGroup {
					t.Errorf("%s: an insert into a group that no one created gave %v", name, err)
				}
			}
			if _, err := e.Group(shardedName, "acme"); queue.CodeOf(err) != queue.CodeUnknownGroup {
				t.Errorf("a refused insert made the group: %v", err)
			}
			conflict := errors.New("no")
			if _, _, err := e.PutGroup(t.Context(), shardedName, "acme", "", queue.Quota{}, func(GroupSettings) error { return conflict }); !errors.Is(err, conflict) {
				t.Errorf("a condition that does not hold: %v", err)
			}
			info, created, err := e.PutGroup(t.Context(), shardedName, "acme", "ours", queue.Quota{Submissions: 2}, anyGroup)
			if err != nil || !created || info.Settings.Version != 1 || info.Settings.Description != "ours" {
				t.Fatalf("created %t: %+v, %v", created, info, err)
			}
			shard := put1(t, w, queue.NewSubmission{Group: "acme"}).ID.Shard()
			again, created, err := e.PutGroup(t.Context(), shardedName, "acme", "ours", queue.Quota{Submissions: 2}, anyGroup)
			if err != nil || created || again.Settings != info.Settings {
				t.Errorf("the same again: created %t: %+v, %v", created, again, err)
			}
			if err := e.DeleteGroup(t.Context(), shardedName, "acme", anyGroup); queue.CodeOf(err) != queue.CodeConflict {
				t.Errorf("the deletion of a group with work gave %v", err)
			}
			held := takenBy(t, w, `SelectOnly("group", "acme", OldestFirst)`, 1)
			if _, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil); err != nil {
				t.Fatal(err)
			}
			if err := e.DeleteGroup(t.Context(), shardedName, "acme", anyGroup); err != nil {
				t.Errorf("the deletion gave %v", err)
			}
			closed(t, e)
			e, w = reopened(t, dir)
			if err := e.DeleteGroup(t.Context(), shardedName, "acme", anyGroup); queue.CodeOf(err) != queue.CodeUnknownGroup {
				t.Errorf("the second deletion gave %v", err)
			}
			if err := tryPut(t, w, "acme", 1); queue.CodeOf(err) != queue.CodeUnknownGroup {
				t.Errorf("an insert into a deleted group gave %v", err)
			}
			page, err := e.Groups(shardedName, "", 10)
			if err != nil || len(page.Items) != 1 || page.Items[0].Name != "old" {
				t.Errorf("the groups are %+v, %v", page.Items, err)
			}
			limit(t, e, "acme", queue.Quota{})
			if at := put1(t, w, queue.NewSubmission{Group: "acme"}).ID.Shard(); at != shard {
				t.Errorf("it is in shard %d again, and was in %d", at, shard)
			}
		})
	}
}

// Groups keep their limits when their queue is divided, and when it moves to another node of a cluster.
func TestGroupLimitsMove(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	open := func(name string) *testNode {
		n, err := b.open(t, filepath.Join(t.TempDir(), "cache"), name, table)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	from := open("a")
	from.serves(t, func() bool { return len(from.all()) == 1 && from.nodes.Coordinator() == nil })
	to := open("b")
	settings := DefaultSettings(from.Engine)
	if _, _, err := from.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	limit(t, from.Engine, "empty", queue.Quota{Submissions: 1})
	limit(t, from.Engine, "full", queue.Quota{Submissions: 2})
	put1(t, workAt(t, from.Engine), queue.NewSubmission{Group: "full"})
	settings.Shards, settings.GroupMustExist = 3, true
	if _, _, err := from.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	w := workAt(t, from.Engine)
	put1(t, w, queue.NewSubmission{Group: "full"})
	put1(t, w, queue.NewSubmission{Group: "empty"})
	for i := range 9 {
		limit(t, from.Engine, fmt.Sprint("g", i), queue.Quota{Submissions: 1})
	}
	from.serves(t, func() bool { view := from.nodes.node.View(); return view.Live("b") })
	if err := from.nodes.Move(t.Context(), shardedName, "b"); err != nil {
		t.Fatal(err)
	}
	to.serves(t, func() bool { return shardsOf(to) == 3 })
	w = workAt(t, to.Engine)
	reached(t, tryPut(t, w, "full", 1), 2, 2)
	reached(t, tryPut(t, w, "empty", 1), 1, 1)
	for i := range 9 {
		name := fmt.Sprint("g", i)
		put1(t, w, queue.NewSubmission{Group: name})
		reached(t, tryPut(t, w, name, 1), 1, 1)
	}
	if err := tryPut(t, w, "other", 1); queue.CodeOf(err) != queue.CodeUnknownGroup {
		t.Errorf("a group that no one created: %v", err)
	}
}

// A submission that leaves a group in the commit of an insert makes room for it: one whose last chunk the call completes, or one that a
// unique key replaces. Else a chain of submissions would end at a limit of 1.
func TestGroupLimitLetsChainsGoOn(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 1)
	defer closed(t, e)
	limit(t, e, "a", queue.Quota{Submissions: 1, Waiting: 1})
	insertion := func(unique *queue.Unique) []queue.Insertion {
		return []queue.Insertion{{New: &queue.NewSubmission{Group: "a", Unique: unique, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x/"}}}}
	}
	put1(t, w, queue.NewSubmission{Group: "a"})
	for range 3 {
		held := takenBy(t, w, "OldestFirst", 1)
		next := insertion(nil)
		results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token, Insert: next}}, nil)
		if err != nil || results[0].Outcome != queue.OutcomeOK {
			t.Fatalf("a completion that brings the next: %+v, %v", results, err)
		}
		reached(t, tryPut(t, w, "a", 1), 1, 1)
	}
	held := takenBy(t, w, "OldestFirst", 1)
	two := append(insertion(nil), insertion(nil)...)
	results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token, Insert: two}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeRefused || results[0].Code != string(queue.CodeLimitReached) {
		t.Errorf("a completion that brings two: %+v, %v", results, err)
	}
	if results, err = w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Fatalf("the completion alone: %+v, %v", results, err)
	}
	key := &queue.Unique{Key: "k", Replace: true}
	for range 3 {
		list := insertion(key)
		if err := errors.Join(w.InsertMany(t.Context(), list, false), list[0].Err); err != nil || list[0].Existing {
			t.Fatalf("an insert that replaces the one before: %+v, %v", list[0], err)
		}
	}
	if info, err := e.Group(shardedName, "a"); err != nil || info.Submissions != 1 || info.Waiting != 1 {
		t.Errorf("the group has %+v, %v", info, err)
	}
}
