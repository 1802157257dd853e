package settings

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// GroupRow is what the shard keeps of a group, also of one that is not here any more. Version 0: nothing.
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

// Leave has a group go to another shard, durably, if nothing of it is open; left says how many submissions are. set is
// the row that the group has then. The caller makes sure that no one else changes the row meanwhile.
//
//	nothing is open ─► nothing more is opened ─► what was decided before is on the disk ─► nothing is open: gone
//
// What was decided before may open something: a redrive is counted when it is applied. So the row is written twice.
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
