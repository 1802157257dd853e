package machine

import (
	"github.com/quern-queue/quern/engine/queue"
)

// Expects says that a dead letter has not arrived yet, and is not about to.
func (p *forwarding) Expects(o *queue.Origin) bool {
	return o.Number > p.Inbox[o.Source] && o.Number > p.Arriving[o.Source]
}

// Arriving is a dead letter of another queue whose insert is on its way to the disk.
type Arriving struct{ Source, Before uint64 } // before: the last number of the source that was on its way already

// Applied: the source's letters up to the last one that arrived are not on their way any more.
func (a Arriving) Applied(m *Machine) {
	if m.Forwarding.Arriving[a.Source] <= m.Forwarding.Inbox[a.Source] {
		delete(m.Forwarding.Arriving, a.Source)
	}
}

// Undo has the letter expected again.
func (a Arriving) Undo(m *Machine) {
	if m.Forwarding.Arriving[a.Source] = a.Before; a.Before == 0 {
		delete(m.Forwarding.Arriving, a.Source)
	}
}

// arrived notes how far the dead letters of an outbox have come.
func (p *forwarding) arrived(o *queue.Origin) {
	if o == nil {
		return
	}
	p.m.Stats.Arrived++
	if o.Number > p.Inbox[o.Source] {
		p.Inbox[o.Source] = o.Number
		p.m.Asides.Changed(asideInbox, o.Source)
	}
}
