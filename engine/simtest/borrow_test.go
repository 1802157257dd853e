package simtest

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// expired has n chunks of this rank come back from a reservation that ran out; a minute later they are due.
func (b *box) expired(rank int64, n int) queue.Submission {
	b.t.Helper()
	s := b.insertRanked(rank, uint32(n))
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(b.t, "NewestFirst"), Max: n, Timeout: time.Second}, nil)
	if err != nil || len(got.Reservations) != n || slices.ContainsFunc(ranks(got.Reservations), func(r int64) bool { return r != rank }) {
		b.t.Fatalf("reserved ranks %v (%v), want %d of rank %d", ranks(got.Reservations), err, n, rank)
	}
	b.tickAfter(2 * time.Second)
	return s
}

func (b *box) chunks(id queue.SubmissionID) []queue.Chunk {
	b.t.Helper()
	list, _, err := b.shard.Submissions.Chunks(ctx, id, nil, 0, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// A reserve that finds nothing else is lent the suspects that its strategy selects, however many others came due before them. The
// others neither use up the number that may be lent to it nor leave the shelf for it. The one that was out goes back, as the
// suspects lent to the reserve exceed the quota.
func TestBorrowedSuspectsSuitTheStrategy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`SelectOnly("rank", 1, OldestFirst)`, `SelectOnly("rank", 1, Random)`, `OrElse(SelectOnly("rank", 7, Random), SelectOnly("rank", 1, NewestFirst))`,
		`Fair("rank", SelectOnly("rank", 1, OldestFirst))`, `MaxSimultaneous("rank", 50, SelectOnly("rank", 1, OldestFirst))`,
		`Plugin("p", SelectOnly("rank", 1, OldestFirst))`, `OrElse(Plugin("p", SelectOnly("other", 1, OldestFirst)), SelectOnly("rank", 1, Random))`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := openScored(t, byRank(func(rank int64) float64 { return float64(rank) }))
			foreign := b.expired(3, 6)
			b.tickAfter(time.Minute) // they came due first, and are alone: all are out
			b.expired(1, 4)
			b.insertRanked(2, 1000) // with other work beside them, all but one of them go back
			b.tickAfter(2 * time.Minute)
			before, w := b.chunks(foreign.ID), b.shard.Work().Suspects
			if w.Shelved != 9 || w.Lent != 1 || w.Ready != 1 {
				t.Fatalf("suspects: %+v, want 9 shelved and one out", w)
			}
			for _, want := range []int{2, 2, 0} { // fewer than the foreign ones, so that those would use it up
				got := b.reserveBy(text, 2)
				if len(got) != want {
					t.Fatalf("got %d chunks, want %d: 4 of rank 1 are shelved", len(got), want)
				}
				for i := range got {
					if rank, _ := got[i].Meta.Find("rank"); rank != queue.IntValue(1) || got[i].Attempt != 2 {
						t.Errorf("got rank %s, attempt %d; want a suspect of rank 1", rank.Text(), got[i].Attempt)
					}
				}
			}
			for i, now := range b.chunks(foreign.ID) {
				if was := before[i]; was.State == queue.ChunkWaiting && (now.State != was.State || now.NotBefore != was.NotBefore) {
					t.Errorf("chunk %d of the others was %s since %d and is %s since %d, want it as it was", i, was.State, was.NotBefore, now.State, now.NotBefore)
				}
			}
			if w := b.shard.Work().Suspects; w.Shelved != 6 || w.Lent != 4 || w.Ready != 0 {
				t.Errorf("suspects: %+v, want 6 shelved and 4 held", w)
			}
			if err := b.shard.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
}
