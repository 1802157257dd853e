package simtest

import (
	"bytes"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A call whose chunks are done in part is not told that nothing was done: one chunk of it was completed, and the other rested on a
// completion whose output found no room. When it is asked again, the first is done already and the second can be done.
func TestPartlyDoneIsNotRefused(t *testing.T) {
	behindGates(t, func(o *overlap) {
		var held []queue.Reservation
		o.freely(func() {
			mustInsert(o.t, &o.box, prefixed(2))
			held = mustReserve(o.t, &o.box, "OldestFirst", 2)
		})
		complete := func(items ...queue.CompleteItem) *later {
			return o.later(func() ([]queue.Result, error) { return o.shard.Complete(ctx, items, nil) })
		}
		mine, others := queue.CompleteItem{Token: held[0].Token}, queue.CompleteItem{Token: held[1].Token}
		large := others
		large.Output = bytes.Repeat([]byte("x"), 100_000)
		first := complete(large)
		both := complete(mine, others)
		o.let("append", succeeds)
		o.let("outputs", isFull)
		if queue.CodeOf(first.err) != queue.CodeDiskFull {
			t.Errorf("the completion without room for its output: got %v, want %s", first.err, queue.CodeDiskFull)
		}
		if queue.CodeOf(both.err) != queue.CodeCommitFailed {
			t.Errorf("a call that was done in part: got %v, want %s", both.err, queue.CodeCommitFailed)
		}
		again := complete(mine, others)
		o.let("append", succeeds)
		if again.err != nil || again.got[0].Outcome != queue.OutcomeAlready || again.got[1].Outcome != queue.OutcomeOK {
			t.Errorf("asked again: got %v, %v", again.got, again.err)
		}
	})
}
