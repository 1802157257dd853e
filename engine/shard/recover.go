package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
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
	m := machine.New(s.options.ID, s.options.Key, s.options.Settings, now)
	parts := join(m)
	m.Holders.Roster, m.Ran, parts.settings.Report = s.roster, s.options.Seconds.Run, s.options.Set
	m.Storage = machine.Storage{Trust: s.store.Doubts.Trust, Contents: s.store.Memtable.KeepContents, Output: s.store.Memtable.KeepOutput}
	if s.options.Audit.Last != nil {
		if m.ActLog.Last, err = s.options.Audit.Last(); err != nil {
			return err
		}
	}
	if err := p.load(ctx, m, &parts); err != nil {
		return err
	}
	if s.m != nil {
		m.Tokens.Recent = s.m.Tokens.Recent // it knows more than the rows; the replay adds to it
		for part := range m.Tokens.Recent.Changed {
			m.Tokens.Recent.Changed[part] = m.Tokens.Recent.Entries != nil // a checkpoint that was at it may have failed
		}
	}
	if err := s.Schedules.load(ctx, parts.schedules); err != nil {
		return err
	}
	s.ahead.Store(true) // a checkpoint may have been cut off
	checkpointed := m.AppliedAt
	replayed, err := p.replay(ctx, m)
	if err != nil {
		return err
	}
	if err := p.sweep(ctx, m); err != nil {
		return err
	}
	reopenable := map[uint32]*machine.Record{}
	if err := p.recall(ctx, m, parts.letters, reopenable); err != nil {
		return err
	}
	if err := p.doubt(ctx, m, reopenable); err != nil {
		return err
	}
	if err := s.checkLatest(ctx, &m.Recovery.Newest); err != nil {
		return err
	}
	p.hold(m, &parts, now)
	m.Recovery.Settle(now)
	parts.settle()
	if err := s.fence(ctx, m, &parts, now); err != nil {
		return err
	}
	if err := s.snapshots.recover(ctx, log, &parts); err != nil {
		return err
	}
	s.m, s.parts = m, parts
	parts.ends.Settle(m.AppliedAt)
	s.Ends.tell()
	s.countLive()
	s.noteSpecial()
	s.Consumers.stirAttached()
	s.checkpoints.restart(replayed)
	// what a crash left of the last checkpoint's trim
	if err := log.Trim(ctx, s.snapshots.needless(checkpointed)); err != nil {
		return err
	}
	return log.SetDurability(m.Settings.Durability)
}

// hold has a machine know what consumers hold, or restrain it if no one can tell.
func (p *recovery) hold(m *machine.Machine, parts *parts, now queue.Time) {
	switch {
	case p.s.m != nil:
		m.Recovery.Carry(p.s.m, now)
	case parts.stops.InOrder:
		parts.stops.Resume(now)
	default:
		m.ValueLimits.Restrain(now)
	}
}

// load reads the snapshot rows.
func (p *recovery) load(ctx context.Context, m *machine.Machine, parts *parts) error {
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
	m.AppliedAt = checkpointed
	m.Replay = true
	ended := endedIDs{store: s.store}
	rows := pastRows{store: s.store}
	m.Recovery.History.Past = func(seq uint32) (*machine.Past, error) { return rows.find(ctx, seq) }
	m.Recovery.History.Holds = func(id queue.SubmissionID) (bool, error) { return ended.has(ctx, id) }
	if err := s.store.Asides(ctx, m.Asides.Load); err != nil {
		return err
	}
	if err := s.Rules.load(ctx, parts.rules); err != nil {
		return err
	}
	return s.store.Load(ctx, func(row checkpoint.Row) error {
		if err := m.Recovery.Load(row.Spec, row.State); err != nil {
			return fmt.Errorf("store: submission %s: %w", row.ID, err)
		}
		return nil
	})
}

// replay applies the journal behind the checkpointed position and counts its bytes. Of the batch at the checkpointed position, which
// every checkpoint leaves in the journal, only the epoch is read: no other place holds it.
//
// A reload stops at the first batch of a newer epoch: while the outcome of an append was unknown, another writer has claimed the journal.
// Its handle is a fresh one, which would append behind whatever there is.
func (p *recovery) replay(ctx context.Context, m *machine.Machine) (bytes int64, err error) {
	checkpointed := m.AppliedAt
	err = p.s.journal.Read(ctx, max(checkpointed, 1)-1, func(position journal.Position, batch []byte) error {
		epoch, err := journal.Epoch(batch)
		if s := p.s; s.m != nil && epoch > s.m.Epoch {
			return fmt.Errorf("batch %d is of epoch %d, after this one's %d: %w", position, epoch, s.m.Epoch, journal.ErrConflict)
		}
		m.Epoch = max(m.Epoch, epoch)
		if err == nil && position > checkpointed {
			m.AppliedAt = position
			bytes += int64(len(batch))
			err = journal.Decode(batch, func(at queue.Time) { m.Now = at }, m)
		}
		if err != nil {
			return fmt.Errorf("journal: batch %d: %w", position, err)
		}
		return nil
	})
	if errors.Is(err, journal.ErrTrimmed) && p.s.m != nil { // this shard has trimmed nothing that it needs for a reload
		return bytes, fmt.Errorf("%w: %w", err, journal.ErrConflict)
	} else if errors.Is(err, journal.ErrTrimmed) {
		return bytes, fmt.Errorf("the journal begins behind batch %d, but the store holds only what was done up to there: the two files "+
			"are not of one moment; restore both from the same backup", checkpointed)
	}
	if s := p.s; err == nil && s.m != nil && m.AppliedAt < s.m.AppliedAt {
		err = fmt.Errorf("it ends at batch %d, and batch %d was acknowledged: %w", m.AppliedAt, s.m.AppliedAt, journal.ErrConflict)
	}
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

// pastRows reads the history for the ops of a replay that came before a row of it was written: a kill cut a checkpoint off behind that
// row. Ops about one submission come near each other, so what was read last is kept.
type pastRows struct {
	store *store.Store
	bySeq map[uint32]*machine.Past // nil: the history does not hold it
}

const pastKept = 1024

func (p *pastRows) find(ctx context.Context, seq uint32) (*machine.Past, error) {
	if found, asked := p.bySeq[seq]; asked {
		return found, nil
	}
	if p.bySeq == nil || len(p.bySeq) == pastKept {
		p.bySeq = map[uint32]*machine.Past{}
	}
	row, there, err := p.store.History.EndedBySeq(ctx, seq)
	if err != nil || !there {
		p.bySeq[seq] = nil
		return nil, err
	}
	r, sub, err := machine.EndedRecord(&row)
	p.bySeq[seq] = &machine.Past{Row: &row, Record: r, Sub: sub}
	return p.bySeq[seq], err
}

// sweep removes contents whose insert was never published and makes sure that their numbers are not drawn again.
func (p *recovery) sweep(ctx context.Context, m *machine.Machine) error {
	s := p.s
	ended := make(map[uint32]bool, len(m.Endings.InOrder))
	for _, r := range m.Endings.InOrder {
		ended[r.Seq] = true
	}
	n, err := s.store.SweepOrphans(ctx, func(seq uint32) bool { return ended[seq] || m.LiveSeq(seq) != nil })
	if err != nil {
		return err
	}
	if n > 0 {
		s.options.Logger.Info("removed contents of inserts that were never answered", "queue", s.options.Queue, "rows", n)
	}
	last, err := s.store.MaxSeq(ctx)
	m.NextSeq = max(m.NextSeq, last)
	return err
}

// recall takes from the history what must outlive a submission: its id is not drawn again, even if the clock was set back. reopenable gets
// what a redrive may open again, by seq, as far as outputs of it are in the log.
func (p *recovery) recall(ctx context.Context, m *machine.Machine, letters *deadletters.Part,
	reopenable map[uint32]*machine.Record) error {
	s := p.s
	newest, err := s.store.History.ListEnded(ctx, 0, endStates(), 1)
	if err != nil {
		return err
	}
	for i := range newest {
		m.LastID = max(m.LastID, newest[i].ID)
	}
	return s.recallLetters(ctx, m, letters, func(r *machine.Record) {
		if s.store.Logged(r.Seq) {
			reopenable[r.Seq] = r
		}
	})
}

// doubt finds the outputs whose completions were not committed: their chunks are not done, and may still be completed. At the first
// start everything in the log is looked at, at a reload only what is in doubt already.
func (p *recovery) doubt(ctx context.Context, m *machine.Machine, reopenable map[uint32]*machine.Record) error {
	s := p.s
	for _, r := range m.Endings.InOrder {
		if r.State == queue.CompletedWithDead {
			reopenable[r.Seq] = r
		}
	}
	stray := func(seq, index uint32) bool {
		if r := m.LiveSeq(seq); r != nil {
			return index < r.Chunks && m.Chunk(r, index).State != queue.ChunkDone
		}
		r := reopenable[seq]
		return r != nil && r.Tries[index] != nil
	}
	if s.m == nil {
		err := s.store.DoubtLogged(ctx, stray)
		if err == nil && s.snapshots.kept() {
			err = store.WithdrawDoubted(ctx, s.store)
		}
		return err
	}
	s.store.Doubts.TrustDone(func(seq, index uint32) bool { return !stray(seq, index) })
	return nil
}
