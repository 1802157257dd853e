package schedules

import (
	"encoding/json"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Guard decides whether a change of a schedule may go on, by the schedule's present state (exists false: there is
// none). It is called with the shard's mutex held: it must be quick, and must not call the shard. nil lets everything
// pass.
type Guard func(now *queue.ScheduleInfo, exists bool) error

// Ask asks the guard about a schedule; nil: there is none of its name.
func (g Guard) Ask(sch *Scheduled) error {
	switch {
	case g == nil:
		return nil
	case sch == nil:
		return g(nil, false)
	}
	info := sch.Info()
	return g(&info, true)
}

// put encodes a definition, with the place at which its rhythm goes on. sch is nil when there is no schedule of the
// name. The anchor is part of the definition that is stored, so `@every` counts from the same moment after a restart,
// and after a change that leaves the rhythm as it is.
func (p *Part) put(sch *Scheduled, name string, def queue.Schedule, now queue.Time, acts []queue.Act) error {
	if sch == nil && len(p.ByName) >= queue.MaxSchedules {
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d schedules already, "+
			"the most it keeps. Delete one first.", queue.MaxSchedules)}
	}
	same := sch != nil && sameRhythm(sch.Rhythm.Def, &def)
	switch {
	case same:
		def.Anchor = sch.Rhythm.Def.Anchor
	case def.Start != 0:
		def.Anchor = def.Start
	default:
		def.Anchor = now
	}
	text, err := journal.EncodeDefinition(&def)
	if err != nil {
		return err
	}
	if sch != nil && sch.Text == text && sch.Enabled == def.Enabled {
		return nil
	}
	op := &journal.Schedule{Change: journal.SchedulePut, Name: name, Version: 1, Definition: text, Enabled: def.Enabled}
	if sch != nil {
		op.Version, op.Waiting = sch.Version+1, sch.Waiting
		if !def.Enabled && !sch.Enabled {
			op.Reason = sch.Reason
		}
	} else if def.RunOnCreate {
		op.Waiting = now
	}
	if same && sch.broken == nil {
		op.Next = sch.Next
	} else {
		x, err := newRhythm(name, &def)
		if err != nil {
			return err
		}
		op.Next = x.first(now)
	}
	var before any
	if sch != nil {
		before, acts = json.RawMessage(sch.Text), machine.Named(acts, "schedule.change")
	} else {
		sch = &Scheduled{Name: name, LookAt: never, Rhythm: &Rhythm{Def: &def}}
		p.ByName[name] = sch
	}
	p.m.Encode(now).Schedule(op)
	p.m.ActLog.Tell(now, acts, before, json.RawMessage(text))
	p.Occupy(sch)
	return nil
}

// remove encodes the end of a schedule.
// Submissions that it inserted stay, and keep its name: they are work that someone may wait for.
func (p *Part) remove(sch *Scheduled, now queue.Time, acts []queue.Act) {
	p.m.Encode(now).Schedule(&journal.Schedule{Change: journal.ScheduleDelete, Name: sch.Name})
	p.m.ActLog.Tell(now, acts, json.RawMessage(sch.Text), nil)
	p.Occupy(sch)
}

// turn encodes that a schedule is paused or resumed, unless it already is. Pausing twice changes nothing and writes
// nothing. In particular, it keeps the reason of the first pause, which may be that of the server after a failure.
func (p *Part) turn(sch *Scheduled, enabled bool, reason string, now queue.Time, acts []queue.Act) {
	if sch.Enabled == enabled {
		return
	}
	p.m.Encode(now).Schedule(&journal.Schedule{Change: journal.ScheduleSwitch, Name: sch.Name, Version: sch.Version + 1,
		Enabled: enabled, Reason: reason})
	p.m.ActLog.Tell(now, acts, map[string]bool{"enabled": sch.Enabled}, map[string]bool{"enabled": enabled})
	p.Occupy(sch)
}

// sameRhythm says whether two definitions have the same ticks. Jitter does not matter: it moves ticks, and does not
// make other ones.
func sameRhythm(a, b *queue.Schedule) bool {
	return a.Spec == b.Spec && a.Seconds == b.Seconds && a.Zone == b.Zone && a.Start == b.Start && a.End == b.End
}
