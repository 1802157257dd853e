package shard

import (
	"encoding/json"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// ScheduleGuard decides whether a change of a schedule may go on, seeing what is there now (exists false: nothing is). It is called
// with the shard's mutex held: it must be quick, and must not call the shard. nil lets everything pass.
type ScheduleGuard func(now *queue.ScheduleInfo, exists bool) error

// Schedules are the schedules of a shard, as its callers see them.
type Schedules struct{ s *Shard }

// List lists the schedules, in no useful order.
func (p *Schedules) List() []queue.ScheduleInfo {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]queue.ScheduleInfo, 0, len(s.m.schedules.byName))
	for _, sch := range s.m.schedules.byName {
		if sch.made {
			list = append(list, sch.info())
		}
	}
	return list
}

// Get is one of them.
func (p *Schedules) Get(name string) (queue.ScheduleInfo, error) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if sch := s.m.schedules.byName[name]; sch != nil && sch.made {
		return sch.info(), nil
	}
	return queue.ScheduleInfo{}, unknownSchedule(name)
}

func unknownSchedule(name string) error {
	return &queue.Error{Code: queue.CodeUnknownSchedule, Message: fmt.Sprintf("The queue has no schedule %q. PUT "+
		"makes it; GET /v1/queues/{queue}/schedules lists those there are.", clip(name, queue.MaxScheduleNameBytes))}
}

// changing runs fn with the mutex held once no change of the schedule is on its way to the disk, and waits for the commit of what
// it encodes. sch is nil when there is none of the name.
func (p *Schedules) changing(name string, guard ScheduleGuard, fn func(m *machine, sch *scheduled, now queue.Time) error) error {
	s := p.s
	for {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return err
		}
		sch := s.m.schedules.byName[name]
		if sch != nil && sch.busy != nil {
			busy := sch.busy
			s.mu.Unlock()
			s.writer.kick()
			<-busy.done
			continue
		}
		err := guard.ask(sch)
		if err == nil {
			err = fn(s.m, sch, now)
		}
		b := s.writer.pending()
		s.mu.Unlock()
		if err == nil {
			err = s.writer.wait(commits{first: b})
		}
		if err == nil { // what is parked may be fixed by it
			s.mu.Lock()
			delete(s.Worker.blamed, Action{Kind: KindSchedule, Schedule: name})
			s.Worker.unpark(Action{Kind: KindSchedule, Schedule: name})
			s.mu.Unlock()
		}
		return err
	}
}

func (g ScheduleGuard) ask(sch *scheduled) error {
	switch {
	case g == nil:
		return nil
	case sch == nil:
		return g(nil, false)
	}
	info := sch.info()
	return g(&info, true)
}

// Put makes a schedule or defines it again, durably; the definition was checked. The same definition as before changes
// nothing. As long as the rhythm is the same, it goes on where it was; another one begins after now.
func (p *Schedules) Put(name string, def queue.Schedule, guard ScheduleGuard,
	acts ...queue.Act) (info queue.ScheduleInfo, created bool, err error) {
	err = p.changing(name, guard, func(m *machine, sch *scheduled, now queue.Time) error {
		created = sch == nil
		if created && len(m.schedules.byName) >= queue.MaxSchedules {
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d schedules already, "+
				"the most it keeps. Delete one first.", queue.MaxSchedules)}
		}
		return m.schedules.put(sch, name, def, now, acts)
	})
	if err != nil {
		return info, false, err
	}
	info, err = p.Get(name)
	return info, created, err
}

func (p *schedules) put(sch *scheduled, name string, def queue.Schedule, now queue.Time, acts []queue.Act) error {
	same := sch != nil && sameRhythm(sch.rhythm.def, &def)
	switch {
	case same:
		def.Anchor = sch.rhythm.def.Anchor
	case def.Start != 0:
		def.Anchor = def.Start
	default:
		def.Anchor = now
	}
	text, err := journal.EncodeDefinition(&def)
	if err != nil {
		return err
	}
	if sch != nil && sch.text == text && sch.enabled == def.Enabled {
		return nil
	}
	op := &journal.Schedule{Change: journal.SchedulePut, Name: name, Version: 1, Definition: text, Enabled: def.Enabled}
	if sch != nil {
		op.Version, op.Waiting = sch.version+1, sch.waiting
		if !def.Enabled && !sch.enabled {
			op.Reason = sch.reason
		}
	} else if def.RunOnCreate {
		op.Waiting = now
	}
	if same && sch.broken == nil {
		op.Next = sch.next
	} else {
		x, err := newRhythm(name, &def)
		if err != nil {
			return err
		}
		op.Next = x.first(now)
	}
	var before any
	if sch != nil {
		before, acts = json.RawMessage(sch.text), named(acts, "schedule.change")
	} else {
		sch = &scheduled{name: name, lookAt: never, rhythm: &rhythm{def: &def}}
		p.byName[name] = sch
	}
	p.m.encode(now).Schedule(op)
	p.m.actLog.tell(now, acts, before, json.RawMessage(text))
	p.occupy(sch)
	return nil
}

// sameRhythm says whether two definitions have the same ticks.
func sameRhythm(a, b *queue.Schedule) bool {
	return a.Spec == b.Spec && a.Seconds == b.Seconds && a.Zone == b.Zone && a.Start == b.Start && a.End == b.End
}

// Delete removes a schedule, durably. What it inserted stays.
func (p *Schedules) Delete(name string, guard ScheduleGuard, acts ...queue.Act) error {
	return p.changing(name, guard, func(m *machine, sch *scheduled, now queue.Time) error {
		if sch == nil {
			return unknownSchedule(name)
		}
		m.encode(now).Schedule(&journal.Schedule{Change: journal.ScheduleDelete, Name: name})
		m.actLog.tell(now, acts, json.RawMessage(sch.text), nil)
		m.schedules.occupy(sch)
		return nil
	})
}

// Switch pauses or resumes a schedule, durably. What it is already is no change. After a pause the ticks that passed are
// missed ones.
func (p *Schedules) Switch(name string, enabled bool, reason string, acts ...queue.Act) (queue.ScheduleInfo, error) {
	err := p.changing(name, nil, func(m *machine, sch *scheduled, now queue.Time) error {
		switch {
		case sch == nil:
			return unknownSchedule(name)
		case sch.enabled == enabled:
			return nil
		}
		m.encode(now).Schedule(&journal.Schedule{Change: journal.ScheduleSwitch, Name: name, Version: sch.version + 1,
			Enabled: enabled, Reason: reason})
		m.actLog.tell(now, acts, map[string]bool{"enabled": sch.enabled}, map[string]bool{"enabled": enabled})
		m.schedules.occupy(sch)
		return nil
	})
	if err != nil {
		return queue.ScheduleInfo{}, err
	}
	return p.Get(name)
}
