package machine

// How a machine is made from rows and the journal behind them.
//
//	Load, once per row ─► submissions that are not offered yet
//	Apply..., with m.Replay ─► as live, but no one holds anything, no timers, no waiters
//	Replayed ─► timers, shelves, counters since the start; everything is offered
//
// Nothing is offered before Replayed. A submission that a later batch ends would otherwise enter
// and leave every view.

import (
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
)

// recovery is the part of the machine that makes its state from rows, the journal behind them, and the memory of an
// earlier machine.
type recovery struct {
	m       *Machine
	History history // while the replay lasts
}

// Load brings a submission back from its row.
func (p *recovery) Load(spec, state []byte) error {
	m := p.m
	r, err := p.restored(spec, state)
	if err != nil {
		return err
	}
	r.Stored = true
	m.Numbered(r.Seq)
	m.LastID = max(m.LastID, r.ID)
	return nil
}

// restored makes a record from a row, and takes it into the backlog without offering it.
func (p *recovery) restored(spec, state []byte) (*Record, error) {
	m := p.m
	s, err := journal.DecodeInsert(spec)
	if err != nil {
		return nil, err
	}
	r := NewRecord(s)
	r.Begun = begunBefore
	chunks, err := r.restore(state)
	if err != nil {
		return nil, err
	}
	sub, err := m.Backlog.Restore(specOf(s), chunks)
	if err != nil {
		return nil, err
	}
	if err := r.consistent(sub); err != nil {
		m.Backlog.Remove(sub)
		return nil, err
	}
	r.Sub, sub.Data = sub, r
	m.Quotas.opened(r)
	m.Order.Add(r)
	return r, nil
}

// known says whether the store already has a row of a submission whose insert is replayed.
func (p *recovery) known(seq uint32, id queue.SubmissionID) (bool, error) {
	m := p.m
	if m.LiveSeq(seq) != nil || m.Endings.ByID[id] != nil {
		marks.Hit("an insert is replayed onto its row")
		return true, nil
	}
	return p.History.Holds(id)
}

// remembered notes, at a replay, the token of a completion that the submission's row already has: a kill may have come
// after the checkpoint wrote that row, and before it stored the tokens.
func (p *recovery) remembered(c journal.Completed) error {
	m := p.m
	r := m.LiveSeq(c.Seq)
	var sub *backlog.Submission
	if r != nil {
		sub = r.Sub
	} else {
		found, err := p.History.Past(c.Seq)
		if found == nil || err != nil {
			return err
		}
		r, sub = found.Record, found.Sub
	}
	if c.Index < r.Chunks && r.Tries[c.Index] == nil && !sub.IsAvailable(c.Index) {
		marks.Hit("who completed a chunk is known after a cut-off checkpoint")
		m.Tokens.Recent.put(queue.ChunkID{Submission: r.ID, Index: c.Index}, c.Epoch, c.Sequence)
	}
	return nil
}

// Replayed ends a replay: it puts the remaining submissions into their places and offers their
// chunks.
func (p *recovery) Replayed(now queue.Time) {
	m := p.m
	m.Replay, p.History, m.Now = false, history{}, now
	m.Stats = Stats{Totals: m.Stats.Totals}
	for _, replayed := range m.Joined.Replayed {
		replayed()
	}
	m.Afters.replayed()
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*Record)
		m.Backlog.ShrinkSkips(sub)
		m.Tries.goesOn(r)
		m.expires(r)
		m.Uniques.opened(r)
		parks(m, r)
		for _, index := range slices.Sorted(maps.Keys(r.Tries)) {
			resume(m, r, index, r.Tries[index])
		}
		recountDead(m, r)
		m.Stats.Completed += uint64(r.Done)
		m.Stats.Skipped += uint64(r.Skips)
		m.Stats.Waiting += uint64(r.Waiting)
		if r.Parked {
			countParked(m, r, int(sub.Available()))
		} else {
			m.show(r)
		}
		return true
	})
	for _, offered := range m.Joined.Offered {
		offered()
	}
}

// resume makes a chunk wait again that waited when its row was written.
func resume(m *Machine, r *Record, index uint32, t *Try) {
	over := t.NotBefore <= m.Now
	if t.Gone() || t.Waiting || over && !m.Suspects.suspicious(t.Reason) ||
		m.Backlog.Withdraw(r.Sub, index, false) != backlog.Taken {
		return
	}
	m.Delays.Note(r, index, t)
	if !over {
		m.Lifecycle.Schedule(KindRetry, Due{At: t.NotBefore, Seq: r.Seq, index: index})
		return
	}
	at := t.NotBefore
	if n := len(t.Past); at == 0 && n > 0 {
		at = t.Past[n-1].Ended
	}
	m.Suspects.shelve(r, index, t, at)
}

// history answers questions to the history, for the ops of a replay.
type history struct {
	Holds func(queue.SubmissionID) (bool, error)
	Past  func(seq uint32) (*Past, error) // nil: it does not hold it
}

// Past is an ended submission from the history.
type Past struct {
	Row    *checkpoint.Ended
	Record *Record
	Sub    *backlog.Submission
}
