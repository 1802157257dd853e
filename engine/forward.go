package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// forwards carries dead letters from the outboxes of queues to their target queues. A letter that a crash interrupts is carried again after
// the start, and a queue that has it already recognises it (shard/deadletters/arrive.go).
type forwards struct {
	e    *Engine
	turn sync.Mutex // held by the goroutine that delivers: one at a time
	// held for reading while it is decided that letters leave for a queue, for writing while a queue is deleted; before Engine.mu
	doors sync.RWMutex
	nudge chan struct{}
}

// carryEvery is the pause after a failure, and the longest that a letter waits if its notification was missed.
const carryEvery = time.Second

// posted is called by a shard when there is something in its outbox.
func (e *Engine) posted() {
	select {
	case e.forwards.nudge <- struct{}{}:
	default:
	}
}

// carryAlways carries until ctx ends.
func (f *forwards) carryAlways(ctx context.Context) {
	ticker := time.NewTicker(carryEvery)
	defer ticker.Stop()
	for {
		f.carry(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-f.nudge:
		}
	}
}

// carry empties the outboxes, as far as the target queues can take the letters.
func (f *forwards) carry(ctx context.Context) {
	f.turn.Lock()
	defer f.turn.Unlock()
	for _, q := range f.e.all() {
		stuck := map[string]bool{}
		after := uint64(0)
		for ctx.Err() == nil {
			list := q.shard.Forwarding.Outgoing(after, journal.MaxRedrive)
			if len(list) == 0 {
				break
			}
			after = list[len(list)-1].Number
			for len(list) > 0 {
				var page, rest []queue.Outgoing
				for _, o := range list {
					if o.Queue == list[0].Queue {
						page = append(page, o)
					} else {
						rest = append(rest, o)
					}
				}
				list = rest
				if to := page[0].Queue; !stuck[to] { // what comes later must not arrive before
					err := f.carryTo(ctx, q, to, page)
					code := queue.CodeOf(err)
					if stuck[to] = err != nil; err != nil && ctx.Err() == nil && !absent(code) {
						f.e.options.Logger.Error("forwarding dead letters failed; the server tries again",
							"queue", q.name, "to", to, "error", err)
					}
				}
			}
		}
	}
}

// absent says whether the code means that a queue does not serve here, which is reported elsewhere.
func absent(code queue.Code) bool {
	return code == queue.CodeQuarantined || code == queue.CodeMoved || code == queue.CodeMoving
}

// carryTo carries letters of one outbox to one queue. A letter that cannot be read is parked in the end. Until then only the letters before
// it are carried, and afterwards also those behind it.
func (f *forwards) carryTo(ctx context.Context, from *Queue, to string, page []queue.Outgoing) error {
	destination, err := f.letterbox(to)
	if err != nil {
		return err
	}
	arrived, err := destination.Arrived(ctx, from.shard.Forwarding.Source())
	if err != nil {
		return err
	}
	var list []queue.Delivery
	var numbers []uint64
	var unread error
	bytes := 0
	for _, o := range page {
		if o.Number <= arrived && !o.Stuck { // only that it did is not known here
			numbers = append(numbers, o.Number)
			continue
		}
		n, err := from.shard.Forwarding.Parcel(ctx, o)
		if err != nil {
			if unread = f.unread(ctx, from, o, err); unread != nil {
				break
			}
			continue
		}
		if o.Stuck {
			if err := from.shard.Forwarding.Unstick(o); err != nil {
				return err
			}
			continue // it comes again, under its new number
		}
		list, numbers = append(list, queue.Delivery{Number: o.Number, Submission: n}), append(numbers, o.Number)
		if bytes += len(n.Attachment); len(n.Chunks.Inline) > 0 {
			bytes += len(n.Chunks.Inline[0])
		}
		if bytes > carryBytes {
			if err := deliver(ctx, from, destination, list, numbers); err != nil {
				return err
			}
			list, numbers, bytes = nil, nil, 0
		}
	}
	if len(numbers) > 0 {
		err = deliver(ctx, from, destination, list, numbers)
	}
	return errors.Join(err, unread)
}

// Letterbox is where the dead letters of other queues arrive in one queue. Their numbers make delivering them twice harmless.
type Letterbox interface {
	// Arrived is the number up to which the letters of an outbox have arrived.
	Arrived(ctx context.Context, source uint64) (number uint64, err error)
	// Deliver takes letters of one outbox in, durably; see deadletters.Forwarding.
	Deliver(ctx context.Context, list []queue.Delivery) error
}

// letterbox is that of a queue, which another node may serve.
func (f *forwards) letterbox(name string) (Letterbox, error) {
	if at := f.e.nodes.sendsTo(name); at != nil {
		return at, nil
	}
	q, err := f.e.Queue(name)
	if err != nil {
		return nil, err
	}
	return q.Letterbox(), nil
}

// Letterbox is that of this queue.
func (q *Queue) Letterbox() Letterbox { return ownLetterbox{q} }

type ownLetterbox struct{ q *Queue }

func (b ownLetterbox) Arrived(_ context.Context, source uint64) (uint64, error) {
	return b.q.shard.Forwarding.Arrived(source)
}

func (b ownLetterbox) Deliver(ctx context.Context, list []queue.Delivery) error {
	return b.q.shard.Forwarding.Deliver(ctx, list)
}

// unread handles a letter that cannot be read; nil: the letters behind it may go on.
func (f *forwards) unread(ctx context.Context, from *Queue, o queue.Outgoing, cause error) error {
	cause = fmt.Errorf("chunk %s: %w", o.Chunk, cause)
	if ctx.Err() != nil {
		return cause
	}
	switch parked, err := from.shard.Forwarding.Unread(o, cause); {
	case err != nil:
		return errors.Join(cause, err)
	case !parked:
		return cause
	}
	return nil
}

// carryBytes bounds the contents that are in memory at once; only the last one may go beyond.
const carryBytes = 16 << 20

// deliver has the target queue take letters in, durably, and then the source queue forget them.
func deliver(ctx context.Context, from *Queue, to Letterbox, list []queue.Delivery, numbers []uint64) error {
	if len(list) > 0 {
		if err := to.Deliver(ctx, list); err != nil {
			return err
		}
	}
	return from.shard.Forwarding.Delivered(numbers)
}

// validDeadQueue checks that dead letters of a queue may go on to another one. That one must exist, must not be the queue itself, and must
// keep its own dead letters, so that nothing goes in circles. The caller holds e.mu.
func (e *Engine) validDeadQueue(name string, settings *queue.Settings) error {
	to := settings.DeadLetterQueue
	if to == "" {
		return nil
	}
	var other *queue.Settings
	if q, row := e.queues[to], e.nodes.queues().row(to); q != nil {
		other = q.config.Load()
	} else if row != nil {
		other = &row.Settings
	}
	switch {
	case to == name:
		return queue.Invalid("/dead_letter_queue", "is the queue itself: name another one, or none to keep dead letters where they are")
	case e.quarantine.find(to) != nil:
		return queue.Invalid("/dead_letter_queue", "names the queue %q, which is in quarantine: fix or delete that one first", to)
	case other == nil:
		return queue.Invalid("/dead_letter_queue", "names the queue %q, which does not exist: create it first",
			clip(to, queue.MaxQueueNameBytes))
	case other.Shards > 1:
		return queue.Invalid("/dead_letter_queue", "names the queue %q, which has several shards: name one that has one", to)
	case other.DeadLetterQueue != "":
		return queue.Invalid("/dead_letter_queue", "names the queue %q, whose own dead letters go on to %q: they "+
			"could go in circles", to, other.DeadLetterQueue)
	}
	if user := e.forwards.feeds(name); user != "" {
		return queue.Invalid("/dead_letter_queue", "cannot be set: dead letters of the queue %q go on to this one and have to stay", user)
	}
	return nil
}

// feeds is a queue whose dead letters go on to the named one; "": none. The caller holds e.mu.
func (f *forwards) feeds(name string) string {
	e := f.e
	for _, q := range e.queues {
		if q.config.Load().DeadLetterQueue == name {
			return q.name
		}
	}
	for _, q := range e.quarantine {
		if q.Settings.DeadLetterQueue == name {
			return q.Name
		}
	}
	for _, row := range e.nodes.others() {
		if row.Settings.DeadLetterQueue == name {
			return row.Name
		}
	}
	return ""
}

// unforwarded says why a queue cannot be deleted as long as dead letters go to it or are on their way. The caller holds e.mu and
// forwards.doors.
func (f *forwards) unforwarded(q *Queue) error {
	if user := f.feeds(q.name); user != "" {
		return isDeadQueueOf(user)
	}
	if n := q.shard.Forwarding.OutgoingTo("") - q.shard.Forwarding.Overtaken(); n > 0 { // those that cannot be read go with their queue
		return onTheirWay(n)
	}
	for _, other := range f.e.queues {
		if n := other.shard.Forwarding.OutgoingTo(q.name); n > 0 {
			return onTheirWay(n)
		}
	}
	return nil
}

func isDeadQueueOf(user string) error {
	return &queue.Error{Code: queue.CodeConflict,
		Message: fmt.Sprintf("The queue is the dead_letter_queue of %q. Change that queue's settings first.", user)}
}

func onTheirWay(n int) error {
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("Dead letters are on their way to or from the queue: %d. "+
		"Try again in a moment. If they are parked, retry them, or delete the queue that they come from.", n)}
}
