package backlog

import "github.com/quern-queue/quern/engine/queue"

// A pick that meets a submission that a limit or a rule holds back moves it behind a shut gate, once. If
// many came under a rule at once, that is much work for one pick. So the caller can bound the work of
// picks, and can have it done beforehand, slice by slice.

// Allow bounds how many held-back submissions all picks from now on move aside together before they give
// up: Tired then says so. 0 is no bound.
func (b *Backlog) Allow(most int) { b.meter.allowed, b.meter.moved = most, 0 }

// Tired says that picks gave up at the bound that Allow set: there may be something to take all the same.
func (b *Backlog) Tired() bool { return b.meter.tired() }

// Shelve puts submissions that have the value and are held back by something behind shut gates,
// in every view where they stand in open ones: then no pick meets them. It looks at up to `most`
// places in views, from the place `from` (-1: the end) of the value's list down, and returns the
// place to go on from; 0 when it met all. Between two calls anything may happen to the backlog.
func (b *Backlog) Shelve(entry queue.MetaEntry, from, most int) (next int) {
	t := b.Values.find(entry.Key, entry.Value)
	if t == nil {
		return 0
	}
	if from < 0 {
		from = len(t.shown)
	}
	next = min(from, len(t.shown))
	for most > 0 && next > 0 {
		next--
		s := b.subs.list[t.shown[next]]
		most -= 1 + len(s.members)
		for at := range s.members {
			b.bases.list[s.members[at].base].shelve(s, uint32(at))
		}
	}
	return next
}

// shelve moves a submission that stands in an open gate of the view behind a shut one, if
// something holds it back.
func (b *base) shelve(s *Submission, at uint32) {
	if b.dropped {
		return
	}
	group := b.groupAt(s.members[at].gate)
	if b.cells == nil {
		if b.gates[s.members[at].gate].isOpen() {
			b.heldBack(s, at, queue.NoLimit)
		}
	} else if b.cells.obstacleOf(s.members[at].gate) == none {
		if t := b.Values.overrun(s); t != nil {
			b.cells.extend(s, at, t)
		}
	}
	b.report(group)
}
