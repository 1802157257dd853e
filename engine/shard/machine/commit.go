package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// Batch is what one journal append will make durable: the ops of every call that arrived
// during the previous append.
type Batch struct {
	*commit.Commit
	Enc     journal.Encoder
	Begun   bool
	Intents intents
	Marked  []marked // reservations that it finishes: intents that cost no more than their place in this list

	Refused error // it is not to be appended: what it was encoded from is not to be trusted
}

type marked struct {
	Slot     uint32
	Sequence uint64
}

// NewBatch is an open batch without ops.
func NewBatch() *Batch { return &Batch{Commit: commit.New()} }

// Mark notes a reservation that the batch finishes: should its commit fail, the
// reservation is held as before.
func (b *Batch) Mark(slot uint32, sequence uint64) {
	b.Marked = append(b.Marked, marked{slot, sequence})
}

// Ops is how many ops the batch holds.
func (b *Batch) Ops() int {
	if !b.Begun {
		return 0
	}
	return b.Enc.Ops()
}

// Undo takes back what the batch was to do, when its commit has failed.
func (b *Batch) Undo(m *Machine) {
	b.Intents.undo(m)
	for _, mark := range slices.Backward(b.Marked) {
		m.Abandon(mark.Slot, mark.Sequence)
	}
}
