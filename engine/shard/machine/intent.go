package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// An intent is a decision of the machine that is not on the disk yet: a submission that is about to end, a schedule
// that is about to change. Later decisions have to take it into account, so it leaves a mark in memory. The mark has to
// go when the op is applied, or when its commit fails. The batch that holds the op holds the intent too, and does both:
// no other code has to remember the mark, and each intent ends exactly once.
type intent interface {
	Applied(m *Machine) // the op is on the disk, and was applied a moment ago
	Undo(m *Machine)    // the commit failed; later decisions are already undone
}

// intents are those of one batch, in the order of their ops.
type intents struct {
	List  []opIntent
	ended int // how many of the list were applied
}

type opIntent struct {
	intent
	op int // the number of its op in the batch, from 1
}

// Applied ends the intents of the ops up to this number.
func (x *intents) Applied(m *Machine, op int) {
	for x.ended < len(x.List) && x.List[x.ended].op <= op {
		x.List[x.ended].Applied(m)
		x.ended++
	}
}

// undo ends those that are left, the last one first.
func (x *intents) undo(m *Machine) {
	for _, i := range slices.Backward(x.List[x.ended:]) {
		i.Undo(m)
	}
	x.ended = len(x.List)
}

// Reuse empties the list, and keeps its memory.
func (x *intents) Reuse() {
	clear(x.List)
	x.List, x.ended = x.List[:0], 0
}

// Intend adds an intent. Its op is the one that was encoded last.
func (b *Batch) Intend(i intent) {
	b.Intents.List = append(b.Intents.List, opIntent{i, b.Enc.Ops()})
}

// Batch has the ops that one journal append will make durable: those of every call that arrived during the previous
// append.
type Batch struct {
	*commit.Commit
	Enc     journal.Encoder
	Begun   bool
	Intents intents
	Marked  []marked // reservations that it finishes: intents that cost no more than their place in this list

	Refused error // why it must not be appended: the state that it was encoded from is not to be trusted
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

// Undo undoes the intents of the batch after its commit has failed.
func (b *Batch) Undo(m *Machine) {
	b.Intents.undo(m)
	for _, mark := range slices.Backward(b.Marked) {
		m.Abandon(mark.Slot, mark.Sequence)
	}
}
