package simtest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inserts"
)

// As many submissions may be open as the server allows, however many are inserted at once, and not one more; when one ends there is
// room for one. A repeated insert gets its answer all the same, and a restart brings back all submissions, also above a smaller limit.
//
//quern:overlapping
func TestMaxLiveSubmissions(t *testing.T) {
	t.Parallel()
	const most = 50
	b := newBox(t, relaxed())
	b.live = inserts.NewLiveLimit(most)
	b.open()
	first := prefixed(1)
	first.IdempotencyKey = "once"
	mustInsert(t, b, first)
	var done, refused atomic.Int32
	var all sync.WaitGroup
	for range 4 * most {
		all.Go(func() {
			n := prefixed(1)
			switch _, _, err := b.shard.Insert(ctx, &n); {
			case err == nil:
				done.Add(1)
			case queue.CodeOf(err) == queue.CodeTooManySubmissions:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s := b.shard.Stats(); s.SubmissionsOpen > most || int(done.Load())+1 != int(s.SubmissionsOpen) || s.InsertsRefused != uint64(refused.Load()) {
		t.Errorf("%d are open, %d were inserted and %d refused of %d at once; at most %d may be open: %+v", s.SubmissionsOpen, done.Load()+1, refused.Load(), 4*most, most, s)
	}
	insert := func() error {
		n := prefixed(1)
		_, _, err := b.shard.Insert(ctx, &n)
		return err
	}
	for range most { // many at once may leave room, as each holds a place until it is refused
		if insert() != nil {
			break
		}
	}
	if s := b.shard.Stats(); s.SubmissionsOpen != most {
		t.Fatalf("%d are open, want %d", s.SubmissionsOpen, most)
	}
	if _, replayed, err := b.shard.Insert(ctx, &first); err != nil || !replayed {
		t.Errorf("a repeated insert: replayed %v, %v", replayed, err)
	}
	if results, err := b.shard.Complete(ctx, completions(mustReserve(t, b, "OldestFirst", 1)), nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Fatal(results, err)
	}
	if err, then := insert(), insert(); err != nil || queue.CodeOf(then) != queue.CodeTooManySubmissions {
		t.Errorf("after one ended: %v, then %v", err, then)
	}
	b.close()
	b.live = inserts.NewLiveLimit(10)
	b.open()
	if s := b.shard.Stats(); s.SubmissionsOpen != most || queue.CodeOf(insert()) != queue.CodeTooManySubmissions {
		t.Errorf("after a restart under a smaller limit %d are open, want %d", s.SubmissionsOpen, most)
	}
	if held := mustReserve(t, b, "OldestFirst", 1000); len(held) != most {
		t.Errorf("reserved %d, want %d", len(held), most)
	}
}

// While there is no room dead letters of another queue wait, and come when there is; a schedule inserts all the same. Nothing is lost.
func TestNoRoomLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, relaxed())
	b.live = inserts.NewLiveLimit(1)
	b.open()
	mustInsert(t, b, prefixed(1))
	letter := func(number uint64) queue.Delivery {
		n := prefixed(1)
		n.Origin = &queue.Origin{Source: 1, Number: number, Queue: "other", Chunk: queue.ChunkID{Submission: 99, Index: uint32(number)}}
		return queue.Delivery{Number: number, Submission: n}
	}
	deliver := func() error { return b.shard.Forwarding.Deliver(ctx, []queue.Delivery{letter(1), letter(2)}) }
	if err := deliver(); queue.CodeOf(err) != queue.CodeTooManySubmissions {
		t.Fatalf("without room: %v", err)
	}
	b.close()
	b.live = inserts.NewLiveLimit(2)
	b.open()
	if err := deliver(); err != nil {
		t.Fatalf("with room: %v", err)
	}
	if err := deliver(); err != nil {
		t.Errorf("when they have arrived: %v", err)
	}
	if s := b.shard.Stats(); s.SubmissionsOpen != 3 || s.ArrivedTotal != 2 {
		t.Errorf("%d are open and %d arrived, want 3 and 2", s.SubmissionsOpen, s.ArrivedTotal)
	}
	def := queue.Schedule{Spec: "@every 10s", Enabled: true, Template: prefixed(1)}
	if _, _, err := b.shard.Schedules.Put("s", def, nil); err != nil {
		t.Fatal(err)
	}
	b.tickAfter(10 * time.Second)
	if s := b.shard.Stats(); s.SubmissionsOpen != 4 || s.Ticks.Emitted != 1 {
		t.Errorf("after a tick of a schedule %d are open, want 4; %+v", s.SubmissionsOpen, s.Ticks)
	}
}
