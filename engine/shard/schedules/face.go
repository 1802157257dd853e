package schedules

import (
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// This file has the calls about schedules.

// Schedules are the schedules of a shard, as its callers and its worker see them.
type Schedules struct {
	shell.Door[*Part]
	book  *trouble.Book // of the worker; the shard's mutex guards it
	means Means
}

// Face is the schedules of a shard, whose worker has the book.
func Face(door shell.Door[*Part], book *trouble.Book, means Means) *Schedules {
	return &Schedules{Door: door, book: book, means: means}
}

// List lists the schedules, in no useful order.
func (s *Schedules) List() (list []queue.ScheduleInfo) {
	s.Look(func(*machine.Machine) {
		list = make([]queue.ScheduleInfo, 0, len(s.Part().ByName))
		for _, sch := range s.Part().ByName {
			if sch.Made {
				list = append(list, sch.Info())
			}
		}
	})
	return list
}

// Get returns a schedule.
func (s *Schedules) Get(name string) (info queue.ScheduleInfo, err error) {
	s.Look(func(*machine.Machine) {
		sch := s.Part().ByName[name]
		if sch == nil || !sch.Made {
			err = unknown(name)
			return
		}
		info = sch.Info()
	})
	return info, err
}

func unknown(name string) error {
	return &queue.Error{Code: queue.CodeUnknownSchedule, Message: fmt.Sprintf("The queue has no schedule %q. PUT "+
		"makes it; GET /v1/queues/{queue}/schedules lists the queue's schedules.",
		machine.Clip(name, queue.MaxScheduleNameBytes))}
}

// changing calls fn once no change of the schedule is on its way to the disk, and waits for the commit. sch is nil when
// there is none of the name. fn is called with the mutex held. Changes of a schedule are made one at a time: each
// builds on the result of the last one, which is known when that is applied.
func (s *Schedules) changing(name string, guard Guard, fn func(p *Part, sch *Scheduled, now queue.Time) error) error {
	for {
		busy := false
		err := shell.Change(s, func(_ *machine.Machine, now queue.Time) error {
			sch := s.Part().ByName[name]
			if busy = sch != nil && sch.Busy != nil; busy {
				return nil // the change is in a batch that Change waits for
			}
			if err := guard.Ask(sch); err != nil {
				return err
			}
			return fn(s.Part(), sch, now)
		})
		switch {
		case busy: // whatever the result of that change
		case err != nil:
			return err
		default:
			s.Look(func(m *machine.Machine) { // the change may fix a parked action
				s.book.Clear(action(name))
				s.book.Unpark(m, action(name))
			})
			return nil
		}
	}
}

// Put makes a schedule or defines it again, durably; the definition was checked. The same definition as before changes
// nothing. With the same rhythm it goes on where it was; another rhythm begins after now.
func (s *Schedules) Put(name string, def queue.Schedule, guard Guard,
	acts ...queue.Act) (info queue.ScheduleInfo, created bool, err error) {
	err = s.changing(name, guard, func(p *Part, sch *Scheduled, now queue.Time) error {
		created = sch == nil
		return p.put(sch, name, def, now, acts)
	})
	if err != nil {
		return info, false, err
	}
	info, err = s.Get(name)
	return info, created, err
}

// Delete removes a schedule, durably. Its submissions stay.
func (s *Schedules) Delete(name string, guard Guard, acts ...queue.Act) error {
	return s.changing(name, guard, func(p *Part, sch *Scheduled, now queue.Time) error {
		if sch == nil {
			return unknown(name)
		}
		p.remove(sch, now, acts)
		return nil
	})
}

// Switch pauses or resumes a schedule, durably. If that is its state already, nothing changes. Ticks that passed during
// a pause are missed ones.
func (s *Schedules) Switch(name string, enabled bool, reason string, acts ...queue.Act) (queue.ScheduleInfo, error) {
	err := s.changing(name, nil, func(p *Part, sch *Scheduled, now queue.Time) error {
		if sch == nil {
			return unknown(name)
		}
		p.turn(sch, enabled, reason, now, acts)
		return nil
	})
	if err != nil {
		return queue.ScheduleInfo{}, err
	}
	return s.Get(name)
}
