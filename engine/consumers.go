package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

// Attached is one stream of an attached consumer. The handler of the stream waits for Wake, calls Next, and ends with Close.
type Attached = consumers.Attached

// Notice is what is new for an attached consumer.
type Notice = consumers.Notice

// HeldPage is a consumer with a page of its reservations.
type HeldPage struct {
	Consumer queue.Consumer
	Page[queue.HeldChunk]
}

// Attach makes a consumer known. If its last stream ends other than by Detach, and the consumer does not attach again within the queue's
// consumer grace, its reservations are lost. Each consumer has its own name. incarnation names its process; "": it does not say. If the
// previous stream was of another process, the reservations of the name are lost at once.
func (p Consumers) Attach(ctx context.Context, consumer, incarnation string) (*Attached, error) {
	if err := validConsumer(consumer); err != nil {
		return nil, err
	}
	if len(incarnation) > queue.MaxIncarnation || !utf8.ValidString(incarnation) {
		return nil, queue.Invalid("/query/incarnation", "is not one: at most %d bytes of UTF-8", queue.MaxIncarnation)
	}
	return p.q.attach(ctx, consumer, incarnation)
}

// Detach lets a consumer leave: its streams end, and its chunks go back with no try counted. It returns their number.
func (p Consumers) Detach(consumer string) (released int, err error) {
	if err := validConsumer(consumer); err != nil {
		return 0, err
	}
	return p.q.shard.Consumers.Detach(consumer)
}

// orderActions are the orders as the audit log names them.
var orderActions = [...]string{queue.NoOrder: "consumer.resume", queue.Quiet: "consumer.quiet", queue.Drain: "consumer.drain"}

// Order gives a consumer an order of an operator; NoOrder takes the last one back. An order is forgotten when
// the consumer leaves or is lost, or is not heard of for an hour, and at a restart.
func (p Consumers) Order(ctx context.Context, consumer string, order queue.ConsumerOrder) (queue.Consumer, error) {
	if err := validConsumer(consumer); err != nil {
		return queue.Consumer{}, err
	}
	return p.q.shard.Consumers.Order(consumer, order, p.q.act(ctx, "", orderActions[order], "consumer "+consumer))
}

// List lists the consumers of the queue by name: those that are attached or were a moment ago, hold something or have an order.
func (p Consumers) List(ctx context.Context, cursor string, limit int) (page Page[queue.Consumer], err error) {
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	from, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return page, badCursor()
	}
	list, next, err := p.q.shard.Consumers.List(ctx, string(from), limit)
	page.Items, page.Next = list, base64.RawURLEncoding.EncodeToString([]byte(next))
	return page, err
}

// ConsumerSums are sums over the consumers of a queue.
type ConsumerSums struct {
	Consumers int    // that were looked at
	Attached  int    // of them, with a stream open
	Overdue   uint64 // chunks that they hold for longer than usual
	Whole     bool   // all were looked at
}

// maxTopConsumers bounds how many consumers are looked at to find those on top.
const maxTopConsumers = 20_000

// Top are the consumers with most overdue, then with most in hand, then by name: at most `most`, of as many as are looked at.
func (p Consumers) Top(ctx context.Context, most int) (top []queue.Consumer, sums ConsumerSums, err error) {
	list, next, err := p.q.shard.Consumers.List(ctx, "", maxTopConsumers)
	if err != nil {
		return nil, sums, err
	}
	sums = ConsumerSums{Consumers: len(list), Whole: next == ""}
	for i := range list {
		sums.Overdue += uint64(list[i].Overdue)
		if list[i].Attached {
			sums.Attached++
		}
	}
	slices.SortFunc(list, func(a, b queue.Consumer) int {
		return cmp.Or(cmp.Compare(b.Overdue, a.Overdue), cmp.Compare(b.Reserved, a.Reserved), strings.Compare(a.Name, b.Name))
	})
	return list[:min(most, len(list))], sums, nil
}

// Get tells about one consumer and lists what it holds, the oldest reservation first.
func (p Consumers) Get(consumer, from string, limit int) (page HeldPage, err error) {
	if err := validConsumer(consumer); err != nil {
		return page, err
	}
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	numbers, err := readCursorOf("h", from, 63, 32)
	if err != nil {
		return page, err
	}
	after, more := reserver.Place{Ordinal: numbers[0], Slot: uint32(numbers[1])}, false
	page.Consumer, page.Items, after, more, err = p.q.shard.Consumers.Get(consumer, after, limit)
	if more {
		page.Next = cursor("h", after.Ordinal, uint64(after.Slot))
	}
	return page, err
}

// validConsumer checks a consumer's name that is in the path.
func validConsumer(name string) error {
	if name == "" || len(name) > queue.MaxConsumerBytes || !utf8.ValidString(name) {
		return queue.Invalid("/path/consumer", "is not a consumer's name: 1 to %d bytes of UTF-8", queue.MaxConsumerBytes)
	}
	return nil
}

// HeldRequest says which reservations of a queue to list.
type HeldRequest struct {
	Filter queue.HeldFilter
	Cursor string // Next of the page before; "" for the first
	Limit  int    // 1 to queue.MaxListLimit; 0: 100
}

// List lists the chunks that are held: those for longest first, or those with the earliest deadline. A reservation that comes or goes while
// the list is made may be missed. A page that has a next one may have fewer items than the limit.
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

// Release takes a chunk from the consumer that holds it, with no try counted, and says what was held. A consumer that is attached is
// notified. said names the caller if it has no access token. The audit log keeps the caller and the reason. CodeConflict: no consumer holds
// the chunk.
func (p Reservations) Release(ctx context.Context, id queue.ChunkID, said, reason string) (queue.HeldChunk, error) {
	if _, err := p.q.shard.Submissions.Chunk(ctx, id.Submission, id.Index); err != nil {
		return queue.HeldChunk{}, err // there is no such submission or chunk
	}
	return p.q.shard.Reservations.Release(id, reason, p.q.act(ctx, said, "reservation.release", chunkTarget(id)))
}

// ReleaseConsumer takes all chunks from a consumer, with no try counted, and returns their number. An attached consumer is notified. said
// and reason are as in Release.
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
