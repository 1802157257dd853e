package shard

import (
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
)

// A dead letter that is deleted counts as skipped, once, and no longer as dead.
func TestDeletedLetterIsSkipped(t *testing.T) {
	t.Parallel()
	key := backlog.OrderKey(5, 11)
	l := newLife(t, &journal.Insert{Seq: 7, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: 5, Key: key, Prefix: "p/"})
	l.hold(2, reserver.Finishing)
	l.putBack(t, 2, journal.Dead, 0, "broken")
	for range 2 {
		if err := l.m.ApplyPart(journal.Move{Kind: journal.MoveDiscard, Seq: 7, ID: l.r.ID, Indexes: []uint32{2}}); err != nil {
			t.Fatal(err)
		}
		if l.r.Skips != 1 || l.m.Stats.Skipped != 1 {
			t.Errorf("%d chunks of the submission and %d in all are skipped, want 1", l.r.Skips, l.m.Stats.Skipped)
		}
		if err := audit.Machine(l.m); err != nil {
			t.Error(err)
		}
	}
}
