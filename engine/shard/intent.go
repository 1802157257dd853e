package shard

import "slices"

// An intent is what the machine has decided and the disk does not have yet: a submission that is about to end, a schedule that is about to
// change. What is decided next has to take it into account, so a decision leaves a mark in memory, which has to go when its op is applied,
// or when its commit fails. The batch that holds the op holds the intent too, and sees to both: nothing else has to remember the mark, and
// each intent ends exactly once.
type intent interface {
	Applied(m *machine) // the op is on the disk, and was applied a moment ago
	Undo(m *machine)    // the commit failed; what was decided after it is undone already
}

// intents are those of one batch, in the order of their ops.
type intents struct {
	list  []opIntent
	ended int // how many of the list were applied
}

type opIntent struct {
	intent
	op int // the number of its op in the batch, from 1
}

// applied ends the intents of the ops up to this number.
func (x *intents) applied(m *machine, op int) {
	for x.ended < len(x.list) && x.list[x.ended].op <= op {
		x.list[x.ended].Applied(m)
		x.ended++
	}
}

// undo ends those that are left, the last one first.
func (x *intents) undo(m *machine) {
	for _, i := range slices.Backward(x.list[x.ended:]) {
		i.Undo(m)
	}
	x.ended = len(x.list)
}

// reuse empties the list, and keeps its memory.
func (x *intents) reuse() {
	clear(x.list)
	x.list, x.ended = x.list[:0], 0
}

// intend adds an intent to the open batch. Its op is the one that was encoded last.
func (m *machine) intend(i intent) {
	m.batch.intents.list = append(m.batch.intents.list, opIntent{i, m.batch.enc.Ops()})
}
