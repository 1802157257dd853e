package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Settings are what operators set for a queue, as callers of its shard see them. What is set now, Options.Set is told.
type Settings struct{ s *Shard }

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

// Known reports whether the settings of the queue are in its journal. In a new queue they are not.
func (p *Settings) Known() (known bool) {
	p.s.mu.held(func() { known = p.s.parts.settings.Queue() > 0 })
	return known
}

// Strategy is a version of a strategy, if it is kept.
func (p *Settings) Strategy(name string, version uint32) (set journal.Set, found bool) {
	p.s.mu.held(func() { set, found = p.s.parts.settings.Strategy(name, version) })
	return set, found
}
