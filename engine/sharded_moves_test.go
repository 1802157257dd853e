package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// openMoves opens an engine with a queue of three shards, and a group that the first of them has.
func openMoves(t *testing.T, dir string) (*Engine, *Sharded) {
	t.Helper()
	e, w := openSharded(t, dir, 3)
	if err := w.(*Sharded).place([]string{"acme"}, 1); err != nil {
		t.Fatal(err)
	}
	return e, w.(*Sharded)
}

// shardAt is a shard of the queue.
func shardAt(e *Engine, number int) *Queue { return queueAt(e, queue.ShardName(shardedName, number)) }

// workOff reserves and completes until nothing is left, and says how many chunks it had.
func workOff(t *testing.T, w Work, strategy string) (n int) {
	t.Helper()
	for {
		got := takenBy(t, w, strategy, 100)
		if len(got) == 0 {
			return n
		}
		n += len(got)
		items := make([]queue.CompleteItem, len(got))
		for i := range got {
			items[i].Token = got[i].Token
		}
		if _, err := w.Complete(t.Context(), items, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A group moves when it has no open submissions, with its limits and its description. Until then all of its work goes on.
func TestGroupMovesWhenItIsEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openMoves(t, dir)
	limit(t, e, "acme", queue.Quota{Submissions: 5})
	before, err := e.Group(shardedName, "acme")
	if err != nil {
		t.Fatal(err)
	}
	put1(t, w, queue.NewSubmission{Group: "acme"})
	info, err := e.MoveGroup(t.Context(), shardedName, "acme", 3)
	if err != nil || info.Shard != 1 || info.MovingTo != 3 || info.Submissions != 1 {
		t.Fatalf("a group with work is %+v, %v", info, err)
	}
	e.moveGroups(t.Context())
	if put1(t, w, queue.NewSubmission{Group: "acme"}); w.groups.of("acme") != 1 {
		t.Error("a group with open submissions moved")
	}
	closed(t, e)
	e, again := reopened(t, dir)
	defer closed(t, e)
	w = again.(*Sharded)
	if n := workOff(t, w, "OldestFirst"); n != 2 {
		t.Fatalf("%d chunks were done", n)
	}
	e.moveGroups(t.Context())
	after, err := e.Group(shardedName, "acme")
	if err != nil || after.Shard != 3 || after.MovingTo != 0 || after.Settings != before.Settings {
		t.Fatalf("the group is %+v, %v, and was %+v", after, err, before)
	}
	for range 5 {
		if s := put1(t, w, queue.NewSubmission{Group: "acme"}); s.ID.Shard() != shardAt(e, 3).id {
			t.Error("a submission is not in the new shard of its group")
		}
	}
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: "acme", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
	if err := w.InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeLimitReached {
		t.Errorf("over its limit the group answers %v, %v", err, list[0].Err)
	}
	if info, err = e.MoveGroup(t.Context(), shardedName, "acme", 1); err != nil || info.MovingTo != 1 {
		t.Errorf("a move back is %+v, %v", info, err)
	}
	if info, err = e.MoveGroup(t.Context(), shardedName, "acme", 3); err != nil || info.MovingTo != 0 {
		t.Errorf("a move that was given up is %+v, %v", info, err)
	}
	workOff(t, w, "OldestFirst")
	if e.moveGroups(t.Context()); w.groups.of("acme") != 3 {
		t.Error("a group moved although its move was given up")
	}
	if info, err = e.MoveGroup(t.Context(), shardedName, "acme", 1); err != nil || info.Shard != 1 {
		t.Errorf("an empty group is %+v, %v", info, err)
	}
	if put1(t, w, queue.NewSubmission{Group: "acme"}).ID.Shard() != shardAt(e, 1).id {
		t.Error("the first shard does not take the group again")
	}
}

// A kill after any step of a move: inserts find the group after the next start, in one shard, with its limits.
func TestMoveGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name string
		do   func(t *testing.T, s *Sharded, q *Queue)
	}{
		{"planned", func(t *testing.T, _ *Sharded, q *Queue) {
			t.Helper()
			if err := planMove(t.Context(), q, "acme", 3); err != nil {
				t.Fatal(err)
			}
		}},
		{"gone", func(t *testing.T, _ *Sharded, q *Queue) {
			t.Helper()
			if _, gone, err := leaveShard(q, "acme", 3); err != nil || !gone {
				t.Fatal(gone, err)
			}
		}},
		{"adopted", func(t *testing.T, s *Sharded, q *Queue) {
			t.Helper()
			row := q.shard.Settings.GroupRow("acme")
			row.Moves.Gone, row.Moves.To = false, 0
			if err := adoptIn(t.Context(), s, 3, row); err != nil {
				t.Fatal(err)
			}
		}},
		{"in the catalogue", func(t *testing.T, s *Sharded, q *Queue) {
			t.Helper()
			if err := endMove(t.Context(), s, q, q.shard.Settings.GroupRow("acme")); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for n := range steps {
		t.Run(steps[n].name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, w := openMoves(t, dir)
			limit(t, e, "acme", queue.Quota{Submissions: 2})
			for _, step := range steps[:n+1] {
				step.do(t, w, shardAt(e, 1))
			}
			closed(t, e)
			e, again := reopened(t, dir)
			defer closed(t, e)
			w = again.(*Sharded)
			var ids [2]queue.Submission
			var inserts sync.WaitGroup
			for i := range ids { // while the move goes on
				inserts.Go(func() { ids[i] = put1(t, again, queue.NewSubmission{Group: "acme"}) })
			}
			e.moveGroups(t.Context())
			inserts.Wait()
			if ids[0].ID.Shard() != ids[1].ID.Shard() {
				t.Error("the group is in two shards")
			}
			if n > 0 && (w.groups.of("acme") != 3 || ids[0].ID.Shard() != shardAt(e, 3).id) {
				t.Errorf("the group is in shard %d", w.groups.of("acme"))
			}
			list := []queue.Insertion{{New: &queue.NewSubmission{Group: "acme", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
			if err := w.InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeLimitReached {
				t.Errorf("over its limit the group answers %v, %v", err, list[0].Err)
			}
			if n := workOff(t, w, "OldestFirst"); n != 2 {
				t.Errorf("%d of 2 chunks were done", n)
			}
			if e.moveGroups(t.Context()); w.groups.of("acme") != 3 {
				t.Errorf("when it is empty, the group is in shard %d", w.groups.of("acme"))
			}
		})
	}
}

// Groups move all the time, while producers and workers use them: every chunk is done once, and never are more than two of a group
// in flight.
func TestGroupsMoveWhileWorkRuns(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	const groups, each = 6, 45
	var (
		mu       sync.Mutex
		flying   = map[string]int{}
		done     = map[string]int{}
		moves    int
		all      sync.WaitGroup
		finished atomic.Int64
	)
	name := func(n int) string { return fmt.Sprint("g", n) }
	for g := range groups {
		all.Go(func() {
			for i := range each {
				put1(t, w, queue.NewSubmission{Group: name(g), IdempotencyKey: fmt.Sprint(g, "-", i), Chunks: queue.Chunks{Count: 2}})
				if i%3 == 0 { // so that the group is empty at times
					time.Sleep(60 * time.Millisecond)
				}
			}
		})
	}
	for range 4 {
		all.Go(func() {
			for finished.Load() < groups*each*2 && !t.Failed() {
				got, err := reserveBy(t, w, `MaxSimultaneous("group", 2, Random)`, 3, 50*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				items := make([]queue.CompleteItem, len(got.Reservations))
				mu.Lock()
				for i := range got.Reservations {
					r := &got.Reservations[i]
					items[i].Token = r.Token
					group := r.Meta.GroupOf()
					if flying[group]++; flying[group] > 2 {
						t.Errorf("%d chunks of %s are in flight", flying[group], group)
					}
				}
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
				mu.Lock()
				for i := range got.Reservations { // before the completion counts
					r := &got.Reservations[i]
					flying[r.Meta.GroupOf()]--
					done[fmt.Sprint(r.Token.Submission, "/", r.Token.Index)]++
				}
				mu.Unlock()
				if len(items) == 0 {
					continue
				}
				if _, err := w.Complete(t.Context(), items, nil); err != nil {
					t.Error(err)
					return
				}
				finished.Add(int64(len(items)))
			}
		})
	}
	for n := 0; finished.Load() < groups*each*2 && !t.Failed(); n++ {
		group := name(n % groups)
		s := w.(*Sharded)
		from, to := s.groups.of(group), 1+n%4
		if came := cameLately(s, group); came > 0 {
			to = came
		}
		if from == 0 || from == to {
			continue
		}
		if _, err := e.MoveGroup(t.Context(), shardedName, group, to); err != nil {
			t.Fatal(err)
		}
		if s.groups.of(group) == to {
			moves++
		}
	}
	all.Wait()
	for chunk, n := range done {
		if n != 1 {
			t.Errorf("chunk %s was done %d times", chunk, n)
		}
	}
	if len(done) != groups*each*2 || moves < 3 {
		t.Errorf("%d of %d chunks were done, over %d moves", len(done), groups*each*2, moves)
	}
}

// After a move, nothing is done twice or seen in two shards: a repeated insert, a redrive, a schedule.
func TestWhatAMoveLeavesBehind(t *testing.T) {
	t.Parallel()
	e, w := openMoves(t, t.TempDir())
	defer closed(t, e)
	n := queue.NewSubmission{Group: "acme", IdempotencyKey: "once"}
	first := put1(t, w, n)
	dead := put1(t, w, queue.NewSubmission{Group: "acme"})
	for _, r := range takenBy(t, w, "OldestFirst", 2) {
		var err error
		if r.Token.Submission == dead.ID {
			_, err = w.Fail(t.Context(), []queue.FailItem{{Token: r.Token, Fatal: true, Error: "no"}}, nil)
		} else {
			_, err = w.Complete(t.Context(), []queue.CompleteItem{{Token: r.Token}}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if info, err := e.MoveGroup(t.Context(), shardedName, "acme", 3); err != nil || info.Shard != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	if again := put1(t, w, n); again.ID != first.ID {
		t.Error("an insert with the same key was made twice, before the move and behind it")
	}
	n.Fingerprint[0]++
	n.Chunks = queue.Chunks{Count: 1, Prefix: "x/"}
	n.OperationsPerChunk = 1
	list := []queue.Insertion{{New: &n}}
	if err := w.InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeIdempotencyReuse {
		t.Errorf("another insert with the same key: %v, %v", err, list[0].Err)
	}
	if _, err := e.MoveGroup(t.Context(), shardedName, "acme", 2); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("a move to a third shard: %v", err)
	}
	one := shardAt(e, 1)
	if _, err := one.shard.DeadLetters.Redrive(t.Context(), dead.ID, []uint32{0}); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("a redrive in the old shard: %v", err)
	}
	if n := len(takenBy(t, w, "OldestFirst", 10)); n != 0 {
		t.Errorf("%d chunks are there behind the move", n)
	}
	if info, err := e.MoveGroup(t.Context(), shardedName, "acme", 1); err != nil || info.Shard != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if n, err := one.shard.DeadLetters.Redrive(t.Context(), dead.ID, []uint32{0}); err != nil || n != 1 {
		t.Errorf("a redrive where the group is again: %d, %v", n, err)
	}
	if info, err := e.MoveGroup(t.Context(), shardedName, "acme", 3); err != nil || info.Shard != 1 {
		t.Errorf("with a redriven chunk: %+v, %v", info, err)
	}
	if n := workOff(t, w, "OldestFirst"); n != 1 {
		t.Errorf("%d chunks were done", n)
	}
	for what, err := range map[string]error{
		"no such shard": second(e.MoveGroup(t.Context(), shardedName, "acme", 9)),
		"no such group": second(e.MoveGroup(t.Context(), shardedName, "none", 2)),
		"one shard":     second(e.MoveGroup(t.Context(), DefaultQueue, "none", 2)),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second(_ GroupInfo, err error) error { return err }

// An insert that was decided before a group leaves keeps the group. One that comes while it leaves waits until the new shard is known.
func TestInsertMeetsAMove(t *testing.T) {
	t.Parallel()
	e, w := openMoves(t, t.TempDir())
	defer closed(t, e)
	row, gone, err := leaveShard(shardAt(e, 1), "acme", 3)
	if err != nil || !gone {
		t.Fatal(gone, err)
	}
	inserted := make(chan queue.Submission)
	go func() { inserted <- put1(t, w, queue.NewSubmission{Group: "acme"}) }()
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: "acme", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
	if err := shardAt(e, 1).InsertMany(t.Context(), list, false); err != nil || !queue.IsGroupMoved(list[0].Err) {
		t.Errorf("the old shard itself answers %v, %v", err, list[0].Err)
	}
	select {
	case <-inserted:
		t.Fatal("it was inserted while the group was nowhere")
	case <-time.After(50 * time.Millisecond):
	}
	if err := endMove(t.Context(), w, shardAt(e, 1), row); err != nil {
		t.Fatal(err)
	}
	if s := <-inserted; s.ID.Shard() != shardAt(e, 3).id {
		t.Error("it is not in the new shard")
	}
	stale := journal.Set{Kind: journal.SetGroup, Name: "acme", Version: 1, Moves: journal.GroupMoves{Unset: true, Last: 1}}
	if err := errors.Join(takeOver(shardAt(e, 1), stale)); err != nil || !shardAt(e, 1).shard.Settings.GroupRow("acme").Moves.Gone {
		t.Errorf("an old move brought the group back: %v", err)
	}
}

// A shard drains: it gets no new groups, and those that it has go to the others.
func TestShardDrains(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 3)
	defer closed(t, e)
	s := w.(*Sharded)
	for i := range 12 {
		if err := s.place([]string{fmt.Sprint("g", i)}, 2); err != nil {
			t.Fatal(err)
		}
	}
	busy := put1(t, w, queue.NewSubmission{Group: "g3"})
	if err := errors.Join(e.DrainShard(t.Context(), shardedName, 3, true), e.DrainShard(t.Context(), shardedName, 2, true)); err != nil {
		t.Fatal(err)
	}
	if got := shardAt(e, 1).config.Load().DrainingShards; got != "2,3" {
		t.Errorf("two shards drain: %q", got)
	}
	if err := e.DrainShard(t.Context(), shardedName, 1, true); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("the last shard drains: %v", err)
	}
	if err := e.DrainShard(t.Context(), shardedName, 4, true); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a shard that is not there drains: %v", err)
	}
	if err := e.DrainShard(t.Context(), shardedName, 3, false); err != nil {
		t.Fatal(err)
	}
	e.moveGroups(t.Context())
	if info, err := e.Shard(t.Context(), queue.ShardName(shardedName, 2)); err != nil || info.State != "draining" || info.Groups != 1 {
		t.Errorf("the shard is %+v, %v", info, err)
	}
	if s.groups.of("g3") != 2 || busy.ID.Shard() != shardAt(e, 2).id {
		t.Error("a group with work left")
	}
	for i := range 30 {
		if put1(t, w, queue.NewSubmission{Group: fmt.Sprint("new", i)}); s.groups.of(fmt.Sprint("new", i)) == 2 {
			t.Error("a shard that drains got a new group")
		}
	}
	if n := workOff(t, w, "OldestFirst"); n != 31 {
		t.Errorf("%d of 31 chunks were done", n)
	}
	e.moveGroups(t.Context())
	if info, err := e.Shard(t.Context(), queue.ShardName(shardedName, 2)); err != nil || info.Groups != 0 {
		t.Errorf("the shard is %+v, %v", info, err)
	}
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: "direct", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
	if err := shardAt(e, 2).InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeInvalid {
		t.Errorf("a new group for the shard itself: %v, %v", err, list[0].Err)
	}
	for _, wrong := range []string{"1,2,3", "4", "2,1", "x", "2,", "0"} {
		if _, err := e.ChangeQueue(t.Context(), shardedName, func(s *queue.Settings) error { s.DrainingShards = wrong; return nil }); err == nil {
			t.Errorf("draining_shards %q is allowed", wrong)
		}
	}
}

// Shards on two nodes: a group moves from one to the other, and a node that does not know of it yet does no harm.
func TestGroupMovesToAnotherNode(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 3, "a", "b")
	a, b := nodes["a"], nodes["b"]
	a.moved(t, 2, b)
	w := workAt(t, a.Engine).(*Sharded)
	if err := w.place([]string{"acme", "late"}, 1); err != nil {
		t.Fatal(err)
	}
	far := workAt(t, b.Engine).(*Sharded)
	b.serves(t, func() bool { return far.groups.of("acme") == 1 && far.groups.of("late") == 1 })
	n := queue.NewSubmission{Group: "acme", IdempotencyKey: "once"}
	first := put1(t, w, n)
	limit(t, a.Engine, "acme", queue.Quota{Submissions: 1})
	if info, err := a.MoveGroup(t.Context(), shardedName, "acme", 2); err != nil || info.MovingTo != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	workOff(t, w, "OldestFirst")
	a.moveGroups(t.Context())
	b.serves(t, func() bool { return far.groups.of("acme") == 2 })
	if again := put1(t, far, n); again.ID != first.ID {
		t.Error("the new node makes an insert again that the old one has made")
	}
	two := queueAt(b.Engine, queue.ShardName(shardedName, 2))
	if s := put1(t, far, queue.NewSubmission{Group: "acme"}); s.ID.Shard() != two.id {
		t.Error("the new node does not have the group")
	}
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: "acme", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
	if err := far.InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeLimitReached {
		t.Errorf("the limit did not move: %v, %v", err, list[0].Err)
	}
	for number, node := range map[int]*testNode{1: a, 3: a} { // the old shard moves in the middle of a move
		if number == 1 {
			if _, gone, err := leaveShard(queueAt(a.Engine, queue.ShardName(shardedName, 1)), "late", 2); err != nil || !gone {
				t.Fatal(gone, err)
			}
		}
		node.moved(t, number, b)
	}
	b.moveGroups(t.Context()) // Run may have done it already
	a.serves(t, func() bool { return w.groups.of("late") == 2 })
	if s := put1(t, far, queue.NewSubmission{Group: "late"}); s.ID.Shard() != two.id {
		t.Error("another node did not end the move")
	}
}

// A group with a rate that still counts its work does not move, and neither does one that a schedule inserts into.
func TestWhatKeepsAGroup(t *testing.T) {
	t.Parallel()
	e, w := openMoves(t, t.TempDir())
	defer closed(t, e)
	takenBy(t, w, `MaxRate("group", 2, "2s", Random)`, 1) // from here on the shard knows the rate
	time.Sleep(2100 * time.Millisecond)                   // it assumes the worst about the time before
	put1(t, w, queue.NewSubmission{Group: "acme"})
	if n := workOff(t, w, `MaxRate("group", 2, "2s", Random)`); n != 1 {
		t.Fatalf("%d chunks were done", n)
	}
	if info, err := e.MoveGroup(t.Context(), shardedName, "acme", 3); err != nil || info.Shard != 1 || info.MovingTo != 3 {
		t.Errorf("with a rate that counts its work: %+v, %v", info, err)
	}
	for end := time.Now().Add(20 * time.Second); w.groups.of("acme") != 3; time.Sleep(10 * time.Millisecond) {
		if e.moveGroups(t.Context()); time.Now().After(end) {
			t.Fatal("the rate counts for ever")
		}
	}
	def := queue.Schedule{Spec: "@yearly", Zone: "UTC", Enabled: true, CatchUp: 1, CatchUpWindow: time.Hour, Template: queue.NewSubmission{Group: "acme", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Template: "x"}}}
	if err := def.Template.Grouped(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shardAt(e, 3).Schedules.Put(t.Context(), "nightly", def, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.MoveGroup(t.Context(), shardedName, "acme", 1); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("with a schedule: %v", err)
	}
	if _, gone, err := leaveShard(shardAt(e, 3), "acme", 1); err != nil || gone {
		t.Errorf("with a schedule that came later: %v, %v", gone, err)
	}
	if _, _, err := shardAt(e, 1).Schedules.Put(t.Context(), "late", def, nil); err == nil {
		t.Error("the old shard takes a schedule of the group")
	}
}

// A group that an operator moves while its shard drains may go where the drain sends it. The operator's call then does not succeed.
func TestMoveBesideADrain(t *testing.T) {
	t.Parallel()
	e, w := openMoves(t, t.TempDir())
	defer closed(t, e)
	first := shardAt(e, 1)
	lost := 0
	for i := range 200 {
		name := fmt.Sprint("beside", i)
		if err := w.place([]string{name}, 1); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := moveGroup(t.Context(), w, first, name, 2); err != nil {
				t.Error(err)
			}
		})
		info, err := e.MoveGroup(t.Context(), shardedName, name, 3)
		if err == nil && info.Shard != 3 && info.MovingTo != 3 {
			t.Errorf("a move to shard 3 is answered by %+v", info)
		}
		all.Wait()
		switch at := w.groups.of(name); {
		case err == nil && info.Shard == 3 && at != 3:
			t.Errorf("a move to shard 3 is answered by %+v, and the group is in shard %d", info, at)
		case at == 1:
			t.Errorf("%s stays in shard 1", name)
		case at == 2:
			lost++
		}
	}
	t.Logf("%d of 200 groups went where the drain sent them", lost)
}
