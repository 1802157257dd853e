package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Settings are what operators set for a queue, as callers of its shard see them. What is set now, Options.Set is told.
type Settings struct{ s *Shard }

// adoptSlice is how many settings one batch takes over.
const adoptSlice = 500

// Put sets something, durably: it holds from its commit on. before and after are what the audit log says of it. The caller makes sure
// that no one else sets the same meanwhile.
func (p *Settings) Put(set *journal.Set, before, after any, acts ...queue.Act) error {
	err := p.s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		if set.Kind == journal.SetQueue {
			set.Version = p.s.parts.settings.Queue() + 1
		}
		m.Encode(now).Set(set)
		m.ActLog.Tell(now, acts, before, after)
		return m.Batch.Commit, nil
	})
	if err != nil || set.Kind != journal.SetQueue {
		return err
	}
	return p.durability()
}

// durability has the journal sync as the queue's settings say.
func (p *Settings) durability() (err error) {
	s := p.s
	var log journal.Journal
	var durability queue.Durability
	s.mu.held(func() { log, durability = s.journal, s.m.Settings.Durability })
	return log.SetDurability(durability)
}

// Adopt sets what an older version kept elsewhere, durably, in the order of the list. The settings of the queue go last: once they are
// there, Known says so, and until then it may be done again.
func (p *Settings) Adopt(list []journal.Set) error {
	for len(list) > 0 {
		n := min(len(list), adoptSlice)
		err := p.s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
			for i := range list[:n] {
				m.Encode(now).Set(&list[i])
			}
			return m.Batch.Commit, nil
		})
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// Known says that the settings of the queue are in its journal. In a new queue, and in one that an older version made, they are not.
func (p *Settings) Known() (known bool) {
	p.s.mu.held(func() { known = p.s.parts.settings.Queue() > 0 })
	return known
}

// Strategy is a version of a strategy, if it is kept.
func (p *Settings) Strategy(name string, version uint32) (set journal.Set, found bool) {
	p.s.mu.held(func() { set, found = p.s.parts.settings.Strategy(name, version) })
	return set, found
}
