package deadletters

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// expects says that a dead letter of another queue has not arrived yet, and is not about to.
func (p *Part) expects(o *queue.Origin) bool {
	return o.Number > p.inbox[o.Source] && o.Number > p.arriving[o.Source]
}

// arrives notes that the op that was encoded last inserts a dead letter of another queue.
func (p *Part) arrives(o *queue.Origin) {
	p.m.Batch.Intend(arriving{p, o.Source, p.arriving[o.Source]})
	p.arriving[o.Source] = o.Number
}

// arriving is a dead letter of another queue whose insert is on its way to the disk.
type arriving struct {
	p              *Part
	source, before uint64 // before: the last number of the source that was on its way already
}

// Applied notes that the source's letters up to the last arrived one are no longer on their way.
func (a arriving) Applied(*machine.Machine) {
	if a.p.arriving[a.source] <= a.p.inbox[a.source] {
		delete(a.p.arriving, a.source)
	}
}

// Undo makes the letter expected again.
func (a arriving) Undo(*machine.Machine) {
	if a.p.arriving[a.source] = a.before; a.before == 0 {
		delete(a.p.arriving, a.source)
	}
}

// Inserting notes the last dead letter that arrived from an outbox.
func (p *Part) Inserting(s *journal.Insert) {
	o := s.Origin
	if o == nil {
		return
	}
	p.m.Stats.Arrived++
	if o.Number > p.inbox[o.Source] {
		p.inbox[o.Source] = o.Number
		p.m.Asides.Changed(machine.AsideInbox, o.Source)
	}
}
