package engine

import "github.com/quern-queue/quern/engine/shard"

// Lifecycle tells how the life-cycle worker of a queue is doing. All of it is kept as counters; asking costs little.
func (e *Engine) Lifecycle(queueName string) (shard.Work, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return shard.Work{}, err
	}
	return q.shard.Work(), nil
}
