package schedules

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file remembers what schedules inserted lately, for those who look at them. Nothing
// is decided by it, so it is in memory only: after a restart what the journal and the open
// submissions tell is there, and what ended before is not.

// emissionsKept is how many submissions of one schedule are remembered: 24 bytes each.
const emissionsKept = queue.MaxRecent

// Opened notes a submission that a schedule inserted: by a tick, a trigger or a backfill.
func (p *Part) Opened(r *machine.Record) {
	d := r.Details()
	if d.Schedule == "" {
		return
	}
	sch := p.ByName[d.Schedule]
	if sch == nil || r.ID.Time() < sch.Created {
		return // of one that is deleted, or was before this one of its name
	}
	at, known := slices.BinarySearchFunc(sch.recent, r.ID, byEmission)
	if known {
		sch.recent[at].State = r.State
		return
	}
	if at == 0 && len(sch.recent) == emissionsKept {
		return
	}
	if len(sch.recent) == emissionsKept {
		sch.recent = slices.Delete(sch.recent, 0, 1)
		at--
	}
	sch.recent = slices.Insert(sch.recent, at, queue.Emission{Tick: d.Scheduled, ID: r.ID, State: r.State})
}

func byEmission(e queue.Emission, id queue.SubmissionID) int {
	switch {
	case e.ID < id:
		return -1
	case e.ID > id:
		return 1
	}
	return 0
}

// emittedBefore finds what is still open, once everything is replayed.
func (p *Part) emittedBefore() {
	if len(p.ByName) == 0 {
		return
	}
	for _, r := range p.m.Order.List {
		if r != nil {
			p.Opened(r)
		}
	}
}
