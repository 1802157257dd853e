package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
)

// Batch is what one journal append will make durable: the ops of every call that arrived during the previous append.
type Batch struct {
	Enc     journal.Encoder
	Begun   bool
	Intents intents
	Marked  []marked      // reservations that it finishes: intents that cost no more than their place in this list
	Done    chan struct{} // closed after the commit and its effects, or its failure
	Err     error         // set before done is closed
	Next    *Batch        // what it leads to: the batch that its completions joined when their outputs were written
	Late    bool          // set before done is closed: some of them did not, as their submission had ended by then

	Refused error // it is not to be appended: what it was encoded from is not to be trusted
}

type marked struct {
	Slot     uint32
	Sequence uint64
}

// NewBatch is an open batch without ops.
func NewBatch() *Batch { return &Batch{Done: make(chan struct{})} }

// Mark notes a reservation that the batch finishes: should its commit fail, the reservation is held as before.
func (b *Batch) Mark(slot uint32, sequence uint64) {
	b.Marked = append(b.Marked, marked{slot, sequence})
}

// Undo takes back what the batch was to do, when its commit has failed.
func (b *Batch) Undo(m *Machine) {
	b.Intents.undo(m)
	for _, mark := range slices.Backward(b.Marked) {
		m.Abandon(mark.Slot, mark.Sequence)
	}
}

// Commits is a set of batches that a call has to wait for: one, nearly always.
type Commits struct {
	First *Batch
	More  []*Batch
}

// Add has the call wait for b too; nil is no batch.
func (c *Commits) Add(b *Batch) {
	switch {
	case b == nil || b == c.First || len(c.More) > 0 && c.More[len(c.More)-1] == b:
	case c.First == nil:
		c.First = b
	default:
		c.More = append(c.More, b)
	}
}

// Wait waits for the batch and for what it leads to.
func (b *Batch) Wait() error {
	for ; b != nil; b = b.Next {
		<-b.Done
		if b.Err != nil {
			return b.Err
		}
	}
	return nil
}

// Late says that some of what was waited for came to nothing, without an error: an "already" that rests on it has to be looked at again.
func (c *Commits) Late() bool {
	return c.First != nil && (c.First.Late || slices.ContainsFunc(c.More, func(b *Batch) bool { return b.Late }))
}
