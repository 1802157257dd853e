package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
)

// Attached is one stream of an attached consumer: the server of it waits for Wake, calls Next, and ends with Close.
type Attached = shard.Attached

// Notice is what is new for an attached consumer.
type Notice = shard.Notice

// HeldPage is a consumer with a page of what it holds.
type HeldPage struct {
	Consumer queue.Consumer
	Page[queue.HeldChunk]
}

// Attach makes a consumer known: when its last stream ends other than by Detach, and the consumer does not attach again
// within the queue's consumer grace, what it holds is lost. A name is one consumer's own.
func (e *Engine) Attach(ctx context.Context, queueName, consumer string) (*Attached, error) {
	q, err := e.consumerOf(queueName, consumer)
	if err != nil {
		return nil, err
	}
	return e.attach(ctx, q, consumer)
}

// Detach lets a consumer leave: its streams end and what it holds goes back, with no try counted. It says how many chunks that
// were.
func (e *Engine) Detach(queueName, consumer string) (released int, err error) {
	q, err := e.consumerOf(queueName, consumer)
	if err != nil {
		return 0, err
	}
	return q.shard.Consumers.Detach(consumer)
}

// orderActions are the orders as the audit log names them.
var orderActions = [...]string{queue.NoOrder: "consumer.resume", queue.Quiet: "consumer.quiet", queue.Drain: "consumer.drain"}

// OrderConsumer tells a consumer what an operator wants of it, NoOrder taking back what was told before. An order is forgotten when
// the consumer leaves or is lost, or is not heard of for an hour, and at a restart.
func (e *Engine) OrderConsumer(ctx context.Context, queueName, consumer string, order queue.ConsumerOrder) (queue.Consumer, error) {
	q, err := e.consumerOf(queueName, consumer)
	if err != nil {
		return queue.Consumer{}, err
	}
	return q.shard.Consumers.Order(consumer, order, e.act(ctx, "", orderActions[order], queueName, "consumer "+consumer))
}

// Consumers lists the consumers of a queue by name: those that are attached or were a moment ago, hold something or have an order.
func (e *Engine) Consumers(ctx context.Context, queueName, cursor string, limit int) (page Page[queue.Consumer], err error) {
	q, err := e.queue(queueName)
	if err != nil {
		return page, err
	}
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	from, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		_, err = readCursor("c", "none")
		return page, err
	}
	list, next, err := q.shard.Consumers.List(ctx, string(from), limit)
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

// TopConsumers are the consumers with most overdue, then with most in hand, then by name: at most `most`, of as many as are looked at.
func (e *Engine) TopConsumers(ctx context.Context, queueName string, most int) (top []queue.Consumer, sums ConsumerSums, err error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, sums, err
	}
	list, next, err := q.shard.Consumers.List(ctx, "", maxTopConsumers)
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

// Consumer tells about one consumer and lists what it holds, the oldest reservation first.
func (e *Engine) Consumer(queueName, consumer, from string, limit int) (page HeldPage, err error) {
	q, err := e.consumerOf(queueName, consumer)
	if err != nil {
		return page, err
	}
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	after, err := readHeldCursor(from)
	if err != nil {
		return page, err
	}
	var more bool
	page.Consumer, page.Items, after, more, err = q.shard.Consumers.Get(consumer, after, limit)
	if more {
		page.Next = cursor("h", after.Ordinal) + "." + strconv.FormatUint(uint64(after.Slot), 36)
	}
	return page, err
}

func readHeldCursor(text string) (after shard.HeldAfter, err error) {
	if text == "" {
		return after, nil
	}
	ordinal, slot, _ := strings.Cut(text, ".")
	if after.Ordinal, err = readCursor("h", ordinal); err != nil {
		return after, err
	}
	n, failed := strconv.ParseUint(slot, 36, 32)
	if failed != nil {
		_, err = readCursor("h", "none")
	}
	after.Slot = uint32(n)
	return after, err
}

// consumerOf finds the queue of a call about a consumer whose name is in the path.
func (e *Engine) consumerOf(queueName, consumer string) (*openQueue, error) {
	q, err := e.queue(queueName)
	switch {
	case err != nil:
		return nil, err
	case consumer == "" || len(consumer) > queue.MaxConsumerBytes || !utf8.ValidString(consumer):
		return nil, queue.Invalid("/path/consumer", "is not a consumer's name: 1 to %d bytes of UTF-8", queue.MaxConsumerBytes)
	}
	return q, nil
}
