package settings

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Settings are what operators set for a queue, as callers of its shard see them. What is
// set now, Part.Report is told.
type Settings struct {
	shell.Door[*Part]
	durability func() error // has the journal sync as the queue's settings say
}

// Face is what callers ask. durability has the journal sync as the queue's settings say;
// it takes the mutex.
func Face(door shell.Door[*Part], durability func() error) *Settings {
	return &Settings{door, durability}
}

// Put sets something, durably: it holds from its commit on. before and after are what the
// audit log says of it. The caller makes sure that no one else sets the same meanwhile.
func (s *Settings) Put(set *journal.Set, before, after any, acts ...queue.Act) error {
	err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		if set.Kind == journal.SetQueue {
			set.Version = s.Part().Queue() + 1
		}
		m.Encode(now).Set(set)
		m.ActLog.Tell(now, acts, before, after)
		return nil
	})
	if err != nil || set.Kind != journal.SetQueue {
		return err
	}
	return s.durability()
}

// Known reports whether the settings of the queue are in its journal. In a new queue they are not.
func (s *Settings) Known() (known bool) {
	s.Look(func(*machine.Machine) { known = s.Part().Queue() > 0 })
	return known
}

// Strategy is a version of a strategy, if it is kept.
func (s *Settings) Strategy(name string, version uint32) (set journal.Set, found bool) {
	s.Look(func(*machine.Machine) { set, found = s.Part().Strategy(name, version) })
	return set, found
}
