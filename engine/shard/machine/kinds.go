package machine

// The kinds of timed actions. Each has timers of its own if it needs any, its own failures and its
// own pause, so a kind that fails does not stop the others: a broken schedule must not keep
// deadlines from passing.

import (
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Kind is one kind of action of the life-cycle worker. Kinds do not depend on each other: one that fails stops no
// other.
type Kind uint8

// The kinds. To add one: a name here, entries in Lifecycle.Timers, and a case in Machine.act; or, if it needs no timer,
// a case in Machine.Step.
const (
	KindExpiry       Kind = iota // deadlines of reservations that passed
	KindLost                     // reservations of consumers that were lost
	KindGrace                    // the end of the restart grace
	KindRule                     // rules whose time is over, and dead_deadlines that they put off
	KindRetry                    // chunks whose delay is over
	KindSuspect                  // shelved suspects that are offered again
	KindRunAt                    // submissions whose run_at has come
	KindDeadDeadline             // submissions whose dead_deadline has passed
	KindSweep                    // reservations of ended submissions
	KindRetention                // ended submissions whose retention is over
	KindSchedule                 // inserts of schedules that are due
	KindAfter                    // submissions whose wait for others is over
	KindForward                  // dead letters on their way to another queue, which the engine carries
	KindCount
)

// String is the kind's name in answers and metrics.
func (k Kind) String() string {
	return [KindCount]string{"expiry", "lost", "grace", "rule", "retry", "suspect", "run_at", "dead_deadline", "sweep",
		"retention", "schedule", "after", "forward"}[k]
}

// OfChunks says that a kind's actions are about single chunks.
func (k Kind) OfChunks() bool {
	return k == KindExpiry || k == KindLost || k == KindRetry || k == KindForward
}

// Housekeeping says that no work waits for a kind: when it fails, the shard goes on serving.
func (k Kind) Housekeeping() bool { return k == KindSweep || k == KindRule || k.Apart() }

// Apart says that a kind makes its slices by itself, beside those of the others.
func (k Kind) Apart() bool { return k == KindRetention || k == KindSchedule || k == KindForward }

// Action is one thing that the life-cycle worker does: a kind, and the submission, chunk, rule or schedule that it is
// about.
type Action struct {
	Kind       Kind
	Submission queue.SubmissionID
	Index      uint32       // of the chunk; 0 where the action is about the submission
	Rule       queue.RuleID // whose end it is; 0: it is not about a rule
	Schedule   string       // that inserts; "": it is not about one
}

// About says that an action is about something that can be left alone while its kind goes on.
func (a Action) About() bool { return a != Action{Kind: a.Kind} }

// acts counts actions by outcome, since the server's start.
type acts struct{ Done, Stale uint64 }

// lifecycle has the actions that wait for their time.
type lifecycle struct {
	Timers [KindCount]dueHeap // actions that wait for their time; some kinds keep theirs elsewhere
	Acting Action             // the one that the life-cycle worker is doing
}

// Acted counts an action: as done, or as stale if its object had changed before.
func (c *Stats) Acted(k Kind, done bool) {
	if done {
		c.Acts[k].Done++
	} else {
		c.Acts[k].Stale++
	}
}

// Step does the due actions of one kind, at most `most`, and says how many it looked at: with `most`, there may be
// more. An action that needs the disk is encoded into the open batch, and looked at again when that is applied. Parked
// ones are not touched.
func (m *Machine) Step(kind Kind, now queue.Time, most int, slots []uint32, parked map[Action]*Parking) (n int) {
	if step := m.Joined.Steps[kind]; step != nil {
		return step(now, most, parked)
	}
	p := &m.Lifecycle
	switch kind {
	case KindExpiry:
		slots = m.Holds.Expired(slots[:0], now, most)
		for _, slot := range slots {
			if p.Acting = m.ActionOf(kind, slot); parked[p.Acting] == nil {
				m.Tries.expire(slot, now)
			}
		}
		return len(slots)
	case KindAfter:
		return m.Afters.step(m, now, most, parked)
	case KindSuspect:
		return m.Suspects.Lend(now, most)
	case KindSweep:
		p.Acting = Action{Kind: KindSweep}
		for n < most && len(m.Orphans.List) > 0 {
			n += m.Shed(m.Orphans.List[len(m.Orphans.List)-1], most-n)
		}
		m.Stats.Acts[KindSweep].Done += uint64(n)
		return n
	}
	p.Acting = Action{Kind: kind}
	for n < most {
		d, due := p.next(kind, now)
		if !due {
			break
		}
		r := m.LiveSeq(d.Seq)
		if r == nil {
			m.Stats.Acted(kind, false)
			n++
			continue
		}
		p.Acting = Action{Kind: kind, Submission: r.ID, Index: d.index}
		if parked[p.Acting] == nil {
			n += max(1, m.act(kind, r, d, now, most-n))
		}
	}
	return n
}

// kindOf is the kind that a chunk was taken back by.
func kindOf(op *journal.Returned) Kind {
	if op.Lost || op.Reason == journal.Lost {
		return KindLost
	}
	return KindExpiry
}

// ActionOf is the action that ends a reservation.
func (m *Machine) ActionOf(kind Kind, slot uint32) Action {
	h := m.Holds.At(slot)
	a := Action{Kind: kind, Index: h.Index}
	if r := m.LiveSeq(h.Seq); r != nil {
		a.Submission = r.ID
	}
	return a
}

// act does the action of a due entry, if it still holds. It returns how many chunks that took, at most `most`, if it is
// more than one action.
func (m *Machine) act(kind Kind, r *Record, d Due, now queue.Time, most int) int {
	switch kind {
	case KindRetry:
		m.Stats.Acted(kind, m.offerAgain(r, d))
	case KindRunAt:
		parked := d.holds(kind, r)
		m.Stats.Acted(kind, parked)
		if m.Tries.Overdue(r) { // it stays hidden
			return 0
		}
		if parked && r.Ending { // in a moment it is known whether it has ended
			m.Lifecycle.Schedule(kind, Due{At: now.Add(time.Millisecond), Seq: d.Seq})
		} else if parked {
			unpark(m, r)
		}
	case KindDeadDeadline:
		switch at := r.Details().DeadDeadline; {
		case m.Tries.Overdue(r):
			return m.Tries.endOverdue(r, "", most, now)
		case at == 0 || at > now || m.Joined.Rules.Spares(r, now): // a redrive may have forgotten it
			m.Stats.Acted(kind, false)
		case m.Settings.OnDeadline == queue.DeadLetterThem:
			return m.Tries.endOverdue(r, "", most, now)
		default:
			m.EndSubmission(r, queue.Expired, errorOverdue, now) // counted when it is applied
		}
	}
	return 0
}

// offerAgain offers a chunk whose delay is over.
func (m *Machine) offerAgain(r *Record, d Due) bool {
	t := r.Tries[d.index]
	if t == nil || !t.delayed(d.At) {
		return false
	}
	if m.IsHeld(r, d.index) {
		return false // a late completion is on its way
	}
	if m.Suspects.suspicious(t.Reason) {
		m.Suspects.shelve(r, d.index, t, t.NotBefore)
		return true
	}
	m.Delays.end(r, d.index, t)
	m.PutBack(r, d.index)
	return true
}

// Schedule sets the timer of an action.
func (p *lifecycle) Schedule(kind Kind, d Due) { p.Timers[kind].push(d) }

// next takes the first entry of a kind whose time has come; false: there is none.
func (p *lifecycle) next(kind Kind, now queue.Time) (Due, bool) {
	d, there := p.Timers[kind].first()
	if !there || d.At > now {
		return Due{}, false
	}
	p.Timers[kind].pop()
	return d, true
}

// OldestDue is since when an action of a kind is due; false when none is. For deadlines it is the moment up to which
// they were looked through, which is at most reserver.Resolution more.
func (m *Machine) OldestDue(kind Kind, now queue.Time) (queue.Time, bool) {
	switch kind {
	case KindExpiry:
		at := m.Holds.SweptTo()
		return at, m.Holds.Len() > 0 && at.Add(reserver.Resolution) <= now
	case KindSweep, KindRetention, KindLost, KindGrace, KindSchedule, KindForward, KindRule, KindSuspect, KindAfter:
		return 0, false // no one waits for it
	}
	d, there := m.Lifecycle.Timers[kind].first()
	return d.At, there && d.At <= now
}
