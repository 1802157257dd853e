package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Kind is one kind of what the life-cycle worker does. Kinds do not depend on each other: one that fails stops no other.
type Kind uint8

// The kinds. To add one: a name here, a heap in lifecycle.timers filled with due entries that have it, and what is done about an
// entry in act; or, if it needs no heap, a case in step.
const (
	KindExpiry       Kind = iota // deadlines of reservations that passed
	KindLost                     // reservations of consumers that were lost
	KindGrace                    // the end of the restart grace
	KindRule                     // rules whose time is over, and dead_deadlines that they put off
	KindRetry                    // chunks whose delay is over
	KindSuspect                  // shelved suspects that are offered again
	KindRunAt                    // submissions whose run_at has come
	KindDeadDeadline             // submissions whose dead_deadline has passed
	KindSweep                    // reservations of ended submissions, and idempotency keys that are too old
	KindRetention                // ended submissions whose retention is over
	KindSchedule                 // what schedules insert
	KindForward                  // dead letters on their way to another queue, which the engine carries
	kindCount
)

// String is the kind's name in answers and metrics.
func (k Kind) String() string {
	return [kindCount]string{"expiry", "lost", "grace", "rule", "retry", "suspect", "run_at", "dead_deadline", "sweep",
		"retention", "schedule", "forward"}[k]
}

// OfChunks says that a kind's actions are about single chunks.
func (k Kind) OfChunks() bool {
	return k == KindExpiry || k == KindLost || k == KindRetry || k == KindForward
}

// housekeeping says that no work that is there waits for a kind: when it fails the shard goes on serving.
func (k Kind) housekeeping() bool { return k == KindSweep || k == KindRule || k.apart() }

// apart says that a kind makes its slices by itself, beside those of the others.
func (k Kind) apart() bool { return k == KindRetention || k == KindSchedule || k == KindForward }

// Action is one thing that the life-cycle worker does: what a kind does about a submission or a chunk of it.
type Action struct {
	Kind       Kind
	Submission queue.SubmissionID
	Index      uint32       // of the chunk; 0 where the action is about the submission
	Rule       queue.RuleID // whose end it is; 0: it is not about a rule
	Schedule   string       // that inserts; "": it is not about one
}

// about says that an action is about something that can be left alone while its kind goes on.
func (a Action) about() bool { return a != Action{Kind: a.Kind} }

// acts counts what became of actions, since the server's start.
type acts struct{ done, stale uint64 }

// lifecycle is the part of the machine that does what time demands.
type lifecycle struct {
	m      *machine
	timers [kindCount]dueHeap // what waits for its time; some kinds keep theirs elsewhere
	acting Action             // what the life-cycle worker is at
}

// acted counts an action: done, or stale when what it was for had changed meanwhile.
func (p *lifecycle) acted(k Kind, done bool) {
	m := p.m
	switch {
	case m.replay:
	case done:
		m.stats.acts[k].done++
	default:
		m.stats.acts[k].stale++
	}
}

// step does what is due of one kind, at most `most` actions, and says how many it looked at: with `most`, there may be more.
// What needs the disk is encoded into the open batch, and looked at again when that is applied. parked are not touched.
func (p *lifecycle) step(kind Kind, now queue.Time, most int, slots []uint32, parked map[Action]*parking) (n int) {
	m := p.m
	switch kind {
	case KindExpiry:
		slots = m.holds.Expired(slots[:0], now, most)
		for _, slot := range slots {
			if p.acting = p.actionOf(kind, slot); parked[p.acting] == nil {
				p.expire(slot, now)
			}
		}
		return len(slots)
	case KindSuspect:
		return m.suspects.lend(now, most)
	case KindRule:
		n, more := m.rules.end(now, most, parked)
		if more {
			n = most
		}
		return max(n, m.rules.reconsider(most, now))
	case KindSweep:
		p.acting = Action{Kind: KindSweep}
		n = m.orphans.sweep(most)
		m.stats.acts[KindSweep].done += uint64(n)
		return max(n, m.keys.expire(now, most))
	}
	p.acting = Action{Kind: kind}
	timers := &p.timers[kind]
	for n < most {
		d, there := timers.first()
		if !there || d.at > now {
			break
		}
		timers.pop()
		r := m.liveSeq(d.seq)
		if r == nil {
			p.acted(kind, false)
			n++
			continue
		}
		p.acting = Action{Kind: kind, Submission: r.id, Index: d.index}
		if parked[p.acting] == nil {
			n++
			p.act(kind, r, d, now)
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

// actionOf is the action that ends a reservation.
func (p *lifecycle) actionOf(kind Kind, slot uint32) Action {
	h := p.m.holds.At(slot)
	a := Action{Kind: kind, Index: h.Index}
	if r := p.m.liveSeq(h.Seq); r != nil {
		a.Submission = r.id
	}
	return a
}

// act does what a due entry stands for, if it still holds.
func (p *lifecycle) act(kind Kind, r *record, d due, now queue.Time) {
	switch kind {
	case KindRetry:
		p.acted(kind, p.offerAgain(r, d))
	case KindRunAt:
		p.acted(kind, p.unpark(r))
	case KindDeadDeadline:
		if p.m.rules.spare(r, now) {
			p.acted(kind, false)
			return
		}
		p.m.close(r, queue.Expired, "its dead_deadline passed", now) // counted when it is applied
	}
}

// unpark offers a submission whose run_at has come.
func (p *lifecycle) unpark(r *record) bool {
	m := p.m
	if !r.parked {
		return false
	}
	m.changing(r)
	r.parked = false
	m.stats.parked -= uint64(r.sub.Available())
	m.show(r)
	return true
}

// offerAgain offers a chunk whose delay is over.
func (p *lifecycle) offerAgain(r *record, d due) bool {
	m := p.m
	t := r.tries[d.index]
	if t == nil || !t.delayed(d.at) {
		return false
	}
	if m.isHeld(r, d.index) {
		return false // a late completion is on its way
	}
	if m.suspects.suspicious(t.reason) {
		m.suspects.shelve(r, d.index, t, t.notBefore)
		return true
	}
	m.undelay(r, d.index, t)
	m.putBack(r, d.index)
	return true
}

// schedule has an action of a kind looked at when its time has come.
func (p *lifecycle) schedule(kind Kind, d due) { p.timers[kind].push(d) }

// oldestDue is since when something of a kind is due; false when nothing is. For deadlines it is up to when they were looked
// through, which is at most reserver.Resolution more.
func (p *lifecycle) oldestDue(kind Kind, now queue.Time) (queue.Time, bool) {
	switch kind {
	case KindExpiry:
		at := p.m.holds.SweptTo()
		return at, p.m.holds.Len() > 0 && at.Add(reserver.Resolution) <= now
	case KindSweep, KindRetention, KindLost, KindGrace, KindSchedule, KindForward, KindRule, KindSuspect:
		return 0, false // no one waits for it
	}
	d, there := p.timers[kind].first()
	return d.at, there && d.at <= now
}

// expire encodes that a deadline passed; the chunk stays shielded until that is committed.
func (p *lifecycle) expire(slot uint32, now queue.Time) {
	m := p.m
	h := m.holds.At(slot)
	r := m.liveSeq(h.Seq)
	if r == nil {
		return // the submission has ended, and sweep comes to it
	}
	m.batch.mark(slot, h.Sequence)
	m.stats.expired++
	if r.ending {
		return // what is being written decides; should it fail, the deadline is watched again
	}
	op := m.tried(r, h.Index, journal.Expired, now)
	op.Epoch, op.Sequence = h.Epoch, h.Sequence
	op.Error = "the reservation's deadline passed"
	if m.spent(r, &op) {
		h.State = reserver.Dying
		m.exhausted(r, op, now)
		return
	}
	op.NotBefore = m.backoff(m.settings.ExpiryBackoff, int(op.Expiries), now)
	m.encode(now).Return(op)
}
