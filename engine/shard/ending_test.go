package shard

import (
	"bytes"
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// heldLife makes a submission with many held chunks; some wait, some are done and some are put back.
func heldLife(t testing.TB, chunks, held uint32) *life {
	key := backlog.OrderKey(chunks, 11)
	l := newLife(t, &journal.Insert{Seq: 7, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: chunks, Key: key, Prefix: "p/"})
	for index := range held {
		l.hold(index, reserver.Held)
	}
	l.complete(t, held)
	l.hold(held+1, reserver.Finishing)
	l.putBack(t, held+1, journal.Failed, l.m.Now+1000, "waits")
	l.hold(held+2, reserver.Finishing)
	l.putBack(t, held+2, journal.Failed, 0, "is back")
	return l
}

// The end itself touches a bounded number of reservations, however many there are, and makes no row. The sweep goes on
// in slices, and the row then equals a snapshot at the moment of the end.
func TestEndIsDoneInSlices(t *testing.T) {
	t.Parallel()
	const held = 20_000
	l := heldLife(t, 100_000, held)
	l.m.AppliedAt++
	l.m.Touch(l.r)
	want := l.m.Snapshot([]byte{0}, l.r) // behind the reason, which is empty
	if err := l.m.ApplyEnd(journal.End{Seq: 7, State: queue.Cancelled}); err != nil {
		t.Fatal(err)
	}
	if went := held - l.r.Holds.Len(); went > machine.OrphanMost || l.r.Ended.Final != nil {
		t.Fatalf("the end removed %d reservations (at most %d allowed) and made a row of %d bytes, want none", went, machine.OrphanMost, len(l.r.Ended.Final))
	}
	if got := l.m.Live(l.r.ID); got != nil {
		t.Fatal("the ended submission is still open")
	}
	if err := audit.Machine(l.m); err != nil {
		t.Fatal(err)
	}
	slices := 0
	for ; l.m.Step(machine.KindSweep, l.m.Now, machine.TickMost, nil, nil) > 0; slices++ {
		if err := audit.Machine(l.m); err != nil {
			t.Fatalf("after %d slices: %v", slices, err)
		}
	}
	if least := (held - machine.OrphanMost) / machine.TickMost; slices < least || len(l.m.Orphans.List) != 0 || l.m.Stats.Orphaned != 0 {
		t.Errorf("%d slices of at most %d, %d left, %d counted; want at least %d and nothing left", slices, machine.TickMost, len(l.m.Orphans.List), l.m.Stats.Orphaned, least)
	}
	l.r.EndedRow()
	if got := l.r.Ended.Final; !bytes.Equal(got, want) {
		t.Errorf("the row differs from a snapshot at the moment of the end: got %d bytes, want %d", len(got), len(want))
	}
	if l.r.Ended.Left != nil || l.r.Ended.Held != nil {
		t.Error("what the row was made of is kept")
	}
}

// A checkpoint that comes to a submission before the sweep removes the rest of its reservations, and makes the row that
// the sweep would have made.
func TestCheckpointBeforeTheSweep(t *testing.T) {
	t.Parallel()
	l := heldLife(t, 10_000, 3000)
	l.m.AppliedAt++
	l.m.Touch(l.r)
	want := l.m.Snapshot([]byte{0}, l.r) // behind the reason, which is empty
	if err := l.m.ApplyEnd(journal.End{Seq: 7, State: queue.Cancelled}); err != nil {
		t.Fatal(err)
	}
	if l.r.Holds.Len() == 0 {
		t.Fatal("the end left no reservation to sweep")
	}
	f := checkpointSlice{ending: []*machine.Record{l.r}}
	(&checkpointer{Shell: (*doors)(&Shard{m: l.m})}).historyRows(l.m, &f)
	if left := l.r.Holds.Len(); left != 0 || l.m.Holds.Len() != 0 || l.m.Stats.Orphaned != 0 {
		t.Errorf("%d reservations of it are left, %d in all, %d counted; want none", left, l.m.Holds.Len(), l.m.Stats.Orphaned)
	}
	if len(f.ended) != 1 || !bytes.Equal(l.r.Ended.Final, want) {
		t.Errorf("got %d rows, want one, and that equal to a snapshot at the moment of the end", len(f.ended))
	}
}

// A second submission that ends while the first one is swept does not disturb it, whichever is read first.
func TestSweepOfSeveral(t *testing.T) {
	t.Parallel()
	l := heldLife(t, 10_000, 3000)
	key := backlog.OrderKey(5000, 3)
	if err := l.m.ApplyInsert(&journal.Insert{Seq: 8, ID: queue.MakeSubmissionID(lifeStart, 0, 1), Chunks: 5000, Key: key, Prefix: "q/"}); err != nil {
		t.Fatal(err)
	}
	second := &life{m: l.m, r: l.m.LiveSeq(8)}
	for index := range uint32(2000) {
		second.hold(index, reserver.Held)
	}
	for _, r := range []*machine.Record{l.r, second.r} {
		if err := l.m.ApplyEnd(journal.End{Seq: r.Seq, State: queue.Cancelled}); err != nil {
			t.Fatal(err)
		}
	}
	for l.m.Shed(l.r, 100) > 0 { // a reader wants the first one's row
	}
	if err := audit.Machine(l.m); err != nil {
		t.Fatal(err)
	}
	n := 0
	for got := 1; got > 0; n += got {
		got = l.m.Step(machine.KindSweep, l.m.Now, machine.TickMost, nil, nil)
	}
	if want := 2000 - machine.OrphanMost; n != want || len(l.m.Orphans.List) != 0 {
		t.Errorf("the sweep removed %d of the second's, %d submissions are left; want %d and 0", n, len(l.m.Orphans.List), want)
	}
}
