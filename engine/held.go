package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

// HeldRequest says which reservations of a queue to list.
type HeldRequest struct {
	Filter queue.HeldFilter
	Cursor string // Next of the page before; "" for the first
	Limit  int    // 1 to queue.MaxListLimit; 0: 100
}

// List lists the chunks that are held: those for longest first, or those with the earliest deadline. What comes or goes while the list is
// made may be missed, and a page that has a next one may have fewer than the limit.
func (p Reservations) List(ctx context.Context, r HeldRequest) (page Page[queue.HeldChunk], err error) {
	limit, err := validLimit(r.Limit)
	if err != nil {
		return page, err
	}
	list := heldLists[r.Filter.ByDeadline]
	from, err := readCursorOf(list, r.Cursor, 63, 64, 32)
	if err != nil {
		return page, err
	}
	after, more := consumers.HeldPlace{At: queue.Time(from[0]), Sequence: from[1], Epoch: uint32(from[2])}, false
	if page.Items, after, more, err = p.q.shard.Reservations.List(ctx, &r.Filter, after, limit); more {
		page.Next = cursor(list, uint64(after.At), after.Sequence, uint64(after.Epoch))
	}
	return page, err
}

// heldLists are the letters of the cursors, by whether the list is ordered by deadline.
var heldLists = map[bool]string{false: "r", true: "u"}

// Release takes a chunk from the consumer that holds it, with no try counted, and says what was held. A consumer that is
// attached is notified. said is who asks, where no access token says so; both that and the reason are kept in the audit log.
// CodeConflict: no consumer holds the chunk.
func (p Reservations) Release(ctx context.Context, id queue.ChunkID, said, reason string) (queue.HeldChunk, error) {
	if _, err := p.q.shard.Submissions.Chunk(ctx, id.Submission, id.Index); err != nil {
		return queue.HeldChunk{}, err // there is no such submission or chunk
	}
	return p.q.shard.Reservations.Release(id, reason, p.q.act(ctx, said, "reservation.release", chunkTarget(id)))
}

// ReleaseConsumer takes from a consumer what it holds, with no try counted, and says how many chunks that were. If it is attached
// it is notified. said and reason are as in Release.
func (p Reservations) ReleaseConsumer(ctx context.Context, consumer, said, reason string) (released int, err error) {
	if err := validConsumer(consumer); err != nil {
		return 0, err
	}
	act := p.q.act(ctx, said, "consumer.release", "consumer "+consumer)
	if err := p.q.shard.Acts.Record(act, queue.Reasoned(reason)); err != nil {
		return 0, err
	}
	return p.q.shard.Consumers.Release(consumer)
}
