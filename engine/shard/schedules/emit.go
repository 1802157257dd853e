package schedules

// From a schedule that is due to its submission, in three steps, as the rhythm of a cron spec may
// take long to work out and must not hold the mutex:
//
//	Due      under the mutex: which schedules, with a stamp of each
//	plan     without it: which ticks are due, missed or late
//	decides  under it again: only if the stamp is the same; encodes the op with the insert, in one batch
//
// Because the op and the insert are in one batch, each tick happens once: after a crash both are there or neither is.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// emitMost bounds the ticks of one schedule that one commit emits.
const emitMost = 100

// look is a schedule as it was when it was found due.
type look struct {
	of         *Part
	Sch        *Scheduled
	stamp      uint64
	Rhythm     *Rhythm
	next, asOf queue.Time
}

// Due are the schedules that are to be looked at, by name. Parked ones are left alone.
func (p *Part) Due(now queue.Time, parked map[machine.Action]*machine.Parking) (looks []look) {
	if now < p.earliest {
		return nil
	}
	p.earliest = never
	for _, sch := range p.ByName {
		if sch.Busy != nil || parked[action(sch.Name)] != nil {
			continue // its commit aims it, or a call to Retry
		}
		if sch.LookAt > now {
			p.earliest = min(p.earliest, sch.LookAt)
			continue
		}
		p.earliest = now
		if last := p.m.Live(sch.LastID); last != nil && last.Ending && p.overlaps(sch) {
			continue // in a moment it is known whether it has ended
		}
		if sch.AsOf == 0 || sch.AsOf > now || sch.Next == 0 || sch.Rhythm.due(sch.Next) > sch.AsOf {
			sch.AsOf = now
		}
		looks = append(looks, look{of: p, Sch: sch, stamp: sch.stamp, Rhythm: sch.Rhythm, next: sch.Next,
			asOf: sch.AsOf})
	}
	slices.SortFunc(looks, func(a, b look) int { return strings.Compare(a.Sch.Name, b.Sch.Name) })
	return looks
}

// plan works out which ticks are due.
func (l *look) plan() (p tickPlan, err error) {
	defer func() {
		if broke := recover(); broke != nil {
			err = fmt.Errorf("the schedule broke off: %v", broke)
		}
	}()
	return l.Rhythm.plan(l.next, l.asOf, emitMost), nil
}

// still says whether the schedule of this part has not changed since.
func (l *look) still(p *Part) bool {
	return p == l.of && l.Sch.stamp == l.stamp && l.Sch.Busy == nil && p.ByName[l.Sch.Name] == l.Sch
}

// decides works out the inserts of an emission. false: there are none now.
func (p *Part) decides(e *emission, plan *tickPlan) (changes bool) {
	sch := e.Sch
	if !e.still(p) {
		return false
	}
	if sch.Held = !p.emits(sch); sch.Held {
		sch.AsOf, sch.LookAt = 0, e.now.Add(emitAgain)
		return false
	}
	if e.op, e.ticks, changes = p.decide(sch, plan); !changes {
		p.Aim(sch)
	}
	return changes
}

// action is the life-cycle worker's look at a schedule.
func action(name string) machine.Action {
	return machine.Action{Kind: machine.KindSchedule, Schedule: name}
}

// Occupy notes that the last encoded op decides how a schedule goes on: no other decision about it may be made
// meanwhile.
func (p *Part) Occupy(sch *Scheduled) {
	sch.Busy = p.m.Batch.Commit
	sch.changes++
	p.m.Batch.Intend(occupied{p, sch})
}

type occupied struct {
	p   *Part
	sch *Scheduled
}

func (o occupied) Applied(*machine.Machine) {
	sch := o.sch
	sch.stamp++
	sch.pausing = false
	if sch.changes--; sch.changes == 0 {
		sch.Busy = nil
	}
	o.p.Aim(sch)
}

func (o occupied) Undo(m *machine.Machine) {
	o.sch.AsOf = 0 // it may be long until it is tried again
	if !o.sch.Made && o.p.ByName[o.sch.Name] == o.sch {
		delete(o.p.ByName, o.sch.Name)
	}
	o.Applied(m)
}

// emits says whether the queue takes the schedule's inserts, and no rule covers them.
func (p *Part) emits(sch *Scheduled) bool {
	if p.m.Settings.Draining {
		return false
	}
	if p.m.Quotas.Elsewhere(sch.Rhythm.Def.Template.Meta.GroupOf()) != nil {
		return false
	}
	_, covered := p.m.Joined.Rules.Covering(0, sch.Rhythm.Def.Template.Meta)
	return !covered
}

// decide turns the ticks that are due into those that are emitted now, by the overlap
// policy, and the schedule's state after them.
func (p *Part) decide(sch *Scheduled, plan *tickPlan) (op *journal.Schedule, ticks []queue.Time, changes bool) {
	op = &journal.Schedule{Change: journal.ScheduleTick, Name: sch.Name, Next: plan.next, Waiting: sch.Waiting,
		Last: sch.Last, LastID: sch.LastID, Counts: sch.Counts}
	overlap := sch.Rhythm.Def.Overlap
	open := p.overlaps(sch)
	if op.Waiting != 0 && !open {
		ticks, op.Waiting = append(ticks, op.Waiting), 0
		open = overlap != queue.OverlapAllow
	}
	for _, tick := range plan.ticks {
		switch {
		case !open:
			ticks = append(ticks, tick)
			open = overlap != queue.OverlapAllow
		case overlap == queue.OverlapBufferOne && op.Waiting == 0:
			op.Waiting = tick
		default:
			op.Counts.Overlapped++
		}
	}
	op.Counts.Emitted += uint64(len(ticks))
	op.Counts.Missed += plan.missed
	op.Counts.Late += plan.late
	return op, ticks, len(ticks) > 0 || op.Next != sch.Next || op.Waiting != sch.Waiting || op.Counts != sch.Counts
}

// emitted is the submission that a schedule inserts for a tick.
func emitted(name string, def *queue.Schedule, tick, now queue.Time) *queue.NewSubmission {
	n := Submission(name, def, tick)
	if def.DeadAfter > 0 {
		n.DeadDeadline = now.Add(def.DeadAfter)
	}
	return &n
}

// Submission is the submission that a schedule inserts for a tick, without its dead_deadline.
func Submission(name string, def *queue.Schedule, tick queue.Time) queue.NewSubmission {
	n := def.Template
	n.Schedule, n.Scheduled = name, tick
	for _, text := range []*string{&n.Chunks.Prefix, &n.Chunks.Template} {
		if strings.Contains(*text, queue.ScheduledAtPlaceholder) {
			*text = strings.ReplaceAll(*text, queue.ScheduledAtPlaceholder, tick.Std().Format(time.RFC3339))
		}
	}
	return n
}

// scheduleTotals count ticks by their outcome since the server's start.
type scheduleTotals struct{ queue.ScheduleCounts }

// Add adds the difference between two counts of a schedule.
func (t *scheduleTotals) Add(before, after *queue.ScheduleCounts) {
	t.Emitted += after.Emitted - before.Emitted
	t.Missed += after.Missed - before.Missed
	t.Late += after.Late - before.Late
	t.Overlapped += after.Overlapped - before.Overlapped
}

// This file remembers the last submissions of schedules, for people who look at them. No decision depends on it, so it
// is only in memory: after a restart it has the open submissions and those in the journal, and not those that ended
// before.

// emissionsKept is how many submissions of one schedule are remembered: 24 bytes each.
const emissionsKept = queue.MaxRecent

// Opened notes a submission that a schedule inserted: by a tick, a trigger or a backfill.
func (p *Part) Opened(r *machine.Record) {
	d := r.Details()
	if d.Schedule == "" {
		return
	}
	sch := p.ByName[d.Schedule]
	if sch == nil || r.ID.Time() < sch.Created {
		return // of a deleted schedule, or of an earlier one of the same name
	}
	at, known := slices.BinarySearchFunc(sch.recent, r.ID, byEmission)
	if known {
		sch.recent[at].State = r.State
		return
	}
	if at == 0 && len(sch.recent) == emissionsKept {
		return
	}
	if len(sch.recent) == emissionsKept {
		sch.recent = slices.Delete(sch.recent, 0, 1)
		at--
	}
	sch.recent = slices.Insert(sch.recent, at, queue.Emission{Tick: d.Scheduled, ID: r.ID, State: r.State})
}

func byEmission(e queue.Emission, id queue.SubmissionID) int {
	switch {
	case e.ID < id:
		return -1
	case e.ID > id:
		return 1
	}
	return 0
}

// emittedBefore finds submissions in memory, once everything is replayed.
func (p *Part) emittedBefore() {
	if len(p.ByName) == 0 {
		return
	}
	for _, r := range p.m.Order.List {
		if r != nil {
			p.Opened(r)
		}
	}
}
