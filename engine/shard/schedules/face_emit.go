package schedules

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file is the worker's kind of schedules. It takes the mutex several times, so it runs beside the other kinds. All
// due schedules share one commit, as long as that succeeds. After a failure they are taken one at a time, each in a
// batch of its own, until nothing is due any more: so the faulty one is found, and the others emit.

// emitAgain is how long a schedule is left alone after a rule or a failed write kept it from emitting.
const emitAgain = time.Second

// Means are the functions of a shard that inserting needs.
type Means struct {
	Full func() bool // inserts are refused for want of room on the disk
	// Room waits until the bytes of a submission may join those that wait for a checkpoint.
	Room func(n *queue.NewSubmission) error
	// Pack makes the op that carries the bytes of `times` submissions with the same contents; nil: they have no bytes.
	// large: there are too many for an op, and they have to be blobs.
	Pack  func(n *queue.NewSubmission, times int) (op *journal.Contents, large bool)
	Blobs Blobs
	Trace func(schedule string) Span // begins the span of an emission; nil: no one traces
}

// Blobs puts bytes that are too many for an op before the inserts that name them.
type Blobs interface {
	// Begin comes before Put, and its end after the commit of the inserts.
	Begin() (end func())
	// Put stores the bytes of a submission for each of the inserts, and has these name
	// them. The mutex is not held.
	Put(ctx context.Context, inserts []*journal.Insert, of *queue.NewSubmission) error
	// Discard deletes the blobs of inserts that were not made. The mutex is not held.
	Discard(inserts []*journal.Insert)
}

// Span is a traced piece of work. End says how much was done, and the error.
type Span interface {
	Context() string // W3C traceparent, optionally followed by ";" and tracestate
	End(n int, err error)
}

// RunDue inserts the submissions of the ticks that are due.
func (s *Schedules) RunDue() {
	for s.emit() {
	}
}

// emit makes a slice of the due inserts. more: others may be due.
func (s *Schedules) emit() (more bool) {
	kind := &s.book.Kinds[machine.KindSchedule]
	var looks []look
	var now queue.Time
	may, alone := false, false
	err := s.Locked(func(_ *machine.Machine, at queue.Time) error {
		if may = kind.May(at) && !s.means.Full(); may {
			now, alone, looks = at, kind.Limit > 0, s.Part().Due(at, s.book.Parked)
		}
		return nil
	})
	if err != nil || !may {
		return false
	}
	defer s.means.Blobs.Begin()()
	var waits commit.Set
	n := 0
	for i := range looks {
		if l := &looks[i]; s.room(l, now) {
			if c := s.emitOne(l, now, alone); c != nil {
				n++
				waits.Add(c)
			}
			if n > 0 && alone {
				return s.emittedAlone(l, waits, now)
			}
		}
	}
	err = s.Wait(waits)
	s.Look(func(m *machine.Machine) {
		switch {
		case n == 0:
			kind.Pass(now, 0) // nothing is due, so no schedule is under suspicion
		case err != nil:
			s.book.Fail(machine.KindSchedule, err, now)
			if !errors.Is(err, journal.ErrFull) {
				kind.Limit = 1
			}
		default:
			s.book.Done(m, machine.KindSchedule, now, n)
			s.book.Slices++
		}
	})
	return n > 0 && err == nil
}

// emittedAlone waits for the inserts of one schedule, while the worker looks for the schedule that fails.
func (s *Schedules) emittedAlone(l *look, waits commit.Set, now queue.Time) (ok bool) {
	err := s.Wait(waits)
	s.Look(func(m *machine.Machine) {
		if err != nil {
			s.book.Fail(machine.KindSchedule, err, now)
			s.blame(l.Sch.Name, err, now)
			return
		}
		s.book.Done(m, machine.KindSchedule, now, 1)
		s.book.Kinds[machine.KindSchedule].Limit = 1 // as long as others are due
		s.book.Clear(action(l.Sch.Name))
		s.book.Slices++
	})
	return err == nil
}

// room makes room for the bytes of a schedule's inserts. false: there is none, and the schedule waits.
func (s *Schedules) room(l *look, now queue.Time) bool {
	err := s.means.Room(&l.Rhythm.Def.Template)
	if err != nil {
		s.Look(func(*machine.Machine) { s.postpone(l, err, now) })
	}
	return err == nil
}

// postpone leaves a schedule alone for a moment after its bytes could not be written. The mutex is held.
func (s *Schedules) postpone(l *look, err error, now queue.Time) {
	l.Sch.AsOf, l.Sch.LookAt = 0, now.Add(emitAgain)
	s.blame(l.Sch.Name, err, now)
}

// blame notes that a schedule failed by itself, and parks it if it did so again and again.
// The mutex is held.
func (s *Schedules) blame(name string, err error, now queue.Time) {
	s.Queue.Logger.Error("a tick of a schedule cannot be written; the server tries again",
		"schedule", name, "error", err)
	s.book.Blame(action(name), err, now)
}

// emission is the inserts of one schedule in one commit.
type emission struct {
	*look
	now     queue.Time
	alone   bool // nothing else is in the commit
	op      *journal.Schedule
	ticks   []queue.Time
	inserts []*journal.Insert
	m       *machine.Machine  // that drew them
	unique  []*machine.Unique // keys that the inserts hold in it
	ousts   []*machine.Unique // whose places they take
	carried *journal.Contents
	done    func(n int, err error) // ends its span
	encoded bool
}

// emitOne inserts the due submissions of one schedule, and returns their commit; nil: there is none. alone: nothing
// else is in the commit.
//
// It works out the due ticks, and the bytes of the submissions, without the mutex. Then it checks that the schedule has
// not changed meanwhile. The inserts and the schedule's new state go into the journal in one batch: after a crash at
// any moment a tick was emitted once, or is still due.
func (s *Schedules) emitOne(l *look, now queue.Time, alone bool) *commit.Commit {
	plan, broke := l.plan()
	seed := s.Queue.Seed()
	if broke != nil {
		s.Look(func(*machine.Machine) { s.book.Park(action(l.Sch.Name), broke, now) })
		return nil
	}
	e := &emission{look: l, now: now, alone: alone, done: func(int, error) {}}
	large := false
	c, err := s.Begin(func(m *machine.Machine, _ queue.Time) error {
		if !s.Part().decides(e, &plan) {
			return nil
		}
		m.Seed(seed)
		if large = s.draw(m, e); !large {
			s.encode(m, e)
		}
		return nil
	})
	if err == nil && large {
		c, err = s.encodeBehind(e)
	}
	if !e.encoded {
		e.done(0, err)
		return nil
	}
	e.done(len(e.inserts), err)
	return c
}

// draw makes the inserts of an emission. large: their bytes have to be put before them. The mutex is held.
func (s *Schedules) draw(m *machine.Machine, e *emission) (large bool) {
	trace := ""
	if len(e.ticks) > 0 && s.means.Trace != nil {
		if span := s.means.Trace(e.Sch.Name); span != nil {
			trace, e.done = span.Context(), span.End
		}
	}
	e.m = m
	for _, tick := range e.ticks {
		n := emitted(e.Sch.Name, e.Rhythm.Def, tick, e.now)
		n.Trace = trace
		if n.Unique != nil && !e.unites(n) {
			e.op.Counts.Emitted--
			e.op.Counts.Overlapped++
			continue
		}
		insert := m.Draw(n, e.now)
		e.inserts = append(e.inserts, insert)
		if u := m.Uniques.Claim(insert); u != nil {
			e.unique = append(e.unique, u)
		}
		e.op.Last, e.op.LastID = tick, insert.ID
	}
	if e.carried, large = s.means.Pack(&e.Rhythm.Def.Template, len(e.inserts)); large {
		for _, insert := range e.inserts {
			insert.Blobs = &journal.Blobs{Epoch: m.Epoch}
		}
	}
	return large
}

// unites says whether a tick inserts its submission, whose unique key may already be held. The mutex is held.
func (e *emission) unites(n *queue.NewSubmission) bool {
	keys := &e.m.Uniques
	held := keys.Find(n, e.now)
	if held == nil {
		return keys.Room(n, e.now) == nil
	}
	if !n.Unique.Replace || held.UnderWay() || held.Replaceable(e.m) == nil {
		keys.Kept++
		return false
	}
	e.ousts = append(e.ousts, held)
	return true
}

// mayOust says that the submissions that its inserts replace have not begun meanwhile. The mutex is held.
func (e *emission) mayOust() bool {
	return !slices.ContainsFunc(e.ousts, func(u *machine.Unique) bool { return u.Replaceable(e.m) == nil })
}

// giveUp frees the keys of inserts that are not made. The mutex is held.
func (e *emission) giveUp(*machine.Machine) {
	for _, u := range e.unique {
		e.m.Uniques.Forget(u)
		close(u.Published.Done)
	}
}

// encodeBehind stores the bytes of an emission's submissions, then encodes it if the schedule has not changed
// meanwhile.
func (s *Schedules) encodeBehind(e *emission) (c *commit.Commit, err error) {
	defer func() {
		if !e.encoded {
			s.Look(e.giveUp)
			s.means.Blobs.Discard(e.inserts)
		}
	}()
	if err := s.means.Blobs.Put(context.Background(), e.inserts, &e.Rhythm.Def.Template); err != nil {
		s.Look(func(*machine.Machine) { s.postpone(e.look, err, e.now) })
		return nil, err
	}
	return s.Begin(func(m *machine.Machine, _ queue.Time) error {
		if e.still(s.Part()) && s.Part().emits(e.Sch) && e.mayOust() {
			s.encode(m, e)
		}
		return nil
	})
}

// encode puts an emission into the open batch. The mutex is held.
func (s *Schedules) encode(m *machine.Machine, e *emission) {
	if e.alone {
		s.Seal()
	}
	for _, u := range e.ousts {
		machine.Replace(m, u.Replaceable(m), e.inserts[0].ID, e.now)
	}
	for _, insert := range e.inserts {
		m.Insert(insert, e.carried, e.now)
	}
	for _, u := range e.unique {
		u.Publish(m)
		close(u.Published.Done)
	}
	m.Encode(e.now).Schedule(e.op)
	s.Part().Occupy(e.Sch)
	e.encoded = true
	if e.alone {
		s.Seal()
	}
}
