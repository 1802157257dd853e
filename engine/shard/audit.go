package shard

import (
	"errors"
	"fmt"
	"maps"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Audit counts everything again and compares it with the counters that are kept; the error
// names every difference. It holds the mutex for as long as it walks over all submissions:
// for tests and for looking into trouble.
func (s *Shard) Audit() error {
	return (*doors)(s).Locked(func(m *machine.Machine, _ queue.Time) error {
		return errors.Join(audit.Machine(m), s.roster.Audit(), s.auditIntents())
	})
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
