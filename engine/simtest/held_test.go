package simtest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/consumers"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// operator is an act of one, for the audit log.
func operator(action string) queue.Act {
	return queue.Act{Who: queue.Who{Actor: "ann"}, Action: action, Queue: "q", Outcome: queue.ActOK}
}

// pagesOf goes through the reservations that a filter means.
func pagesOf(t *testing.T, b *box, f queue.HeldFilter, limit int) (all []queue.HeldChunk) {
	t.Helper()
	var after consumers.HeldPlace
	for more := true; more; {
		var list []queue.HeldChunk
		var err error
		if list, after, more, err = b.shard.Reservations.List(ctx, &f, after, limit); err != nil || len(list) > limit {
			t.Fatalf("a page of %d with %d: %v", limit, len(list), err)
		}
		all = append(all, list...)
	}
	return all
}

// The pages of every filter, in either order, have the reservations that a look at all of them at once finds, and no hold of the mutex
// looks at more than its share of them.
func TestReservationsAreListed(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := newRand(seed, 1)
	t.Logf("seed %d", seed)
	b := openBox(t, relaxed())
	var model []queue.HeldChunk
	for i := range 6 {
		sub := mustInsert(t, b, prefixed(800, number("company", i%3), number("site", i%2)))
		for b.clock.pass(time.Duration(r.IntN(3)) * time.Millisecond); ; b.clock.pass(time.Duration(r.IntN(3)) * time.Millisecond) {
			name := fmt.Sprint("w", r.IntN(3))
			got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 1 + r.IntN(40), Consumer: name,
				Timeout: time.Hour + time.Duration(r.IntN(1000))*time.Millisecond}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Reservations) == 0 {
				break
			}
			for _, x := range got.Reservations {
				model = append(model, queue.HeldChunk{Chunk: queue.ChunkID{Submission: x.Token.Submission, Index: x.Token.Index}, Meta: sub.Meta,
					Consumer: name, Attempt: 1, Reserved: queue.At(time.UnixMilli(b.clock.ms.Load())), Deadline: x.Deadline})
			}
		}
		if i == 2 {
			b.clock.pass(b.settings.ReservationTimeout) // reservations from before are overdue in the end
		}
	}
	b.clock.pass(time.Millisecond)
	overdue := 0
	for i := range model {
		model[i].Overdue = model[i].Reserved.Add(b.settings.ReservationTimeout).Std().Before(time.UnixMilli(b.clock.ms.Load()))
		if model[i].Overdue {
			overdue++
		}
	}
	if len(model) != 4800 || overdue == 0 || overdue == 4800 {
		t.Fatalf("%d reservations, %d of them overdue, want 4,800 and some", len(model), overdue)
	}
	for _, f := range []queue.HeldFilter{
		{}, {Overdue: true}, {Consumer: "w1"}, {Consumer: "absent"}, {Submission: model[0].Chunk.Submission}, {Submission: 1},
		{Submission: model[0].Chunk.Submission, Consumer: "w2", Overdue: true},
		{Meta: queue.Meta{number("company", 1)}}, {Meta: queue.Meta{number("company", 1), number("site", 0)}}, {Meta: queue.Meta{number("zone", 1)}},
	} {
		for _, f.ByDeadline = range []bool{false, true} {
			want := slices.DeleteFunc(slices.Clone(model), func(h queue.HeldChunk) bool {
				return f.Overdue && !h.Overdue || f.Consumer != "" && f.Consumer != h.Consumer || f.Submission != 0 && f.Submission != h.Chunk.Submission ||
					slices.ContainsFunc(f.Meta, func(e queue.MetaEntry) bool { return !slices.Contains(h.Meta, e) })
			})
			slices.SortStableFunc(want, func(x, y queue.HeldChunk) int {
				if f.ByDeadline {
					return cmp.Compare(x.Deadline, y.Deadline)
				}
				return cmp.Compare(x.Reserved, y.Reserved)
			})
			for _, limit := range []int{7 + r.IntN(90), 1000} {
				if got := pagesOf(t, b, f, limit); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("seed %d: %+v by %d: %d are listed, want %d in the order of the model", seed, f, limit, len(got), len(want))
				}
			}
		}
	}
	if most := b.shard.Inspect.MostLooks(); most > 1000 {
		t.Errorf("one hold of the mutex looked at %d reservations, want at most 1,000", most)
	}
}

// A chunk that is taken back is offered again with no try counted, its consumer is notified, and the act is in the log with the holder and
// the reason. To take back a chunk that is not held is refused, and leaves no act.
func TestChunkIsTakenBack(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(2))
	a := b.attach(t, "c")
	held := b.heldAs(t, "c", 2)
	if n := a.Next(); !n.Hello {
		t.Fatalf("the consumer is told %+v, want a hello", n)
	}
	id := queue.ChunkID{Submission: sub.ID, Index: held[0].Token.Index}
	got, err := b.shard.Reservations.Release(id, "it hangs", operator("reservation.release"))
	if err != nil || got.Consumer != "c" || got.Chunk != id || got.Deadline != held[0].Deadline {
		t.Fatalf("released %+v: %v; want chunk %s of c", got, err, id)
	}
	if n := a.Next(); len(n.Revoked) != 1 || n.Revoked[0].Token != held[0].Token || n.Revoked[0].Why != queue.RevokedOperator {
		t.Errorf("the consumer is told %+v, want that the chunk was taken", n)
	}
	for _, id := range []queue.ChunkID{id, {Submission: sub.ID, Index: 9}, {Submission: 77}} {
		if _, err := b.shard.Reservations.Release(id, "", operator("reservation.release")); queue.CodeOf(err) != queue.CodeConflict {
			t.Errorf("releasing chunk %s, which no consumer holds: %v, want a conflict", id, err)
		}
	}
	acts := b.shard.Acts.Fresh()
	if len(acts) != 1 || acts[0].Act.After != `{"reason":"it hangs"}` || acts[0].Act.Before == "" || acts[0].Act.Actor != "ann" {
		t.Errorf("the log has %+v, want one act with who held the chunk and why it was taken", acts)
	}
	again := b.heldAs(t, "d", 1)
	if again[0].Token.Index != id.Index || again[0].Attempt != 1 {
		t.Errorf("handed out next: chunk %d, attempt %d; want chunk %d, attempt 1", again[0].Token.Index, again[0].Attempt, id.Index)
	}
	results, err := b.shard.Complete(ctx, completions(held), nil)
	if err != nil || results[0].Outcome != queue.OutcomeLost || results[1].Outcome != queue.OutcomeOK {
		t.Errorf("the first consumer completes both: %+v, %v; want lost and ok", results, err)
	}
}

// A consumer that completes a chunk while the act of taking it back is on its way to the disk comes first: its work counts, once, and the
// operator is told that there was nothing left to take back.
//
//quern:overlapping
func TestConsumerComesBeforeTakingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(faults)
		b := newBox(t, relaxed())
		b.wrap = f.wrap
		b.open()
		sub := mustInsert(t, b, prefixed(2))
		held := mustReserve(t, b, "OldestFirst", 2)
		open := f.shut()
		var refused, failed error
		var results []queue.Result
		go func() {
			id := queue.ChunkID{Submission: sub.ID, Index: held[0].Token.Index}
			_, refused = b.shard.Reservations.Release(id, "", operator("reservation.release"))
		}()
		synctest.Wait()
		go func() { results, failed = b.shard.Complete(ctx, completions(held[:1]), nil) }()
		synctest.Wait()
		open()
		synctest.Wait()
		if failed != nil || results[0].Outcome != queue.OutcomeOK || queue.CodeOf(refused) != queue.CodeConflict {
			t.Errorf("completed %+v %v, taken back %v; want ok and a conflict", results, failed, refused)
		}
		if got, err := b.shard.Submissions.Get(ctx, sub.ID); err != nil || got.Done != 1 || got.Reserved != 1 || got.Ready != 0 {
			t.Errorf("then the submission is %+v %v, want one done and one reserved", got, err)
		}
		b.close()
	})
}

// If the act of taking a chunk back cannot be written, nothing of it is left: the consumer holds the chunk as before, and it can be taken
// back again.
func TestTakingBackOnAFullDisk(t *testing.T) {
	t.Parallel()
	b, f := newBox(t, deadLetters()), &faults{spare: true}
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	sub := mustInsert(t, b, prefixed(2))
	held := mustReserve(t, b, "OldestFirst", 1)
	id := queue.ChunkID{Submission: sub.ID, Index: held[0].Token.Index}
	f.arm(full, 0)
	if _, err := b.shard.Reservations.Release(id, "", operator("reservation.release")); queue.CodeOf(err) != queue.CodeDiskFull {
		t.Fatalf("on a full disk: %v, want %s", err, queue.CodeDiskFull)
	}
	b.shard.SetFull(false)
	must(t, b.shard.Audit())
	results, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[0].Token}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("afterwards its consumer extends it: %+v %v, want ok", results, err)
	}
	_, err = b.shard.Reservations.Release(id, "", operator("reservation.release"))
	must(t, err)
	must(t, b.shard.Audit())
}
