package engine

import (
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
)

type (
	// Ends are the ends of a queue's submissions, in the order in which they became durable.
	Ends = shard.Ends

	// EndFilter says which of them are meant. Before and From mean nothing.
	EndFilter = machine.Filter
)

// Ends are those of a queue.
func (ask Questions) Ends(queueName string) (*Ends, error) {
	q, err := ask.e.queue(queueName)
	if err != nil {
		return nil, err
	}
	return &q.shard.Ends, nil
}
