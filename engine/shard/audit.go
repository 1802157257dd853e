package shard

import (
	"errors"
	"fmt"
	"maps"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Audit counts everything again and compares it with the counters that are kept; the error names every difference. It holds the
// mutex for as long as it walks over all submissions: for tests and for looking into trouble.
func (s *Shard) Audit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	return errors.Join(auditor{s.m}.run(), s.auditCounts(), s.auditIntents())
}

// auditIntents: when nothing is on its way to the disk, no intent has left a mark.
func (s *Shard) auditIntents() error {
	if s.writer.pending() != nil {
		return nil
	}
	m := s.m
	left := map[string]int{"intents": len(m.batch.intents.list), "reservations to finish": len(m.batch.marked),
		"submissions about to end": m.closing}
	m.parts.intended(func(what string, n int) { left[what] += n })
	m.backlog.Each(func(sub *backlog.Submission) bool {
		if r := sub.Data.(*record); r.dying != 0 || r.ending {
			left[fmt.Sprintf("chunks about to die, or the end, of submission %s", r.id)]++
		}
		return true
	})
	maps.DeleteFunc(left, func(_ string, n int) bool { return n == 0 })
	if len(left) > 0 {
		return fmt.Errorf("nothing is on its way to the disk, but there are still %v", left)
	}
	return nil
}

// auditCounts counts consumers and rules.
func (s *Shard) auditCounts() error {
	attached, gone := 0, 0
	for _, c := range s.roster.list {
		if len(c.streams) > 0 {
			attached++
		}
		if c.away != 0 {
			gone++
		}
	}
	var rules [queue.RuleActions]int
	for _, r := range s.m.rules.List() {
		rules[r.Action]++
	}
	kept := [queue.RuleActions]int{queue.Pause: s.m.rules.Count(queue.Pause), queue.Block: s.m.rules.Count(queue.Block)}
	if attached != s.roster.attached || gone != s.roster.gone || rules != kept {
		return fmt.Errorf("consumers attached %d, away %d and rules by action %v are counted as %d, %d and %v",
			attached, gone, rules, s.roster.attached, s.roster.gone, kept)
	}
	return nil
}

// auditor looks for contradictions in a machine.
type auditor struct{ m *machine }

func (p auditor) run() error {
	m := p.m
	var found []error
	var sum counters
	var suspects suspects
	held, holders := 0, 0
	m.backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*record)
		if err := p.record(r); err != nil {
			found = append(found, err)
		}
		available := uint64(sub.Available())
		if r.parked {
			sum.parked += available
		} else {
			sum.operations += available * uint64(r.details().operations)
		}
		sum.waiting += uint64(r.waiting)
		sum.dead += uint64(r.dead)
		sum.completed += uint64(r.done)
		sum.skipped += uint64(r.skips)
		held += int(r.holds.Len())
		suspects.shelved += int(r.shelved)
		suspects.lent += int(r.lent)
		suspects.ready += int(r.ready)
		if r.dead > 0 {
			holders++
		}
		return true
	})
	for _, r := range m.orphans.list {
		sum.orphaned += uint64(r.holds.Len())
	}
	for id, n := range m.letters.ofEnded {
		sum.endedLetters += uint64(n)
		if r := m.ended[id]; r != nil && r.dead == n {
			holders++
		}
	}
	c := &m.stats
	for _, pair := range []struct {
		name      string
		kept, now uint64
	}{
		{"waiting", c.waiting, sum.waiting}, {"parked", c.parked, sum.parked}, {"dead", c.dead, sum.dead},
		{"done", c.completed, sum.completed},
		{"skipped", c.skipped, sum.skipped}, {"operations", c.operations, sum.operations},
		{"orphaned", c.orphaned, sum.orphaned}, {"ended letters", c.endedLetters, sum.endedLetters},
		{"reservations", uint64(m.holds.Len()), uint64(held) + sum.orphaned},
		{"shelved", uint64(m.suspects.shelved), uint64(suspects.shelved)},
		{"lent", uint64(m.suspects.lent), uint64(suspects.lent)}, {"lent and ready", uint64(m.suspects.ready), uint64(suspects.ready)},
		{"submissions with dead letters", m.letters.index.len(), uint64(holders)},
	} {
		if pair.kept != pair.now {
			found = append(found, fmt.Errorf("%s: %d are counted, %d there", pair.name, pair.kept, pair.now))
		}
	}
	return errors.Join(append(found, p.rules(), p.groups())...)
}

// auditRecord: every chunk is in exactly one state, and the counts say so.
func (p auditor) record(r *record) error {
	m := p.m
	var waiting, dead, skips, taken, shelf, out, ready uint32
	for index, t := range r.tries {
		switch {
		case t.gone() && (t.waiting || r.sub.IsAvailable(index) || m.isHeld(r, index)):
			return fmt.Errorf("chunk %s is dead or skipped, and offered or held too", queue.ChunkID{Submission: r.id, Index: index})
		case t.waiting:
			waiting++
			if !m.isHeld(r, index) { // else a late completion is on its way
				taken++
			}
		}
		switch {
		case t.suspect == shelved && t.waiting:
			shelf++
		case t.suspect == lent:
			out++
			if r.sub.IsAvailable(index) {
				ready++
			}
		}
		switch t.reason {
		case journal.Dead:
			dead++
		case journal.Skipped, journal.Forwarded:
			skips++
		}
	}
	inFlight := uint32(0)
	m.holds.Each(&r.holds, func(_ uint32, h *reserver.Hold) bool {
		if taken++; h.Counted {
			inFlight++
		}
		return true
	})
	if inFlight != r.sub.InFlight() || r.sub.Available() != r.sub.Recounted() {
		return fmt.Errorf("submission %s: %d are in flight and %d available; counted are %d and %d", r.id, inFlight,
			r.sub.Recounted(), r.sub.InFlight(), r.sub.Available())
	}
	if waiting != r.waiting || dead != r.dead || skips != r.skips {
		return fmt.Errorf("submission %s: %d wait, %d are dead, %d skipped; counted are %d, %d and %d", r.id, waiting,
			dead, skips, r.waiting, r.dead, r.skips)
	}
	if shelf != r.shelved || out != r.lent || ready != r.ready {
		return fmt.Errorf("submission %s: %d are shelved, %d lent, %d of them not held; counted are %d, %d and %d",
			r.id, shelf, out, ready, r.shelved, r.lent, r.ready)
	}
	if all := uint64(r.sub.Available()) + uint64(taken) + uint64(r.done) + uint64(dead) + uint64(skips); all != uint64(r.chunks) {
		return fmt.Errorf("submission %s: its states sum up to %d of %d chunks", r.id, all, r.chunks)
	}
	return nil
}
