package simtest

import (
	"bytes"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A call whose chunks are done in part is not told that nothing was done: its outputs take two batches, and the second finds no room. When
// it is asked again, the first chunk is done already and the second can be done.
func TestPartlyDoneIsNotRefused(t *testing.T) {
	behindGates(t, func(o *overlap) {
		var held []queue.Reservation
		o.freely(func() {
			mustInsert(o.t, &o.box, prefixed(2))
			held = mustReserve(o.t, &o.box, "OldestFirst", 2)
		})
		items := []queue.CompleteItem{{Token: held[0].Token, Output: bytes.Repeat([]byte("x"), 4<<20)}, {Token: held[1].Token, Output: []byte("y")}}
		complete := func() *later {
			return o.later(func() ([]queue.Result, error) { return o.shard.Complete(ctx, items, nil) })
		}
		both := complete()
		o.let("append", succeeds)
		o.let("append", isFull)
		if queue.CodeOf(both.err) != queue.CodeCommitFailed {
			t.Errorf("a call that was done in part: got %v, want %s", both.err, queue.CodeCommitFailed)
		}
		again := complete()
		o.let("append", succeeds)
		if again.err != nil || again.got[0].Outcome != queue.OutcomeAlready || again.got[1].Outcome != queue.OutcomeOK {
			t.Errorf("asked again: got %v, %v", again.got, again.err)
		}
	})
}
