package shard

import (
	"errors"
	"fmt"
	"maps"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Audit counts everything again and compares it with the counters that are kept; the error names every difference. It holds the
// mutex for as long as it walks over all submissions: for tests and for looking into trouble.
func (s *Shard) Audit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	return errors.Join(audit.Machine(s.m), s.auditCounts(), s.auditIntents())
}

// auditIntents: when nothing is on its way to the disk, no intent has left a mark.
func (s *Shard) auditIntents() error {
	if s.writer.pending() != nil {
		return nil
	}
	m := s.m
	left := map[string]int{"intents": len(m.Batch.Intents.List), "reservations to finish": len(m.Batch.Marked),
		"submissions about to end": m.Endings.Closing}
	m.Intended(func(what string, n int) { left[what] += n })
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		if r := sub.Data.(*machine.Record); r.Dying != 0 || r.Ending {
			left[fmt.Sprintf("chunks about to die, or the end, of submission %s", r.ID)]++
		}
		return true
	})
	maps.DeleteFunc(left, func(_ string, n int) bool { return n == 0 })
	if len(left) > 0 {
		return fmt.Errorf("nothing is on its way to the disk, but there are still %v", left)
	}
	return nil
}

// auditCounts counts consumers.
func (s *Shard) auditCounts() error {
	attached, gone := 0, 0
	for _, c := range s.roster.List {
		if len(c.Streams) > 0 {
			attached++
		}
		if c.Away != 0 {
			gone++
		}
	}
	if attached != s.roster.Attached || gone != s.roster.Gone {
		return fmt.Errorf("consumers attached %d and away %d are counted as %d and %d", attached, gone, s.roster.Attached, s.roster.Gone)
	}
	return nil
}
