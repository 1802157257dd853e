package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// recovery makes a machine of what the files of a shard hold.
type recovery struct{ s *Shard }

// run builds the state from the store's rows and the journal behind them, and starts a new epoch. The mutex is held,
// or no one else knows the shard yet.
func (p *recovery) run(ctx context.Context) error {
	s := p.s
	log, err := s.options.Journal(ctx)
	if err != nil {
		return err
	}
	s.journal = log
	now := s.now()
	m := newMachine(s.options.ID, s.options.Key, s.options.Settings, now)
	m.roster, m.ran = s.roster, s.options.RunSeconds
	m.storage = storage{trust: s.store.Trust, contents: s.store.Memtable.KeepContents, output: s.store.Memtable.KeepOutput}
	if s.options.LastAct != nil {
		if m.actLog.last, err = s.options.LastAct(); err != nil {
			return err
		}
	}
	if err := p.load(ctx, m); err != nil {
		return err
	}
	if s.m != nil {
		m.recent = s.m.recent // it knows more than the rows; the replay adds to it
		for part := range m.recent.changed {
			m.recent.changed[part] = m.recent.entries != nil // a checkpoint that was at it may have failed
		}
	}
	if err := s.Schedules.load(ctx, m); err != nil {
		return err
	}
	s.ahead.Store(true) // a checkpoint may have been cut off
	checkpointed := m.applied
	replayed, err := p.replay(ctx, m)
	if err != nil {
		return err
	}
	if err := p.sweep(ctx, m); err != nil {
		return err
	}
	reopenable := map[uint32]*record{}
	if err := p.recall(ctx, m, now, reopenable); err != nil {
		return err
	}
	if err := p.doubt(ctx, m, reopenable); err != nil {
		return err
	}
	if err := s.checkLatest(ctx, &m.newest); err != nil {
		return err
	}
	p.hold(m, now)
	m.settle(now)
	m.schedules.settle()
	if s.options.Values != nil {
		s.options.Values(m.valueLimits.set)
	}
	if err := s.fence(ctx, m, now); err != nil {
		return err
	}
	s.m = m
	m.ends.settle(m.applied)
	s.Ends.tell()
	s.countLive()
	s.noteSpecial()
	s.Consumers.stirAttached()
	s.checkpoints.restart(replayed)
	if err := log.Trim(ctx, max(checkpointed, 1)-1); err != nil { // what a crash left of the last checkpoint's trim
		return err
	}
	return log.SetDurability(s.options.Settings.Durability)
}

// hold has a machine know what consumers hold, or restrain it if no one can tell.
func (p *recovery) hold(m *machine, now queue.Time) {
	switch {
	case p.s.m != nil:
		m.carry(p.s.m, now)
	case m.stops.inOrder:
		m.stops.resume(now)
	default:
		m.valueLimits.restrain(now)
	}
}

// load reads the snapshot rows.
func (p *recovery) load(ctx context.Context, m *machine) error {
	s := p.s
	checkpointed, err := s.store.Checkpointed(ctx)
	if err != nil {
		return err
	}
	tail, err := s.journal.Tail(ctx)
	if err != nil {
		return err
	}
	if tail < checkpointed {
		return fmt.Errorf("the journal ends at batch %d, but the store holds what batch %d did: the two files are "+
			"not of one moment; restore both from the same backup", tail, checkpointed)
	}
	m.applied = checkpointed
	m.replay = true
	ended := endedIDs{store: s.store}
	rows := pastRows{store: s.store}
	m.history.past = func(seq uint32) (*past, error) { return rows.find(ctx, seq) }
	m.history.holds = func(id queue.SubmissionID) (bool, error) { return ended.has(ctx, id) }
	if err := s.store.Asides(ctx, m.asides.load); err != nil {
		return err
	}
	if err := s.Rules.load(ctx, m); err != nil {
		return err
	}
	return s.store.Load(ctx, func(row store.Row) error {
		if err := m.load(row.Spec, row.State); err != nil {
			return fmt.Errorf("store: submission %s: %w", row.ID, err)
		}
		return nil
	})
}

// replay applies the journal behind the checkpointed position and counts its bytes. Of the batch at the checkpointed position, which
// every checkpoint leaves in the journal, only the epoch is read: no other place holds it.
func (p *recovery) replay(ctx context.Context, m *machine) (bytes int64, err error) {
	checkpointed := m.applied
	err = p.s.journal.Read(ctx, max(checkpointed, 1)-1, func(position journal.Position, batch []byte) error {
		epoch, err := journal.Epoch(batch)
		m.epoch = max(m.epoch, epoch)
		if err == nil && position > checkpointed {
			m.applied = position
			bytes += int64(len(batch))
			err = journal.Decode(batch, func(at queue.Time) { m.now = at }, m)
		}
		if err != nil {
			return fmt.Errorf("journal: batch %d: %w", position, err)
		}
		return nil
	})
	return bytes, err
}

// endedIDs answers whether the history holds a submission, for the inserts of a replay. They come in nearly growing order,
// so it reads all ids from a little before the first one at once: a query each would take longer than all the rest.
type endedIDs struct {
	store *store.Store
	from  queue.SubmissionID // ids from here on are in the set; 0: nothing is read yet
	ids   map[queue.SubmissionID]struct{}
}

const endedMargin = time.Minute

func (e *endedIDs) has(ctx context.Context, id queue.SubmissionID) (bool, error) {
	if e.from == 0 || id < e.from {
		e.from = queue.MakeSubmissionID(max(id.Time().Add(-endedMargin), 1), 0, 0)
		e.ids = map[queue.SubmissionID]struct{}{}
		if err := e.store.History.EndedSince(ctx, e.from, func(id queue.SubmissionID) { e.ids[id] = struct{}{} }); err != nil {
			return false, err
		}
	}
	_, held := e.ids[id]
	return held, nil
}

// history answers what the history knows, for the ops of a replay.
type history struct {
	holds func(queue.SubmissionID) (bool, error)
	past  func(seq uint32) (*past, error) // nil: it does not hold it
}

// past is what the history tells of an ended submission.
type past struct {
	row    *store.Ended
	record *record
	sub    *backlog.Submission
}

// pastRows reads the history for the ops of a replay that came before a row of it was written: a kill cut a checkpoint off behind that
// row. Ops about one submission come near each other, so what was read last is kept.
type pastRows struct {
	store *store.Store
	bySeq map[uint32]*past // nil: the history does not hold it
}

const pastKept = 1024

func (p *pastRows) find(ctx context.Context, seq uint32) (*past, error) {
	if found, asked := p.bySeq[seq]; asked {
		return found, nil
	}
	if p.bySeq == nil || len(p.bySeq) == pastKept {
		p.bySeq = map[uint32]*past{}
	}
	row, there, err := p.store.History.EndedBySeq(ctx, seq)
	if err != nil || !there {
		p.bySeq[seq] = nil
		return nil, err
	}
	r, sub, err := endedRecord(&row)
	p.bySeq[seq] = &past{row: &row, record: r, sub: sub}
	return p.bySeq[seq], err
}

// sweep removes contents whose insert was never published and makes sure that their numbers are not drawn again.
func (p *recovery) sweep(ctx context.Context, m *machine) error {
	s := p.s
	ended := make(map[uint32]bool, len(m.gone))
	for _, r := range m.gone {
		ended[r.seq] = true
	}
	n, err := s.store.SweepOrphans(ctx, func(seq uint32) bool { return ended[seq] || m.liveSeq(seq) != nil })
	if err != nil {
		return err
	}
	if n > 0 {
		s.options.Logger.Info("removed contents of inserts that were never answered", "queue", s.options.Queue, "rows", n)
	}
	last, err := s.store.MaxSeq(ctx)
	m.nextSeq = max(m.nextSeq, last)
	return err
}

// recall takes from the history what must outlive a submission: its id is not drawn again, even if the clock was set back,
// and its idempotency key is known for the rest of its window. reopenable gets what a redrive may open again, by seq, as far as outputs
// of it are in the log.
func (p *recovery) recall(ctx context.Context, m *machine, now queue.Time, reopenable map[uint32]*record) error {
	s := p.s
	newest, err := s.store.History.ListEnded(ctx, 0, endStates(), 1)
	if err != nil {
		return err
	}
	for i := range newest {
		m.lastID = max(m.lastID, newest[i].ID)
	}
	err = s.recallLetters(ctx, m, func(r *record) {
		if s.store.Logged(r.seq) {
			reopenable[r.seq] = r
		}
	})
	if err != nil {
		return err
	}
	window := queue.MakeSubmissionID(max(now.Add(-queue.IdempotencyWindow), 1), 0, 0)
	return s.store.History.EndedKeyed(ctx, window, func(row *store.Ended) error {
		spec, err := journal.DecodeInsert(row.Spec)
		if err != nil {
			return fmt.Errorf("store: history of %s: %w", row.ID, err)
		}
		m.keys.add(&keyed{key: spec.IdempotencyKey, fingerprint: spec.Fingerprint, id: row.ID, at: row.ID.Time()})
		return nil
	})
}

// doubt finds the outputs whose completions were not committed: their chunks are not done, and may still be completed. At the first
// start everything in the log is looked at, at a reload only what is in doubt already.
func (p *recovery) doubt(ctx context.Context, m *machine, reopenable map[uint32]*record) error {
	s := p.s
	for _, r := range m.gone {
		if r.state == queue.CompletedWithDead {
			reopenable[r.seq] = r
		}
	}
	stray := func(seq, index uint32) bool {
		if r := m.liveSeq(seq); r != nil {
			return index < r.chunks && m.chunk(r, index).State != queue.ChunkDone
		}
		r := reopenable[seq]
		return r != nil && r.tries[index] != nil
	}
	if s.m == nil {
		return s.store.DoubtLogged(ctx, stray)
	}
	s.store.TrustDone(func(seq, index uint32) bool { return !stray(seq, index) })
	return nil
}
