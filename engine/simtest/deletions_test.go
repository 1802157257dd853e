package simtest

import (
	"context"
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A deleted submission stays deleted, in every state of the files at a kill, and the store has nothing of it. It was open,
// had ended, or had dead letters, with small or large contents.
func TestDeletedSubmissionsStayDeleted(t *testing.T) {
	t.Parallel()
	for kind := range killMoments {
		for _, end := range []string{"open", "done", "dead", "folded"} {
			for _, size := range []int{1, 200 << 10} {
				b := openBox(t, deadLetters())
				id := mustInsert(t, b, queue.NewSubmission{Meta: queue.Meta{{Key: "customer", Value: queue.StringValue("ana")}},
					Chunks: queue.Chunks{Count: 2, Inline: [][]byte{make([]byte, size), []byte("b")}}}).ID
				stays := mustInsert(t, b, prefixed(1)).ID
				if end != "open" {
					held := mustReserve(t, b, `SelectOnly("customer", "ana", OldestFirst)`, 2)
					if end == "dead" {
						b.mustFail(held, func(f *queue.FailItem) { f.Fatal = true })
					} else {
						_, err := b.shard.Complete(ctx, completions(held), nil)
						must(t, err)
					}
				}
				if end == "folded" {
					if err := b.shard.Checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.shard.Deletions.Delete(ctx, id, end == "open"); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second time from the files that the first start wrote
					b.gone(t, id)
					if b.kill(t, kind); kind == asTheyAre { // a kill alone leaves no older store
						b.gone(t, id)
					}
					if err := b.shard.Deletions.Due(ctx); err != nil { // the cleaner's next round
						t.Fatal(err)
					}
				}
				b.gone(t, id)
				b.kill(t, allFolded)
				b.gone(t, id)
				for _, a := range b.asides() {
					if a.Kind == machine.AsideDeletion {
						t.Errorf("%s, files %d: the row of an order is left", end, kind)
					}
				}
				if _, err := b.shard.Submissions.Get(ctx, stays); err != nil {
					t.Errorf("%s, files %d: another submission: %v", end, kind, err)
				}
			}
		}
	}
}

// A start carries out deletions that were ordered but not done, as the journal or a row has the order; also if the submission
// was redriven meanwhile.
func TestOrdersToDeleteOutliveTheServer(t *testing.T) {
	t.Parallel()
	for kind := range killMoments {
		for _, redriven := range []bool{false, true} {
			b := openBox(t, deadLetters())
			id := mustInsert(t, b, prefixed(2)).ID
			b.mustFail(mustReserve(t, b, "OldestFirst", 2), func(f *queue.FailItem) { f.Fatal = true })
			broken := errors.New("the disk is broken")
			b.shard.Deletions.Erase = func(context.Context, queue.SubmissionID) error { return broken }
			if err := b.shard.Deletions.Delete(ctx, id, false); !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if redriven {
				_, err := b.shard.DeadLetters.Redrive(ctx, id, []uint32{0})
				must(t, err)
			}
			b.kill(t, kind)
			must(t, b.shard.Deletions.Due(ctx))
			b.gone(t, id)
		}
	}
}

// gone says that nothing is left of a submission.
func (b *box) gone(t *testing.T, id queue.SubmissionID) {
	t.Helper()
	if _, err := b.shard.Submissions.Get(ctx, id); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Fatalf("after its deletion: %v", err)
	}
	if letters, err := b.shard.DeadLetters.List(ctx, queue.BulkFilter{}, queue.ChunkID{}, 10); err != nil || len(letters) > 0 {
		t.Fatalf("after its deletion: dead letters %v, %v", letters, err)
	}
}
