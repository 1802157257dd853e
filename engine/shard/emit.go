package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// emitMost bounds the ticks of one schedule that one commit emits.
const emitMost = 100

// emitAgain is how long a schedule is left alone that a rule or a failed write keeps from emitting.
const emitAgain = time.Second

// scheduleLook is a schedule as it was when it was found due.
type scheduleLook struct {
	m          *machine
	sch        *scheduled
	stamp      uint64
	rhythm     *rhythm
	next, asOf queue.Time
}

// due are those that are to be looked at, by name. parked are left alone.
func (p *schedules) due(now queue.Time, parked map[Action]*parking) (looks []scheduleLook) {
	if now < p.earliest {
		return nil
	}
	p.earliest = never
	for _, sch := range p.byName {
		if sch.busy != nil || parked[Action{Kind: KindSchedule, Schedule: sch.name}] != nil {
			continue // its commit aims it, or who has it tried again
		}
		if sch.lookAt > now {
			p.earliest = min(p.earliest, sch.lookAt)
			continue
		}
		p.earliest = now
		if last := p.m.live(sch.lastID); last != nil && last.ending && p.overlaps(sch) {
			continue // in a moment it is known whether it has ended
		}
		if sch.asOf == 0 || sch.asOf > now || sch.next == 0 || sch.rhythm.due(sch.next) > sch.asOf {
			sch.asOf = now
		}
		looks = append(looks, scheduleLook{m: p.m, sch: sch, stamp: sch.stamp, rhythm: sch.rhythm, next: sch.next, asOf: sch.asOf})
	}
	slices.SortFunc(looks, func(a, b scheduleLook) int { return strings.Compare(a.sch.name, b.sch.name) })
	return looks
}

// plan works out which ticks are due.
func (l *scheduleLook) plan() (p tickPlan, err error) {
	defer func() {
		if broke := recover(); broke != nil {
			err = fmt.Errorf("the schedule broke off: %v", broke)
		}
	}()
	return l.rhythm.plan(l.next, l.asOf, emitMost), nil
}

// still says whether nothing happened to the schedule of this machine since.
func (l *scheduleLook) still(m *machine) bool {
	return m == l.m && l.sch.stamp == l.stamp && l.sch.busy == nil && l.m.schedules.byName[l.sch.name] == l.sch
}

// emitOne inserts what one schedule is due for, and says with which batch; nil: with none. alone: nothing else is in it.
//
// Which ticks are due, and the bytes of what is inserted, are worked out without the mutex; then it is made sure that nothing happened
// to the schedule meanwhile, and the inserts and the schedule's new state go into the journal in one batch: after a crash at any
// moment a tick was emitted once, or is still due.
func (p *Schedules) emitOne(l *scheduleLook, now queue.Time, alone bool) *batch {
	s := p.s
	plan, broke := l.plan()
	seed := s.options.Seed()
	s.mu.Lock()
	if broke != nil {
		s.Worker.park(Action{Kind: KindSchedule, Schedule: l.sch.name}, broke, now)
	}
	if broke != nil || s.usable() != nil || !l.still(s.m) {
		s.mu.Unlock()
		return nil
	}
	m, sch := s.m, l.sch
	if !m.schedules.emits(sch) {
		sch.held, sch.asOf, sch.lookAt = true, 0, now.Add(emitAgain)
		s.mu.Unlock()
		return nil
	}
	sch.held = false
	op, ticks, changes := m.schedules.decide(sch, &plan)
	if !changes {
		m.schedules.aim(sch)
		s.mu.Unlock()
		return nil
	}
	m.seed(seed)
	template := &l.rhythm.def.Template
	inserts := make([]*journal.Insert, len(ticks))
	trace, done := p.traceEmission(sch.name, len(ticks))
	var err error
	emitted := 0
	defer func() { done(emitted, err) }()
	for i, tick := range ticks {
		n := emission(sch.name, l.rhythm.def, tick, now)
		n.Trace = trace
		inserts[i] = m.draw(n, now)
		op.Last, op.LastID = tick, inserts[i].ID
	}
	carried, beside := s.contents.packFor(template, len(inserts))
	if beside {
		s.mu.Unlock()
		err = p.writeEmissions(inserts, template)
		s.mu.Lock()
		if err != nil {
			sch.asOf, sch.lookAt = 0, now.Add(emitAgain)
			p.blame(sch.name, err, now)
		}
		if err != nil || s.usable() != nil || !l.still(s.m) || !m.schedules.emits(sch) {
			s.mu.Unlock()
			return nil // what was written is no one's, and is swept away at the next start
		}
	}
	if alone {
		s.writer.seal()
	}
	for _, insert := range inserts {
		m.insert(insert, carried, now)
	}
	m.encode(now).Schedule(op)
	m.schedules.occupy(sch)
	emitted = len(inserts)
	b := m.batch
	if alone {
		s.writer.seal()
	}
	s.mu.Unlock()
	s.writer.kick()
	return b
}

// traceEmission begins the span of what is inserted for ticks, if there are any and anyone wants it.
func (p *Schedules) traceEmission(name string, ticks int) (trace string, done func(n int, err error)) {
	if ticks > 0 && p.s.options.Emitting != nil {
		if span := p.s.options.Emitting(name); span != nil {
			return span.Context(), span.End
		}
	}
	return "", func(int, error) {}
}

// occupy notes that the op that was encoded last decides how a schedule goes on: nothing else may be decided about it meanwhile.
func (p *schedules) occupy(sch *scheduled) {
	sch.busy = p.m.batch
	sch.changes++
	p.m.intend((*occupied)(sch))
}

type occupied scheduled

func (sch *occupied) Applied(m *machine) {
	sch.stamp++
	sch.pausing = false
	if sch.changes--; sch.changes == 0 {
		sch.busy = nil
	}
	m.schedules.aim((*scheduled)(sch))
}

func (sch *occupied) Undo(m *machine) {
	sch.asOf = 0 // it may be long until it is tried again
	if !sch.made && m.schedules.byName[sch.name] == (*scheduled)(sch) {
		delete(m.schedules.byName, sch.name)
	}
	sch.Applied(m)
}

// emits says whether the queue takes what the schedule inserts, and no rule keeps it from being worked on.
func (p *schedules) emits(sch *scheduled) bool {
	if p.m.settings.Draining {
		return false
	}
	_, covered := p.m.rules.Covering(0, sch.rhythm.def.Template.Meta)
	return !covered
}

// decide turns the ticks that are due into those that are emitted now, by the overlap policy, and the schedule's state after them.
func (p *schedules) decide(sch *scheduled, plan *tickPlan) (op *journal.Schedule, ticks []queue.Time, changes bool) {
	op = &journal.Schedule{Change: journal.ScheduleTick, Name: sch.name, Next: plan.next, Waiting: sch.waiting,
		Last: sch.last, LastID: sch.lastID, Counts: sch.counts}
	overlap := sch.rhythm.def.Overlap
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
	return op, ticks, len(ticks) > 0 || op.Next != sch.next || op.Waiting != sch.waiting || op.Counts != sch.counts
}

// emission is what a schedule inserts for a tick.
func emission(name string, def *queue.Schedule, tick, now queue.Time) *queue.NewSubmission {
	n := ScheduledSubmission(name, def, tick)
	if def.DeadAfter > 0 {
		n.DeadDeadline = now.Add(def.DeadAfter)
	}
	return &n
}

// ScheduledSubmission is what a schedule inserts for a tick, without its dead_deadline.
func ScheduledSubmission(name string, def *queue.Schedule, tick queue.Time) queue.NewSubmission {
	n := def.Template
	n.Schedule, n.Scheduled = name, tick
	for _, text := range []*string{&n.Chunks.Prefix, &n.Chunks.Template} {
		if strings.Contains(*text, queue.ScheduledAtPlaceholder) {
			*text = strings.ReplaceAll(*text, queue.ScheduledAtPlaceholder, tick.Std().Format(time.RFC3339))
		}
	}
	return n
}

func (p *Schedules) writeEmissions(inserts []*journal.Insert, template *queue.NewSubmission) error {
	for _, insert := range inserts {
		if err := p.s.contents.write(context.Background(), insert.Seq, template); err != nil {
			return err
		}
	}
	return nil
}

// scheduleTotals count what became of ticks since the server's start.
type scheduleTotals struct{ queue.ScheduleCounts }

func (t *scheduleTotals) add(before, after *queue.ScheduleCounts) {
	t.Emitted += after.Emitted - before.Emitted
	t.Missed += after.Missed - before.Missed
	t.Late += after.Late - before.Late
	t.Overlapped += after.Overlapped - before.Overlapped
}
