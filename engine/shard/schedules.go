package shard

import (
	"encoding/json"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// Schedules are the schedules of a shard, as its callers see them.
type Schedules struct{ s *Shard }

// List lists the schedules, in no useful order.
func (p *Schedules) List() []queue.ScheduleInfo {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]queue.ScheduleInfo, 0, len(s.parts.schedules.ByName))
	for _, sch := range s.parts.schedules.ByName {
		if sch.Made {
			list = append(list, sch.Info())
		}
	}
	return list
}

// Get is one of them.
func (p *Schedules) Get(name string) (queue.ScheduleInfo, error) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if sch := s.parts.schedules.ByName[name]; sch != nil && sch.Made {
		return sch.Info(), nil
	}
	return queue.ScheduleInfo{}, unknownSchedule(name)
}

func unknownSchedule(name string) error {
	return &queue.Error{Code: queue.CodeUnknownSchedule, Message: fmt.Sprintf("The queue has no schedule %q. PUT "+
		"makes it; GET /v1/queues/{queue}/schedules lists those there are.", machine.Clip(name, queue.MaxScheduleNameBytes))}
}

// changing runs fn with the mutex held once no change of the schedule is on its way to the disk, and waits for the commit of what
// it encodes. sch is nil when there is none of the name.
func (p *Schedules) changing(name string, guard schedules.ScheduleGuard,
	fn func(m *machine.Machine, sch *schedules.Scheduled, now queue.Time) error) error {
	s := p.s
	for {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return err
		}
		sch := s.parts.schedules.ByName[name]
		if sch != nil && sch.Busy != nil {
			busy := sch.Busy
			s.mu.Unlock()
			s.writer.kick()
			<-busy.Done
			continue
		}
		err := guard.Ask(sch)
		if err == nil {
			err = fn(s.m, sch, now)
		}
		b := s.writer.pending()
		s.mu.Unlock()
		if err == nil {
			err = s.writer.wait(commit.Set{First: b})
		}
		if err == nil { // what is parked may be fixed by it
			s.mu.Lock()
			delete(s.Worker.blamed, machine.Action{Kind: machine.KindSchedule, Schedule: name})
			s.Worker.unpark(machine.Action{Kind: machine.KindSchedule, Schedule: name})
			s.mu.Unlock()
		}
		return err
	}
}

// Put makes a schedule or defines it again, durably; the definition was checked. The same definition as before changes
// nothing. As long as the rhythm is the same, it goes on where it was; another one begins after now.
func (p *Schedules) Put(name string, def queue.Schedule, guard schedules.ScheduleGuard,
	acts ...queue.Act) (info queue.ScheduleInfo, created bool, err error) {
	err = p.changing(name, guard, func(m *machine.Machine, sch *schedules.Scheduled, now queue.Time) error {
		created = sch == nil
		if created && len(p.s.parts.schedules.ByName) >= queue.MaxSchedules {
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d schedules already, "+
				"the most it keeps. Delete one first.", queue.MaxSchedules)}
		}
		return p.s.parts.schedules.Put(sch, name, def, now, acts)
	})
	if err != nil {
		return info, false, err
	}
	info, err = p.Get(name)
	return info, created, err
}

// Delete removes a schedule, durably. What it inserted stays.
func (p *Schedules) Delete(name string, guard schedules.ScheduleGuard, acts ...queue.Act) error {
	return p.changing(name, guard, func(m *machine.Machine, sch *schedules.Scheduled, now queue.Time) error {
		if sch == nil {
			return unknownSchedule(name)
		}
		m.Encode(now).Schedule(&journal.Schedule{Change: journal.ScheduleDelete, Name: name})
		m.ActLog.Tell(now, acts, json.RawMessage(sch.Text), nil)
		p.s.parts.schedules.Occupy(sch)
		return nil
	})
}

// Switch pauses or resumes a schedule, durably. What it is already is no change. After a pause the ticks that passed are
// missed ones.
func (p *Schedules) Switch(name string, enabled bool, reason string, acts ...queue.Act) (queue.ScheduleInfo, error) {
	err := p.changing(name, nil, func(m *machine.Machine, sch *schedules.Scheduled, now queue.Time) error {
		switch {
		case sch == nil:
			return unknownSchedule(name)
		case sch.Enabled == enabled:
			return nil
		}
		m.Encode(now).Schedule(&journal.Schedule{Change: journal.ScheduleSwitch, Name: name, Version: sch.Version + 1,
			Enabled: enabled, Reason: reason})
		m.ActLog.Tell(now, acts, map[string]bool{"enabled": sch.Enabled}, map[string]bool{"enabled": enabled})
		p.s.parts.schedules.Occupy(sch)
		return nil
	})
	if err != nil {
		return queue.ScheduleInfo{}, err
	}
	return p.Get(name)
}
