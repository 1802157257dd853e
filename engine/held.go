package engine

import (
	"context"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
)

// Reservations are who holds which chunk, as an operator sees it.
type Reservations struct{ e *Engine }

// Reservations are those of this engine's queues.
func (e *Engine) Reservations() Reservations { return Reservations{e} }

// HeldRequest says which reservations of a queue to list.
type HeldRequest struct {
	Filter queue.HeldFilter
	Cursor string // Next of the page before; "" for the first
	Limit  int    // 1 to queue.MaxListLimit; 0: 100
}

// List lists the chunks that are held: those for longest first, or those with the earliest deadline. What comes or goes while the list is
// made may be missed, and a page that has a next one may have fewer than the limit.
func (held Reservations) List(ctx context.Context, queueName string, r HeldRequest) (page Page[queue.HeldChunk], err error) {
	q, err := held.e.queue(queueName)
	if err != nil {
		return page, err
	}
	limit, err := validLimit(r.Limit)
	if err != nil {
		return page, err
	}
	list := heldLists[r.Filter.ByDeadline]
	after, err := readHeldPlace(list, r.Cursor)
	if err != nil {
		return page, err
	}
	var more bool
	if page.Items, after, more, err = q.shard.Reservations.List(ctx, &r.Filter, after, limit); more {
		page.Next = cursor(list, uint64(after.At)) + "." + strconv.FormatUint(after.Sequence, 36) + "." +
			strconv.FormatUint(uint64(after.Epoch), 36)
	}
	return page, err
}

// heldLists are the letters of the cursors, by whether the list is ordered by deadline.
var heldLists = map[bool]string{false: "r", true: "u"}

func readHeldPlace(list, text string) (after shard.HeldPlace, err error) {
	if text == "" {
		return after, nil
	}
	at, rest, _ := strings.Cut(text, ".")
	n, err := readCursor(list, at)
	if err != nil {
		return after, err
	}
	sequence, epoch, _ := strings.Cut(rest, ".")
	number, failed := strconv.ParseUint(sequence, 36, 64)
	life, broken := strconv.ParseUint(epoch, 36, 32)
	if failed != nil || broken != nil {
		_, err = readCursor(list, "none")
	}
	return shard.HeldPlace{At: queue.Time(n), Sequence: number, Epoch: uint32(life)}, err
}

// Release takes a chunk from the consumer that holds it, with no try counted, and says what was held. The consumer is told if it is
// attached. said is who asks, where no access token says so; both that and the reason are kept in the audit log. CodeConflict: no consumer
// holds the chunk.
func (held Reservations) Release(ctx context.Context, id queue.ChunkID, said, reason string) (queue.HeldChunk, error) {
	q, err := held.e.route(id.Submission)
	if err != nil {
		return queue.HeldChunk{}, err
	}
	if _, err := q.shard.Submissions.Chunk(ctx, id.Submission, id.Index); err != nil {
		return queue.HeldChunk{}, err // there is no such submission or chunk
	}
	return q.shard.Reservations.Release(id, reason, held.e.act(ctx, said, "reservation.release", q.name, chunkTarget(id)))
}

// ReleaseConsumer takes from a consumer what it holds, with no try counted, and says how many chunks that were. If it is attached
// it is told. said and reason are as in Release.
func (held Reservations) ReleaseConsumer(ctx context.Context, queueName, consumer, said, reason string) (released int, err error) {
	q, err := held.e.consumerOf(queueName, consumer)
	if err != nil {
		return 0, err
	}
	act := held.e.act(ctx, said, "consumer.release", queueName, "consumer "+consumer)
	if err := q.shard.Acts.Record(act, queue.Reasoned(reason)); err != nil {
		return 0, err
	}
	return q.shard.Consumers.Release(consumer)
}
