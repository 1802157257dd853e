package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Insert encodes a submission, and before it the bytes that it carries, if any.
func (m *Machine) Insert(op *journal.Insert, carried *journal.Contents, now queue.Time) {
	if carried != nil {
		carried.Seq = op.Seq
		m.Encode(now).Contents(carried)
	}
	m.Encode(now).Insert(op)
}
