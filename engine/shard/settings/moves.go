package settings

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// GroupRow is the row of a group, also of one that has moved away. Version 0: there is none.
func (s *Settings) GroupRow(name string) (set journal.Set) {
	s.Look(func(*machine.Machine) { set = s.Part().row(name) })
	return set
}

func (p *Part) row(name string) journal.Set {
	if r := p.groups[name]; r != nil {
		return r.set
	}
	return journal.Set{Kind: journal.SetGroup, Name: name}
}

// Moving are the rows of groups that are to go to another shard, and of those that went.
func (s *Settings) Moving() (going, gone []journal.Set) {
	s.Look(func(*machine.Machine) {
		for _, r := range s.Part().groups {
			switch {
			case r.set.Moves.Gone:
				gone = append(gone, r.set)
			case r.set.Moves.To > 0:
				going = append(going, r.set)
			}
		}
	})
	return going, gone
}

// Leave moves a group to another shard, durably, if none of its submissions is open; left says how many are. set is the
// new row of the group. The caller makes sure that no one else changes the row meanwhile.
//
//	nothing is open ─► nothing more is opened ─► earlier decisions are on the disk ─► nothing is open: gone
//
// Earlier decisions may still open submissions: a redrive is counted only when it is applied. So the row is written
// twice.
func (s *Settings) Leave(set *journal.Set) (left uint64, err error) {
	to, leaves := set.Moves.To, false
	err = shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		left = m.Quotas.Use(set.Name).Submissions
		if leaves = m.Quotas.Leaves(set.Name, to, now); leaves {
			going := s.Part().row(set.Name)
			if going.Version == 0 {
				going.Version, going.Changed, going.Moves.Unset = 1, now, true
			}
			going.Moves.To = to
			m.Encode(now).Set(&going)
		}
		return nil
	})
	if err != nil || !leaves {
		s.Look(func(m *machine.Machine) { m.Quotas.Stays(set.Name) })
		return left, err
	}
	went := false
	err = shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		if went = m.Quotas.Left(set.Name); went {
			m.Encode(now).Set(set)
		}
		return nil
	})
	if !went || err != nil {
		s.Look(func(m *machine.Machine) {
			m.Quotas.Stays(set.Name)
			left = m.Quotas.Use(set.Name).Submissions
		})
	}
	return left, err
}
