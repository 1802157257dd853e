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

// Ends are those of the queue.
func (q *Queue) Ends() *Ends { return &q.shard.Ends }
