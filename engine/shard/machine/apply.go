package machine

import (
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// The machine's Apply methods are the only code that changes durable state, live and at recovery. They are total: an op
// that is already in effect changes nothing.
var _ journal.Applier = (*Machine)(nil)

// ApplyEpoch starts a new life: tokens of earlier ones are told by their epoch.
func (m *Machine) ApplyEpoch(epoch uint32) error {
	m.Epoch = max(m.Epoch, epoch)
	for _, began := range m.Joined.Began {
		began()
	}
	return nil
}

// ApplyInsert makes a submission exist and offers it, unless it waits for its run_at.
func (m *Machine) ApplyInsert(s *journal.Insert) error {
	for _, inserting := range m.Joined.Inserting {
		inserting(s)
	}
	if m.Replay {
		if known, err := m.known(s.Seq, s.ID); known || err != nil {
			return err
		}
		spec := specOf(s)
		if err := spec.Check(); err != nil {
			return fmt.Errorf("shard: the journal is damaged: %w", err)
		}
		if m.Live(s.ID) != nil {
			return fmt.Errorf("shard: the journal is damaged: it inserts submission %s twice", s.ID)
		}
	}
	r := NewRecord(s)
	if m.Replay {
		r.Begun = begunBefore
	}
	m.adopt(r, m.Backlog.Insert(specOf(s)))
	for _, opened := range m.Joined.Opened {
		opened(r)
	}
	m.Touch(r)
	m.Stats.Submissions++
	m.Stats.Inserted += uint64(r.Chunks)
	return nil
}

// known says whether the store's rows already tell of a submission whose insert is replayed.
func (m *Machine) known(seq uint32, id queue.SubmissionID) (bool, error) {
	if m.LiveSeq(seq) != nil || m.Ended[id] != nil {
		marks.Hit("an insert is replayed onto its row")
		return true, nil
	}
	return m.History.Holds(id)
}

func specOf(s *journal.Insert) backlog.Spec {
	return backlog.Spec{Seq: s.Seq, ID: s.ID, Chunks: s.Chunks, Priority: s.Priority, Meta: s.Meta, Key: s.Key, Mul: s.Mul, Add: s.Add}
}

// adopt joins a record with its chunks and offers them.
func (m *Machine) adopt(r *Record, sub *backlog.Submission) {
	r.Sub, sub.Data = sub, r
	m.NextSeq = max(m.NextSeq, r.Seq)
	m.Asides.Changed(AsideSeq, 0)
	m.LastID = max(m.LastID, r.ID)
	m.Order.Add(r)
	if d := r.Details(); d.key != "" {
		m.remember(r)
	}
	if m.Replay {
		return // settle offers it
	}
	m.expires(r)
	if runAt := r.Details().RunAt; runAt > m.Now {
		r.Parked = true
		m.Stats.Parked += uint64(sub.Available())
		m.Lifecycle.Schedule(KindRunAt, Due{At: runAt, Seq: r.Seq})
		return
	}
	m.show(r)
}

// remember keeps the idempotency key of a committed insert.
func (m *Machine) remember(r *Record) {
	if entry := m.Keys.Find(r.more.key); entry != nil && entry.ID == r.ID {
		return
	}
	m.Keys.Add(&Keyed{Key: r.more.key, Fingerprint: r.more.fingerprint, ID: r.ID, At: r.ID.Time()})
}

// ApplyComplete finishes a chunk, whichever consumer holds it.
func (m *Machine) ApplyComplete(c journal.Completed) error {
	r, err := m.target(c.Seq, c.Index)
	if r == nil {
		if err == nil && m.Replay {
			err = m.remembered(c)
		}
		return err
	}
	m.Changing(r)
	if slot, held := m.Holds.Find(c.Seq, c.Index); held {
		m.timed(slot)
		m.concluded(r, slot)
	} else if t := r.Tries[c.Index]; t != nil && (t.Waiting || t.Gone()) {
		if t.Gone() {
			return nil
		}
		marks.Hit("a chunk that waits is completed at a replay")
	} else if m.Withdraw(r, c.Index, false) != backlog.Taken {
		return nil // done before
	}
	if t := r.Tries[c.Index]; t != nil {
		m.undelay(r, c.Index, t)
		m.Suspects.acquit(r, t)
		delete(r.Tries, c.Index)
	}
	m.Storage.Trust(c.Seq, c.Index)
	r.Done++
	if r.Outputs.note(&c); c.Output && m.Replay {
		m.Newest.note(r, c.Index)
	}
	m.Stats.Done++
	m.Stats.Completed++
	m.Recent.put(queue.ChunkID{Submission: r.ID, Index: c.Index}, c.Epoch, c.Sequence)
	m.Touch(r)
	m.Finish(r)
	return nil
}

// remembered notes, at a replay, who completed a chunk whose row has it already: a kill may have come before the checkpoint that wrote
// that row stored who did.
func (m *Machine) remembered(c journal.Completed) error {
	r := m.LiveSeq(c.Seq)
	var sub *backlog.Submission
	if r != nil {
		sub = r.Sub
	} else {
		found, err := m.History.Past(c.Seq)
		if found == nil || err != nil {
			return err
		}
		r, sub = found.Record, found.Sub
	}
	if c.Index < r.Chunks && r.Tries[c.Index] == nil && !sub.IsAvailable(c.Index) {
		marks.Hit("who completed a chunk is known after a cut-off checkpoint")
		m.Recent.put(queue.ChunkID{Submission: r.ID, Index: c.Index}, c.Epoch, c.Sequence)
	}
	return nil
}

// target is the live record an op is for: nil when the op is older than the record's row, or the submission has ended.
func (m *Machine) target(seq, index uint32) (*Record, error) {
	r := m.LiveSeq(seq)
	if r == nil || m.Replay && m.AppliedAt <= r.AppliedAt && !r.Dirty {
		return nil, nil
	}
	if index >= r.Chunks {
		return nil, fmt.Errorf("shard: an op names chunk %d of submission %s, which has %d: the journal is damaged", index, r.ID, r.Chunks)
	}
	return r, nil
}

// ApplyReturn takes a chunk back with a try counted, to be offered at once, later, or (Dead) not again.
func (m *Machine) ApplyReturn(op journal.Returned) error {
	if op.Reason == journal.Dead || op.Reason == journal.Skipped {
		m.gaveUp.seq, m.gaveUp.index = op.Seq, op.Index
	}
	r, err := m.target(op.Seq, op.Index)
	if r == nil {
		return err
	}
	if t := r.Tries[op.Index]; t != nil && t.Gone() {
		m.Deaths.late(r, op.Index, t, op.Reason)
		return nil
	}
	slot, held := m.Holds.Find(op.Seq, op.Index)
	if held {
		h := m.Holds.At(slot)
		if (op.Reason == journal.Expired || op.Reason == journal.Lost) && h.State != reserver.Expiring {
			m.Lifecycle.Acted(kindOf(&op), false)
			return nil // its consumer came first: the completion follows in the journal
		}
		switch h.State {
		case reserver.Finishing:
			m.timed(slot)
		case reserver.Expiring, reserver.Dying:
			if m.Lifecycle.Acted(kindOf(&op), true); kindOf(&op) == KindLost {
				m.Roster.Lost++
			}
			m.Suspects.slotGone()
			m.Revoked(r.ID, slot, queue.RevokedExpired)
		}
		m.concluded(r, slot)
	} else if r.Tries[op.Index] == nil || !r.Tries[op.Index].Waiting {
		if m.Withdraw(r, op.Index, false) != backlog.Taken {
			return nil // done or dead before
		}
	}
	m.returned(r, op)
	return nil
}

// returned files a chunk that is now taken and unheld.
func (m *Machine) returned(r *Record, op journal.Returned) {
	t := r.Tries[op.Index]
	if t == nil {
		t = &Try{met: r.met}
		if r.Tries == nil {
			r.Tries = map[uint32]*Try{}
		}
		r.Tries[op.Index] = t
	}
	m.undelay(r, op.Index, t)
	m.Suspects.acquit(r, t)
	if n := len(t.Past); n > 0 && t.Attempts == op.Attempts && t.sequence == op.Sequence && t.epoch == op.Epoch {
		marks.Hit("what a consumer says is added to a counted attempt")
		t.Past[n-1].Error = op.Error // what its consumer says of the try came after it was counted
	} else {
		t.ended(queue.Attempt{
			Ended: m.Now, Consumer: op.Consumer, Held: time.Duration(op.Held) * time.Millisecond,
			Expired: op.Expiries > t.Expiries, Lost: op.Lost || op.Reason == journal.Lost, Error: op.Error,
		})
	}
	*t = Try{
		NotBefore: op.NotBefore, sequence: op.Sequence, epoch: op.Epoch, Attempts: op.Attempts, Expiries: op.Expiries,
		Reason: op.Reason, Redrives: t.Redrives, Err: op.Error, Past: t.Past, met: t.met,
	}
	m.Touch(r)
	switch {
	case op.Reason == journal.Dead:
		m.Deaths.Died(r, op.Index, 1) // the op that follows says what that means for the submission
	case op.Reason == journal.Skipped:
		m.Changing(r)
		r.Skips++
		m.Counting.tallied(r, t).Skips++
		m.Stats.Skipped++
	case op.NotBefore > m.Now:
		m.delay(r, op.Index, t)
	case !m.Replay && m.Suspects.suspicious(op.Reason):
		m.Suspects.shelve(r, op.Index, t, m.Now)
	default:
		m.PutBack(r, op.Index)
	}
	if op.Reason == journal.Failed || t.Gone() {
		m.Stats.Failed++
	}
}

// ApplyEnd ends a submission by decision: cancelled, failed. CompletedWithDead follows the death of a chunk that the
// submission survives, and ends it if nothing is left to do.
func (m *Machine) ApplyEnd(x journal.End) error {
	r, _ := m.target(x.Seq, 0)
	if x.State == queue.Expired {
		m.Lifecycle.Acted(KindDeadDeadline, r != nil)
	}
	switch {
	case r == nil:
	case x.State != queue.CompletedWithDead:
		m.end(r, x.State, x.Reason)
		if index := m.gaveUp.index; x.State == queue.Failed && m.gaveUp.seq == x.Seq {
			r.Ended.failed = &index
		}
	default:
		m.Finish(r)
	}
	return nil
}

// ApplyPriority gives a submission another priority: it changes places in the views of order CustomPriority.
func (m *Machine) ApplyPriority(p journal.Priority) error {
	r, _ := m.target(p.Seq, 0)
	if r == nil {
		return nil
	}
	r.Priority, r.Reshaped = p.Priority, true
	m.Backlog.SetPriority(r.Sub, p.Priority)
	m.Touch(r)
	return nil
}

// Close encodes the end of a submission. From now on nothing of it can be finished: those who are told "ok" come before.
func (m *Machine) Close(r *Record, state queue.SubmissionState, reason string, now queue.Time) {
	if r.Ending {
		return // the first one decides
	}
	m.Encode(now).End(journal.End{Seq: r.Seq, State: state, Reason: reason})
	r.Ending = true
	m.Closing++
	m.Intend((*closing)(r))
	if state == queue.Failed || state == queue.Expired {
		for _, failing := range m.Joined.Failing {
			failing(r, reason, now)
		}
	}
}

// closing is a submission that is about to end.
type closing Record

func (r *closing) Applied(m *Machine) { r.Ending = false; m.Closing-- }

func (r *closing) Undo(m *Machine) {
	r.Applied(m)
	m.expires((*Record)(r))
}

// Finish ends a submission if nothing of it is left to do.
func (m *Machine) Finish(r *Record) {
	if !r.over() {
		return
	}
	state := queue.Completed
	if r.Dead > 0 {
		state = queue.CompletedWithDead
	}
	m.end(r, state, "")
}

// end takes the submission out of the backlog. Who still holds chunks of it learns so from his next call. It costs the same
// however many chunks are held, wait or are dead: the reservations are swept in slices, and what the history will say of the
// chunks is put together later, outside of the mutex.
func (m *Machine) end(r *Record, state queue.SubmissionState, reason string) {
	m.Changing(r)
	m.Touch(r)
	m.Ready(r, -int(r.Sub.Available()))
	m.Stats.Waiting -= uint64(r.Waiting)
	m.Stats.Completed -= uint64(r.Done)
	m.Stats.Skipped -= uint64(r.Skips)
	m.Suspects.acquitAll(r)
	m.Stats.Dead -= uint64(r.Dead)
	r.Ended = &ending{
		At: m.Now, Position: m.AppliedAt, reopened: r.Reopened, Meta: r.Sub.Meta(), reason: reason, spec: r.Spec(),
	}
	r.Ended.Left = m.Backlog.RemoveKeeping(r.Sub)
	m.Orphans.add(r)
	r.State, r.Sub, r.Deads, r.Delays = state, nil, nil, nil
	m.Ended[r.ID] = r
	m.Gone = append(m.Gone, r)
	m.Stats.SubmissionEnd++
	for _, ended := range m.Joined.Ended {
		ended(r)
	}
	m.Stats.EndedAs[state]++
	for _, w := range m.Watch[r.ID] {
		w.Settle()
	}
	delete(m.Watch, r.ID)
	if m.Now < m.latest { // the clock was set back
		m.free(m.Now)
	}
	m.latest = max(m.latest, m.Now)
}

// expires has the submission end at its dead deadline.
func (m *Machine) expires(r *Record) {
	if at := r.Details().DeadDeadline; at != 0 {
		m.Lifecycle.Schedule(KindDeadDeadline, Due{At: at, Seq: r.Seq})
	}
}

// free has retention look again at what ended at a time, or later.
func (m *Machine) free(ended queue.Time) {
	if m.Freed == 0 || ended < m.Freed {
		m.Freed = ended
	}
}
