package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// arrivedAt notes that everything was walked over.
func (p *bulkPage) arrivedAt(next *journal.Bulk) {
	w := &next.Walk
	w.Examined = min(w.Examined+p.seen.Examined-p.noted, w.ToExamine)
	w.ToExamine = w.Examined
}

// complete ends the operation, unless someone else did something to it since the page was begun.
func (p *bulkPage) complete() error {
	return p.locked(func(now queue.Time) {
		if b := p.s.parts.bulks.At(p.id, p.step); b != nil {
			p.s.parts.bulks.Step(b, now, func(next *journal.Bulk) {
				next.State, next.Ended = queue.BulkCompleted, now
				p.arrivedAt(next)
			})
			p.waits.Add(p.s.writer.pending())
		}
	})
}

// pause notes how far a page got that broke off with less found than it may take.
func (p *bulkPage) pause() error {
	return p.locked(func(now queue.Time) {
		p.note(now, 0, p.seen.Last, p.seen.Examined, func(*machine.Machine) (done, refused int) { return 0, 0 })
	})
}
