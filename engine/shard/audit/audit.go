package audit

import (
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// auditor looks for contradictions in a machine.
type auditor struct{ m *machine.Machine }

// Machine looks for contradictions in a machine: it recounts each counter from the objects that it counts. The caller
// holds the shard's mutex, between two inputs: in the middle of one, counters may be half changed. It reads all
// submissions and all their tries, so only tests and the simulation can afford it; a running server recounts in
// slices (package recount).
func Machine(m *machine.Machine) error { return auditor{m}.run() }

// All contradictions are listed, not only the first: together they often show where the fault is.
func (p auditor) run() error {
	m := p.m
	var found []error
	var sum machine.Stats
	var suspects machine.Suspects
	held := 0
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*machine.Record)
		if err := p.record(r); err != nil {
			found = append(found, err)
		}
		// Chunks of a submission that waits for its run_at are counted apart, and their operations are not work that
		// a consumer could do.
		available := uint64(sub.Available())
		if r.Parked {
			sum.Parked += available
		} else {
			sum.Operations += available * uint64(r.Details().Operations)
		}
		sum.Waiting += uint64(r.Waiting)
		sum.Dead += uint64(r.Dead)
		sum.Completed += uint64(r.Done)
		sum.Skipped += uint64(r.Skips)
		held += int(r.Holds.Len())
		suspects.Shelved += int(r.Shelved)
		suspects.Lent += int(r.Lent)
		suspects.Ready += int(r.Ready)
		return true
	})
	// Reservations outlive a submission that ended: their consumers learn of the end with their next call.
	for _, r := range m.Orphans.List {
		sum.Orphaned += uint64(r.Holds.Len())
	}
	c := &m.Stats
	for _, pair := range []struct {
		name      string
		kept, now uint64
	}{
		{"waiting", c.Waiting, sum.Waiting}, {"parked", c.Parked, sum.Parked}, {"dead", c.Dead, sum.Dead},
		{"done", c.Completed, sum.Completed},
		{"skipped", c.Skipped, sum.Skipped}, {"operations", c.Operations, sum.Operations},
		{"orphaned", c.Orphaned, sum.Orphaned},
		{"reservations", uint64(m.Holds.Len()), uint64(held) + sum.Orphaned},
		{"shelved", uint64(m.Suspects.Shelved), uint64(suspects.Shelved)},
		{"lent", uint64(m.Suspects.Lent), uint64(suspects.Lent)},
		{"lent and ready", uint64(m.Suspects.Ready), uint64(suspects.Ready)},
	} {
		if pair.kept != pair.now {
			found = append(found, fmt.Errorf("%s: %d are counted, %d there", pair.name, pair.kept, pair.now))
		}
	}
	// Each part recounts the state that only it knows.
	for _, audited := range m.Joined.Audited {
		found = append(found, audited())
	}
	return errors.Join(append(found, p.rules())...)
}

// record: every chunk is in exactly one state, and the counts say so. The states are counted from their sources
// (tries, reservations, cursors), and their sum must be the number of chunks: a chunk in two states, or in none,
// shows there even where every single count is right.
func (p auditor) record(r *machine.Record) error {
	m := p.m
	var waiting, dead, skips, taken, shelf, out, ready uint32
	for index, t := range r.Tries {
		switch {
		case t.Gone() && (t.Waiting || r.Sub.IsAvailable(index) || m.IsHeld(r, index)):
			return fmt.Errorf("chunk %s is dead or skipped, and offered or held too",
				queue.ChunkID{Submission: r.ID, Index: index})
		case t.Waiting:
			waiting++
			if !m.IsHeld(r, index) { // else a late completion is on its way
				taken++
			}
		}
		switch {
		case t.Suspect == machine.Shelved && t.Waiting:
			shelf++
		case t.Suspect == machine.Lent:
			out++
			if r.Sub.IsAvailable(index) {
				ready++
			}
		}
		switch t.Reason {
		case journal.Dead:
			dead++
		case journal.Skipped, journal.Forwarded:
			skips++
		}
	}
	// Reservations that are not counted are those of late completions: the chunk is on its way to done, and no limit
	// counts it.
	inFlight := uint32(0)
	m.Holds.Each(&r.Holds, func(_ uint32, h *reserver.Hold) bool {
		if taken++; h.Counted {
			inFlight++
		}
		return true
	})
	if inFlight != r.Sub.InFlight() || r.Sub.Available() != r.Sub.Recounted() {
		return fmt.Errorf("submission %s: %d are in flight and %d available; counted are %d and %d", r.ID, inFlight,
			r.Sub.Recounted(), r.Sub.InFlight(), r.Sub.Available())
	}
	if waiting != r.Waiting || dead != r.Dead || skips != r.Skips {
		return fmt.Errorf("submission %s: %d wait, %d are dead, %d skipped; counted are %d, %d and %d", r.ID, waiting,
			dead, skips, r.Waiting, r.Dead, r.Skips)
	}
	if shelf != r.Shelved || out != r.Lent || ready != r.Ready {
		return fmt.Errorf("submission %s: %d are shelved, %d lent, %d of them not held; counted are %d, %d and %d",
			r.ID, shelf, out, ready, r.Shelved, r.Lent, r.Ready)
	}
	all := uint64(r.Sub.Available()) + uint64(taken) + uint64(r.Done) + uint64(dead) + uint64(skips)
	if all != uint64(r.Chunks) {
		return fmt.Errorf("submission %s: its states sum up to %d of %d chunks", r.ID, all, r.Chunks)
	}
	return nil
}
