package shard

import (
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// The machine's Apply methods are the only code that changes durable state, live and at recovery. They are total: an op
// that is already in effect changes nothing.
var _ journal.Applier = (*machine)(nil)

// ApplyEpoch starts a new life: tokens of earlier ones are told by their epoch.
func (m *machine) ApplyEpoch(epoch uint32) error {
	m.epoch = max(m.epoch, epoch)
	m.stops.began()
	return nil
}

// ApplyInsert makes a submission exist and offers it, unless it waits for its run_at.
func (m *machine) ApplyInsert(s *journal.Insert) error {
	m.forwarding.arrived(s.Origin)
	if m.replay {
		if known, err := m.known(s.Seq, s.ID); known || err != nil {
			return err
		}
		spec := specOf(s)
		if err := spec.Check(); err != nil {
			return fmt.Errorf("shard: the journal is damaged: %w", err)
		}
		if m.live(s.ID) != nil {
			return fmt.Errorf("shard: the journal is damaged: it inserts submission %s twice", s.ID)
		}
	}
	r := newRecord(s)
	m.adopt(r, m.backlog.Insert(specOf(s)))
	m.schedules.emitted(r)
	m.touch(r)
	m.stats.submissions++
	m.stats.inserted += uint64(r.chunks)
	return nil
}

// known says whether the store's rows already tell of a submission whose insert is replayed.
func (m *machine) known(seq uint32, id queue.SubmissionID) (bool, error) {
	if m.liveSeq(seq) != nil || m.ended[id] != nil {
		return true, nil
	}
	return m.history.holds(id)
}

func specOf(s *journal.Insert) backlog.Spec {
	return backlog.Spec{Seq: s.Seq, ID: s.ID, Chunks: s.Chunks, Priority: s.Priority, Meta: s.Meta, Key: s.Key, Mul: s.Mul, Add: s.Add}
}

// adopt joins a record with its chunks and offers them.
func (m *machine) adopt(r *record, sub *backlog.Submission) {
	r.sub, sub.Data = sub, r
	m.nextSeq = max(m.nextSeq, r.seq)
	m.asides.changed(asideSeq, 0)
	m.lastID = max(m.lastID, r.id)
	m.order.add(r)
	if d := r.details(); d.key != "" {
		m.remember(r)
	}
	if m.replay {
		return // settle offers it
	}
	m.expires(r)
	if runAt := r.details().runAt; runAt > m.now {
		r.parked = true
		m.stats.parked += uint64(sub.Available())
		m.lifecycle.schedule(KindRunAt, due{at: runAt, seq: r.seq})
		return
	}
	m.show(r)
}

// remember keeps the idempotency key of a committed insert.
func (m *machine) remember(r *record) {
	if entry := m.keys.find(r.more.key); entry != nil && entry.id == r.id {
		return
	}
	m.keys.add(&keyed{key: r.more.key, fingerprint: r.more.fingerprint, id: r.id, at: r.id.Time()})
}

// ApplyComplete finishes a chunk, whichever consumer holds it.
func (m *machine) ApplyComplete(c journal.Completed) error {
	r, err := m.target(c.Seq, c.Index)
	if r == nil {
		if err == nil && m.replay {
			err = m.remembered(c)
		}
		return err
	}
	m.changing(r)
	if slot, held := m.holds.Find(c.Seq, c.Index); held {
		m.timed(slot)
		m.concluded(r, slot)
	} else if t := r.tries[c.Index]; t != nil && (t.waiting || t.gone()) {
		if t.gone() {
			return nil
		}
	} else if m.withdraw(r, c.Index, false) != backlog.Taken {
		return nil // done before
	}
	if t := r.tries[c.Index]; t != nil {
		m.undelay(r, c.Index, t)
		m.suspects.acquit(r, t)
		delete(r.tries, c.Index)
	}
	m.storage.trust(c.Seq, c.Index)
	r.done++
	if r.outputs.note(&c); c.Output && m.replay {
		m.newest.note(r, c.Index)
	}
	m.stats.done++
	m.stats.completed++
	m.recent.put(queue.ChunkID{Submission: r.id, Index: c.Index}, c.Epoch, c.Sequence)
	m.touch(r)
	if r.over() {
		m.finish(r)
	}
	return nil
}

// remembered notes, at a replay, who completed a chunk whose row has it already: a kill may have come before the checkpoint that wrote
// that row stored who did.
func (m *machine) remembered(c journal.Completed) error {
	r := m.liveSeq(c.Seq)
	var sub *backlog.Submission
	if r != nil {
		sub = r.sub
	} else {
		found, err := m.history.past(c.Seq)
		if found == nil || err != nil {
			return err
		}
		r, sub = found.record, found.sub
	}
	if c.Index < r.chunks && r.tries[c.Index] == nil && !sub.IsAvailable(c.Index) {
		m.recent.put(queue.ChunkID{Submission: r.id, Index: c.Index}, c.Epoch, c.Sequence)
	}
	return nil
}

// target is the live record an op is for: nil when the op is older than the record's row, or the submission has ended.
func (m *machine) target(seq, index uint32) (*record, error) {
	r := m.liveSeq(seq)
	if r == nil || m.replay && m.applied <= r.applied && !r.dirty {
		return nil, nil
	}
	if index >= r.chunks {
		return nil, fmt.Errorf("shard: an op names chunk %d of submission %s, which has %d: the journal is damaged", index, r.id, r.chunks)
	}
	return r, nil
}

// ApplyReturn takes a chunk back with a try counted, to be offered at once, later, or (Dead) not again.
func (m *machine) ApplyReturn(op journal.Returned) error {
	if op.Reason == journal.Dead || op.Reason == journal.Skipped {
		m.gaveUp.seq, m.gaveUp.index = op.Seq, op.Index
	}
	r, err := m.target(op.Seq, op.Index)
	if r == nil {
		return err
	}
	if t := r.tries[op.Index]; t != nil && t.gone() {
		m.letters.deleted(r, op.Index, t, op.Reason)
		return nil
	}
	slot, held := m.holds.Find(op.Seq, op.Index)
	if held {
		h := m.holds.At(slot)
		if (op.Reason == journal.Expired || op.Reason == journal.Lost) && h.State != reserver.Expiring {
			m.lifecycle.acted(kindOf(&op), false)
			return nil // its consumer came first: the completion follows in the journal
		}
		switch h.State {
		case reserver.Finishing:
			m.timed(slot)
		case reserver.Expiring, reserver.Dying:
			if m.lifecycle.acted(kindOf(&op), true); kindOf(&op) == KindLost {
				m.roster.lost++
			}
			m.suspects.slotGone()
			m.revoked(r.id, slot, queue.RevokedExpired)
		}
		m.concluded(r, slot)
	} else if r.tries[op.Index] == nil || !r.tries[op.Index].waiting {
		if m.withdraw(r, op.Index, false) != backlog.Taken {
			return nil // done or dead before
		}
	}
	m.returned(r, op)
	return nil
}

// returned files a chunk that is now taken and unheld.
func (m *machine) returned(r *record, op journal.Returned) {
	t := r.tries[op.Index]
	if t == nil {
		t = &try{met: r.met}
		if r.tries == nil {
			r.tries = map[uint32]*try{}
		}
		r.tries[op.Index] = t
	}
	m.undelay(r, op.Index, t)
	m.suspects.acquit(r, t)
	if n := len(t.past); n > 0 && t.attempts == op.Attempts && t.sequence == op.Sequence && t.epoch == op.Epoch {
		t.past[n-1].Error = op.Error // what its consumer says of the try came after it was counted
	} else {
		t.ended(queue.Attempt{
			Ended: m.now, Consumer: op.Consumer, Held: time.Duration(op.Held) * time.Millisecond,
			Expired: op.Expiries > t.expiries, Lost: op.Lost || op.Reason == journal.Lost, Error: op.Error,
		})
	}
	*t = try{
		notBefore: op.NotBefore, sequence: op.Sequence, epoch: op.Epoch, attempts: op.Attempts, expiries: op.Expiries,
		reason: op.Reason, redrives: t.redrives, err: op.Error, past: t.past, met: t.met,
	}
	m.touch(r)
	switch {
	case op.Reason == journal.Dead:
		m.letters.died(r, op.Index, 1) // the op that follows says what that means for the submission
	case op.Reason == journal.Skipped:
		m.changing(r)
		r.skips++
		m.recount.tallied(r, t).skips++
		m.stats.skipped++
	case op.NotBefore > m.now:
		m.delay(r, op.Index, t)
	case !m.replay && m.suspects.suspicious(op.Reason):
		m.suspects.shelve(r, op.Index, t, m.now)
	default:
		m.putBack(r, op.Index)
	}
	if op.Reason == journal.Failed || t.gone() {
		m.stats.failed++
	}
}

// ApplyEnd ends a submission by decision: cancelled, failed. CompletedWithDead follows the death of a chunk that the
// submission survives, and ends it if nothing is left to do.
func (m *machine) ApplyEnd(x journal.End) error {
	r, _ := m.target(x.Seq, 0)
	if x.State == queue.Expired {
		m.lifecycle.acted(KindDeadDeadline, r != nil)
	}
	switch {
	case r == nil:
	case x.State != queue.CompletedWithDead:
		m.end(r, x.State, x.Reason)
		if index := m.gaveUp.index; x.State == queue.Failed && m.gaveUp.seq == x.Seq {
			r.ended.failed = &index
		}
	case r.over():
		m.finish(r)
	}
	return nil
}

// ApplyPriority gives a submission another priority: it changes places in the views of order CustomPriority.
func (m *machine) ApplyPriority(p journal.Priority) error {
	r, _ := m.target(p.Seq, 0)
	if r == nil {
		return nil
	}
	r.priority, r.reshaped = p.Priority, true
	m.backlog.SetPriority(r.sub, p.Priority)
	m.touch(r)
	return nil
}

// close encodes the end of a submission. From now on nothing of it can be finished: those who are told "ok" come before.
func (m *machine) close(r *record, state queue.SubmissionState, reason string, now queue.Time) {
	if r.ending {
		return // the first one decides
	}
	m.encode(now).End(journal.End{Seq: r.seq, State: state, Reason: reason})
	r.ending = true
	m.closing++
	m.intend((*closing)(r))
	if state == queue.Failed || state == queue.Expired {
		m.schedules.failedRun(r, reason, now)
	}
}

// closing is a submission that is about to end.
type closing record

func (r *closing) Applied(m *machine) { r.ending = false; m.closing-- }

func (r *closing) Undo(m *machine) {
	r.Applied(m)
	m.expires((*record)(r))
}

// finish ends a submission with nothing left to do.
func (m *machine) finish(r *record) {
	state := queue.Completed
	if r.dead > 0 {
		state = queue.CompletedWithDead
	}
	m.end(r, state, "")
}

// end takes the submission out of the backlog. Who still holds chunks of it learns so from his next call. It costs the same
// however many chunks are held, wait or are dead: the reservations are swept in slices, and what the history will say of the
// chunks is put together later, outside of the mutex.
func (m *machine) end(r *record, state queue.SubmissionState, reason string) {
	m.changing(r)
	m.touch(r)
	m.ready(r, -int(r.sub.Available()))
	m.stats.waiting -= uint64(r.waiting)
	m.stats.completed -= uint64(r.done)
	m.stats.skipped -= uint64(r.skips)
	m.suspects.acquitAll(r)
	m.letters.ended(r, state)
	r.ended = &ending{
		at: m.now, position: m.applied, reopened: r.reopened, meta: r.sub.Meta(), reason: reason, spec: r.spec(),
	}
	r.ended.left = m.backlog.RemoveKeeping(r.sub)
	m.orphans.add(r)
	r.state, r.sub, r.deads, r.delays = state, nil, nil, nil
	m.rules.outlive(r.id)
	m.ended[r.id] = r
	m.gone = append(m.gone, r)
	m.ends.add(r)
	m.stats.submissionEnd++
	m.schedules.stir(r)
	m.stats.endedAs[state]++
	for _, w := range m.watch[r.id] {
		w.Settle()
	}
	delete(m.watch, r.id)
	if m.now < m.latest { // the clock was set back
		m.free(m.now)
	}
	m.latest = max(m.latest, m.now)
}

// free has retention look again at what ended at a time, or later.
func (m *machine) free(ended queue.Time) {
	if m.freed == 0 || ended < m.freed {
		m.freed = ended
	}
}
