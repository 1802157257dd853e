package shard

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// emitAgain is how long a schedule is left alone that a rule or a failed write keeps from emitting.
const emitAgain = time.Second

// emitOne inserts what one schedule is due for, and says with which batch; nil: with none. alone: nothing else is in it.
//
// Which ticks are due, and the bytes of what is inserted, are worked out without the mutex; then it is made sure that nothing happened
// to the schedule meanwhile, and the inserts and the schedule's new state go into the journal in one batch: after a crash at any
// moment a tick was emitted once, or is still due.
func (p *Schedules) emitOne(l *schedules.ScheduleLook, now queue.Time, alone bool) *commit.Commit {
	s := p.s
	plan, broke := l.Plan()
	seed := s.options.Seed()
	s.mu.Lock()
	if broke != nil {
		s.Worker.park(machine.Action{Kind: machine.KindSchedule, Schedule: l.Sch.Name}, broke, now)
	}
	if broke != nil || s.usable() != nil || !l.Still(s.parts.schedules) {
		s.mu.Unlock()
		return nil
	}
	m, sch := s.m, l.Sch
	if !s.parts.schedules.Emits(sch) {
		sch.Held, sch.AsOf, sch.LookAt = true, 0, now.Add(emitAgain)
		s.mu.Unlock()
		return nil
	}
	sch.Held = false
	op, ticks, changes := s.parts.schedules.Decide(sch, &plan)
	if !changes {
		s.parts.schedules.Aim(sch)
		s.mu.Unlock()
		return nil
	}
	m.Seed(seed)
	template := &l.Rhythm.Def.Template
	inserts := make([]*journal.Insert, len(ticks))
	trace, done := p.traceEmission(sch.Name, len(ticks))
	var err error
	emitted := 0
	defer func() { done(emitted, err) }()
	for i, tick := range ticks {
		n := schedules.Emission(sch.Name, l.Rhythm.Def, tick, now)
		n.Trace = trace
		inserts[i] = m.Draw(n, now)
		op.Last, op.LastID = tick, inserts[i].ID
	}
	carried, beside := s.contents.pack(template, len(inserts))
	if beside {
		s.mu.Unlock()
		err = p.writeEmissions(inserts, template)
		s.mu.Lock()
		if err != nil {
			sch.AsOf, sch.LookAt = 0, now.Add(emitAgain)
			p.blame(sch.Name, err, now)
		}
		if err != nil || s.usable() != nil || !l.Still(s.parts.schedules) || !s.parts.schedules.Emits(sch) {
			s.mu.Unlock()
			return nil // what was written is no one's, and is swept away at the next start
		}
	}
	if alone {
		s.writer.seal()
	}
	for _, insert := range inserts {
		m.Insert(insert, carried, now)
	}
	m.Encode(now).Schedule(op)
	s.parts.schedules.Occupy(sch)
	emitted = len(inserts)
	b := m.Batch.Commit
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

func (p *Schedules) writeEmissions(inserts []*journal.Insert, template *queue.NewSubmission) error {
	for _, insert := range inserts {
		if err := p.s.contents.write(context.Background(), insert.Seq, template); err != nil {
			return err
		}
	}
	return nil
}
