package shard

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Acts are the entries of the audit log that lie in a shard's journal.
type Acts struct{ s *Shard }

// Record makes an entry of the audit log durable by itself, for acts that change only what memory has. after is what it says of the
// outcome; nil: nothing.
func (p *Acts) Record(act queue.Act, after any) error {
	return p.s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		m.ActLog.Tell(now, []queue.Act{act}, nil, after)
		return m.Batch.Commit, nil
	})
}

// Fresh are the entries that the audit log does not have yet, the oldest first. The list must not be changed.
func (p *Acts) Fresh() []journal.Act {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.m.ActLog.Fresh)
}

// acts hands what is not in the audit log yet over to it.
func (p *checkpointer) acts(ctx context.Context, m *machine.Machine) error {
	s := p.s
	fresh := s.Acts.Fresh()
	if len(fresh) == 0 || s.options.Audit.Put == nil {
		return nil
	}
	if err := s.disk.roomy(func() error { return s.options.Audit.Put(ctx, fresh) }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == m { // else a reload has them again, and the log takes each once
		m.ActLog.Fresh = slices.Clone(m.ActLog.Fresh[len(fresh):])
	}
	return nil
}
