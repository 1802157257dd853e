package engine

import (
	"context"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// Stats are a queue's numbers.
func (e *Engine) Stats(_ context.Context, queueName string) (queue.Stats, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return queue.Stats{}, err
	}
	return q.shard.Stats(), nil
}

// Examined is how many submissions all reserves of a queue have looked at since it was opened: what picking costs, whatever
// the machine.
func (e *Engine) Examined(queueName string) (uint64, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return 0, err
	}
	return q.shard.Examined(), nil
}

// emptyCounts counts reserves that came back with nothing, by reason.
type emptyCounts [queue.EmptyReasons]atomic.Uint64

func (c *emptyCounts) count(reason queue.EmptyReason) { c[reason].Add(1) }
