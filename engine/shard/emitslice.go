package shard

import (
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// This file is the worker's kind of schedules. It takes the mutex several times, so it stands beside the other kinds. What all
// schedules are due for goes into one commit, as long as that comes through. After a failure they are taken one at a time, each in a
// batch of its own, until nothing is due any more: so the one that is to blame shows by itself, and the others emit.

// emit is a slice of what schedules insert. more: there may be others that are late.
func (p *Schedules) emit() (more bool) {
	s := p.s
	t, now := &s.Worker.kinds[machine.KindSchedule], s.now()
	s.mu.Lock()
	if !t.may(now) || s.usable() != nil || s.full.Load() {
		s.mu.Unlock()
		return false
	}
	alone := t.limit > 0
	looks := s.parts.schedules.Due(now, s.Worker.parked)
	s.mu.Unlock()
	var waits commit.Set
	n := 0
	for i := range looks {
		b := p.emitOne(&looks[i], now, alone)
		if b == nil {
			continue
		}
		waits.Add(b)
		if n++; alone {
			return p.emittedAlone(&looks[i], waits, now)
		}
	}
	err := s.writer.wait(waits)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n == 0:
		t.pass(now, 0) // nothing is due, so nothing is under suspicion
		return false
	case err != nil:
		t.fail(err, now, s.options.Seed())
		if !errors.Is(err, journal.ErrFull) {
			t.limit = 1
		}
		return false
	}
	t.pass(now, n)
	s.m.Stats.Acts[machine.KindSchedule].Done += uint64(n)
	s.Worker.slices++
	return true
}

// emittedAlone waits for what one schedule inserts while one of them is looked for that fails.
func (p *Schedules) emittedAlone(l *schedules.ScheduleLook, waits commit.Set, now queue.Time) (ok bool) {
	s := p.s
	t, err := &s.Worker.kinds[machine.KindSchedule], s.writer.wait(waits)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		t.fail(err, now, s.options.Seed())
		p.blame(l.Sch.Name, err, now)
		return false
	}
	t.pass(now, 1)
	t.limit = 1 // as long as others are due
	delete(s.Worker.blamed, machine.Action{Kind: machine.KindSchedule, Schedule: l.Sch.Name})
	s.m.Stats.Acts[machine.KindSchedule].Done++
	s.Worker.slices++
	return true
}

// blame notes that a schedule failed by itself, and parks it if it did so again and again. The mutex is held.
func (p *Schedules) blame(name string, err error, now queue.Time) {
	s := p.s
	s.options.Logger.Error("what a schedule inserts cannot be written; it is tried again", "queue", s.options.Queue,
		"schedule", name, "error", err)
	s.Worker.blame(machine.Action{Kind: machine.KindSchedule, Schedule: name}, err, now)
}
