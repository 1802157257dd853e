package simtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A call of which some chunks are done does not hear that nothing was done: its outputs take two batches, and the second finds no room.
// When it is repeated, the first chunk is done already and the second can be done.
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

// An extend that is refused has moved no deadline, and has taken no chunk up: before it changes anything, it waits for the writes that
// ended the other chunks.
func TestARefusedExtendMovesNoDeadline(t *testing.T) {
	for _, end := range []ending{isFull, isLost} {
		for _, timeout := range []queue.Time{1000, 3_600_000} {
			t.Run(fmt.Sprintf("%s, to %d ms", endingNames[end], timeout), func(t *testing.T) {
				behindGates(t, func(o *overlap) {
					held, completed := o.twoHeld()
					extended := o.later(func() ([]queue.Result, error) {
						return o.shard.Extend(ctx, []queue.ExtendItem{{Token: held.Token, Timeout: timeout}, {Token: held.Token, Timeout: timeout},
							{Token: completed, Timeout: timeout}}, nil)
					})
					extended.waits(t, "an extend whose last chunk is being completed")
					o.let("append", end)
					o.freely(func() {})
					if extended.err == nil {
						t.Errorf("the extend is answered %v although the commit that it waits for failed", extended.got)
					}
					chunk, err := o.shard.Submissions.Chunk(ctx, held.Token.Submission, held.Token.Index)
					if err != nil || chunk.State != queue.ChunkReserved || chunk.Deadline != held.Deadline {
						t.Errorf("after an extend that was refused (%v) the chunk is %s until %d (%v), want reserved until %d as before",
							extended.err, chunk.State, chunk.Deadline, err, held.Deadline)
					}
				})
			})
		}
	}
}

// A release that gave some chunks back does not hear that nothing was done when its ops for the others could not be written.
func TestAReleaseDoneInPartIsNotRefused(t *testing.T) {
	behindGates(t, func(o *overlap) {
		held, completed := o.twoHeld()
		released := o.later(func() ([]queue.Result, error) {
			return o.shard.Release(ctx, []queue.ReleaseItem{{Token: held.Token}, {Token: completed}}, nil)
		})
		released.waits(t, "a release whose second chunk is being completed")
		o.let("append", isFull)
		chunk, err := o.shard.Submissions.Chunk(ctx, held.Token.Submission, held.Token.Index)
		if err != nil || chunk.State != queue.ChunkReady || queue.CodeOf(released.err) != queue.CodeCommitFailed {
			t.Errorf("the chunk is %s (%v), and the release is answered %v; want ready, and %s", chunk.State, err, released.err,
				queue.CodeCommitFailed)
		}
	})
}

// twoHeld are two reservations of one submission. The second one's completion is on its way to the disk.
func (o *overlap) twoHeld() (held queue.Reservation, completed queue.Token) {
	var both []queue.Reservation
	o.freely(func() {
		mustInsert(o.t, &o.box, prefixed(2))
		both = mustReserve(o.t, &o.box, "OldestFirst", 2)
	})
	o.completeLater(both[1].Token, nil)
	return both[0], both[1].Token
}
