package machine

// The effects of each op. These methods are the only code that changes durable state, and they are called in two
// situations: live, when a batch has been committed, and at a replay (m.Replay). Both must end in the same state, or a
// restart would change acknowledged work.
//
// So an op decides nothing. It has its outcome in its fields, uses m.Now for the time, and no chance. It is total: it
// passes over changes that are already in effect, as a row of a checkpoint may be younger than the op (target). State
// that is only in memory differs between the two: a replay finds no reservations, and offers submissions at its end
// (Recovery.Replayed).

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// The machine's Apply methods are the only code that changes durable state, live and at
// recovery. They are total: an op that is already in effect changes nothing.
var _ journal.Applier = (*Machine)(nil)

// ApplyEpoch starts a new life: it is the first op of a life. A token of an earlier life has an earlier epoch, and
// names a reservation that only memory had.
func (m *Machine) ApplyEpoch(epoch uint32) error {
	m.Epoch = max(m.Epoch, epoch)
	for _, began := range m.Joined.Began {
		began()
	}
	return nil
}

// ApplyInsert makes a submission exist and offers it, unless it waits for its run_at. At a replay it repeats the checks
// of an insert, because these ops come from the disk.
func (m *Machine) ApplyInsert(s *journal.Insert) error {
	for _, inserting := range m.Joined.Inserting {
		inserting(s)
	}
	m.Uniques.inserted(s, m.Replay)
	m.Afters.inserting(s)
	if m.Replay {
		m.Keys.replay(s, m.Now)
		if known, err := m.Recovery.known(s.Seq, s.ID); known || err != nil {
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
	} else if b := r.Details().Blobs; b != nil {
		b.Intact = true
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

// The backlog knows nothing of the journal, so it gets the fields that views and terms are made of.
func specOf(s *journal.Insert) backlog.Spec {
	return backlog.Spec{Seq: s.Seq, ID: s.ID, Chunks: s.Chunks, Priority: s.Priority, Meta: s.Meta, Key: s.Key,
		Bytes: s.Bytes}
}

// adopt joins a record with its chunks and offers them.
// NextSeq and LastID only grow, whatever order ops come in: a number that was given out must never be again.
func (m *Machine) adopt(r *Record, sub *backlog.Submission) {
	r.Sub, sub.Data = sub, r
	sharePrefix(m, r)
	m.Quotas.opened(r)
	m.NextSeq = max(m.NextSeq, r.Seq)
	m.Asides.Changed(AsideSeq, 0)
	m.LastID = max(m.LastID, r.ID)
	m.Order.Add(r)
	if m.Replay {
		return // Replayed offers it
	}
	m.Backlog.Rules.SetSubmission(sub, m.Joined.Rules.Own(r))
	m.expires(r)
	if r.Details().After != nil {
		r.more.Waits = m.Afters.waits[r.Seq]
	}
	if parks(m, r); r.Parked {
		countParked(m, r, int(sub.Available()))
		return
	}
	m.show(r)
}

// sharePrefix has a submission keep its prefix in the memory of the one before, which as a rule has the same: a reserve
// reads it, and one copy for all is in the cache.
func sharePrefix(m *Machine, r *Record) {
	if r.Prefix != m.lastPrefix {
		m.lastPrefix = r.Prefix
	}
	r.Prefix = m.lastPrefix
}

// parks hides a submission until its run_at, while it waits for others, and while its chunks die in slices.
func parks(m *Machine, r *Record) {
	runAt := r.Details().RunAt
	if r.Parked = r.Details().Waits.Some() || runAt > m.Now || m.Tries.Overdue(r); runAt > m.Now {
		m.Lifecycle.Schedule(KindRunAt, Due{At: runAt, Seq: r.Seq})
	}
}

// ApplyComplete finishes a chunk, whichever consumer holds it.
//
// The chunk may be in any state but dead: held under this token (the usual case), held by no one (a late completion),
// or waiting (at a replay, where no one holds anything). A consumer that held it under another token lost the race, and
// learns so from its next call.
func (m *Machine) ApplyComplete(c journal.Completed) error {
	output, err := m.brought.take(&c)
	if err != nil {
		return err
	}
	if output != nil && m.Replay { // the store may lack it although it has a row that is younger
		m.Storage.Output(output)
	}
	r, err := m.target(c.Seq, c.Index)
	if r == nil {
		if err == nil && m.Replay {
			err = m.Recovery.remembered(c)
		}
		return err
	}
	m.Counting.Changing(r)
	if slot, held := m.Holds.Find(c.Seq, c.Index); held {
		m.timed(r, slot)
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
		m.Delays.end(r, c.Index, t)
		m.Suspects.acquit(r, t)
		delete(r.Tries, c.Index)
	}
	// Only behind the checks: a completion that changes nothing must not replace the output of the one before.
	if output != nil && !m.Replay {
		m.Storage.Output(output)
	}
	r.Done++
	r.Outputs.note(&c)
	m.Stats.Done++
	m.Stats.Completed++
	// A consumer whose answer was lost asks again with this token, and gets `already`.
	m.Tokens.Recent.put(queue.ChunkID{Submission: r.ID, Index: c.Index}, c.Epoch, c.Sequence)
	m.Touch(r)
	m.Finish(r)
	return nil
}

// target is the live record an op is for: nil when the op is older than the record's row,
// or the submission has ended.
func (m *Machine) target(seq, index uint32) (*Record, error) {
	r := m.LiveSeq(seq)
	if r == nil || m.Replay && m.AppliedAt <= r.AppliedAt && !r.Dirty {
		return nil, nil
	}
	if index >= r.Chunks {
		return nil, fmt.Errorf("shard: an op names chunk %d of submission %s, which has %d: the journal is damaged",
			index, r.ID, r.Chunks)
	}
	return r, nil
}

// ApplyReturn takes a chunk back with a try counted, to be offered at once, later, or (Dead) not again. The
// reservation may have changed since the op was encoded: its consumer may have completed the chunk in the same batch.
// The op's reason and the state of the hold decide who comes first.
func (m *Machine) ApplyReturn(op journal.Returned) error {
	if op.Reason == journal.Dead || op.Reason == journal.Skipped {
		m.Tries.gaveUp.seq, m.Tries.gaveUp.index = op.Seq, op.Index
	}
	r, err := m.target(op.Seq, op.Index)
	if r == nil {
		return err
	}
	if t := r.Tries[op.Index]; t != nil && t.Gone() {
		return nil
	}
	slot, held := m.Holds.Find(op.Seq, op.Index)
	if held {
		h := m.Holds.At(slot)
		if (op.Reason == journal.Expired || op.Reason == journal.Lost) && h.State != reserver.Expiring {
			m.Stats.Acted(kindOf(&op), false)
			return nil // its consumer came first: the completion follows in the journal
		}
		switch h.State {
		case reserver.Finishing:
			if op.Reason == journal.Snoozed {
				m.Tries.unworked(r, slot, op)
				return nil
			}
			m.timed(r, slot)
		case reserver.Expiring, reserver.Dying:
			if op.Reason == journal.Overdue || op.Reason == journal.Cancelled {
				m.Revoked(r.ID, slot, queue.RevokedEnded)
				break
			}
			if m.Stats.Acted(kindOf(&op), true); kindOf(&op) == KindLost {
				m.Roster.Lost++
			}
			m.Suspects.slots.gone()
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
	m.Delays.end(r, op.Index, t)
	m.Suspects.acquit(r, t)
	ordered := true // no consumer had a word in it
	switch op.Reason {
	case journal.Overdue:
		op.Reason, op.Error = journal.Dead, cmp.Or(op.Error, errorOverdue)
	case journal.Cancelled:
		op.Reason = journal.Skipped
	default:
		ordered = false
	}
	if n := len(t.Past); op.Reason == journal.Snoozed {
		marks.Hit("a released chunk waits, and no try is counted")
	} else if n > 0 && !ordered && t.Attempts == op.Attempts && t.sequence == op.Sequence && t.epoch == op.Epoch {
		marks.Hit("what a consumer says is added to a counted attempt")
		t.Past[n-1].Error = op.Error // the consumer's report came after the try was counted
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
		Died(m, r, op.Index, 1) // the next op has the consequence for the submission
	case op.Reason == journal.Skipped:
		m.Counting.skips(r, op.Index)
	case op.NotBefore > m.Now:
		m.Delays.begin(r, op.Index, t)
		m.Lifecycle.Schedule(KindRetry, Due{At: t.NotBefore, Seq: r.Seq, index: op.Index})
	case !m.Replay && m.Suspects.suspicious(op.Reason):
		m.Suspects.shelve(r, op.Index, t, m.Now)
	default:
		m.PutBack(r, op.Index)
	}
	if op.Reason == journal.Failed || t.Gone() && !ordered {
		m.Stats.Failed++
	} else if op.Reason == journal.Snoozed {
		m.Stats.Released++
	}
}

// ApplyEnd ends a submission by decision: cancelled, failed. CompletedWithDead follows the
// death of a chunk that the submission survives, and ends it if nothing is left to do.
func (m *Machine) ApplyEnd(x journal.End) error {
	r, _ := m.target(x.Seq, 0)
	if x.State == queue.Expired {
		m.Stats.Acted(KindDeadDeadline, r != nil)
	}
	switch {
	case r == nil:
	case x.State != queue.CompletedWithDead:
		m.end(r, x.State, x.Reason)
		if index := m.Tries.gaveUp.index; x.State == queue.Failed && m.Tries.gaveUp.seq == x.Seq {
			r.Ended.failed = &index
		}
	default:
		m.Finish(r)
	}
	return nil
}

// ApplyPriority gives a submission another priority: it changes places in the views of order CustomPriority. Reshaped
// has the next checkpoint write the spec again, not only the state.
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
