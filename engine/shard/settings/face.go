package settings

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Settings are the calls about the settings of a queue. Part.Report gets the present settings.
type Settings struct {
	shell.Door[*Part]
	durability func() error // makes the journal sync as the queue's settings say
}

// Face has the calls about settings. durability makes the journal sync as the queue's settings say; it takes the mutex.
func Face(door shell.Door[*Part], durability func() error) *Settings {
	return &Settings{door, durability}
}

// Put changes a setting, durably: it holds from its commit on. before and after are for the audit log. The caller makes
// sure that no one else changes the same setting meanwhile.
func (s *Settings) Put(set *journal.Set, before, after any, acts ...queue.Act) error {
	return s.put(set, before, after, acts, func(*machine.Machine) error { return nil })
}

// DeleteGroup is Put of the removal of a group, and refuses it while submissions of the group are open.
func (s *Settings) DeleteGroup(set *journal.Set, before any, acts ...queue.Act) error {
	return s.put(set, before, nil, acts, func(m *machine.Machine) error {
		if open := m.Quotas.Use(set.Name).Submissions; open > 0 {
			return &queue.Error{Code: queue.CodeConflict, Message: "The group has " +
				queue.Exactly(uint64(open), "open submission") + ". A group can be deleted when none is open."}
		}
		return nil
	})
}

func (s *Settings) put(set *journal.Set, before, after any, acts []queue.Act,
	allow func(*machine.Machine) error) error {
	err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		if err := allow(m); err != nil {
			return err
		}
		m.Quotas.Watch(set.Entry.Key, set.Demand.Quota)
		if set.Kind == journal.SetQueue {
			set.Version = s.Part().Queue() + 1
			settings, err := queue.SettingsOf(set.Settings)
			if err != nil {
				return err
			}
			m.Quotas.Watch("", settings.Quota())
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

// Group is a group that someone created.
func (s *Settings) Group(name string) (set journal.Set, created bool) {
	s.Look(func(*machine.Machine) { set, created = s.Part().Group(name) })
	return set, created
}

// Groups are the groups that someone created, in no order.
func (s *Settings) Groups() (names []string) {
	s.Look(func(*machine.Machine) {
		for name, r := range s.Part().groups {
			if isHere(&r.set) {
				names = append(names, name)
			}
		}
	})
	return names
}

// Deleted says that a group was deleted, and that no one created it since.
func (s *Settings) Deleted(group string) (is bool) {
	s.Look(func(*machine.Machine) {
		r := s.Part().groups[group]
		is = r != nil && r.set.Deleted
	})
	return is
}

// Use is the open work of a group.
func (s *Settings) Use(group string) (use queue.Quota) {
	s.Look(func(m *machine.Machine) { use = m.Quotas.Use(group) })
	return use
}

// Strategy is a version of a strategy, if it is kept.
func (s *Settings) Strategy(name string, version uint32) (set journal.Set, found bool) {
	s.Look(func(*machine.Machine) { set, found = s.Part().Strategy(name, version) })
	return set, found
}
