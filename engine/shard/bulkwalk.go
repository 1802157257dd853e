package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// arrivedAt notes that everything was walked over.
func (p *bulkPage) arrivedAt(next *journal.Bulk) {
	if w := &next.Walk; w.Known {
		w.Examined = min(w.Examined+p.seen.Examined-p.noted, w.ToExamine)
		w.ToExamine = w.Examined
	}
}

// pause notes how far a page got that broke off with less found than it may take.
func (p *bulkPage) pause() error {
	return p.locked(func(now queue.Time) {
		p.note(now, 0, p.seen.Last, p.seen.Examined, func(*machine.Machine) (done, refused int) { return 0, 0 })
	})
}
