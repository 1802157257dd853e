package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/submissions"
	"github.com/quern-queue/quern/engine/store"
)

// Prepared is a shard as its files have it: the rows of its store, and the journal behind them. The files are unchanged
// so far, and another writer may still have the journal. Claim makes it the owner. A start, a reload and a takeover are
// these two steps.
//
//	store rows        journal
//	(each true up to  ┌──────────────┬──────────────────────────┐
//	 its position)    │ checkpointed │ batches behind it         │ tail
//	      │           └──────────────┴──────────────────────────┘
//	      └─ load ─►  machine  ◄─ replay: the same Apply methods as live
//
// A row may be younger than the position at which the replay begins, as a checkpoint can be cut off after any of its
// rows. So the replay of an op passes over every row that is younger than the op (Machine.target).
type Prepared struct {
	options Options
	journal journal.Journal
	m       *machine.Machine
	parts   parts
	before  *machine.Machine // of a reload: the machine that it replaces; nil: of a start
	own     *ownership

	checkpointed journal.Position // the rows of the store are complete up to here
	replayed     int64            // bytes of the journal behind that
	copies       *copies
	blobs        contents.Start

	claimed journal.Position  // of the batch with which Claim began the epoch
	begun   *journal.Snapshot // the op about snapshots in that batch; nil: none
}

// ownership is the shard's knowledge of its place in its journal.
type ownership struct {
	epoch uint32 // the newest that is its own
	tried []byte // a claim of the next epoch that may be in the journal; nil: there is none
}

// Prepare reads the files of a shard. It changes none of them.
func Prepare(ctx context.Context, o Options) (*Prepared, error) {
	o.fill()
	p := &Prepared{options: o, own: new(ownership), copies: &copies{kept: o.Copies.Snapshots != nil},
		blobs: contents.Start{Files: o.files()}}
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Close closes the journal of a shard that will not be claimed.
func (p *Prepared) Close() error { return p.journal.Close() }

// read opens the journal and makes the machine. After an error the journal is closed.
func (p *Prepared) read(ctx context.Context) (err error) {
	if p.journal, err = p.options.Journal(ctx); err != nil {
		return deposed(err)
	}
	if err = p.restore(ctx); err != nil {
		p.journal.Close()
	}
	return deposed(err)
}

// restore builds the state from the store's rows and the journal behind them.
func (p *Prepared) restore(ctx context.Context) (err error) {
	o := &p.options
	m := machine.New(o.ID, o.Key, o.Settings, queue.At(o.Now()))
	p.m, p.parts = m, join(m)
	m.Storage = machine.Storage{Contents: o.Store.Memtable.KeepContents, Output: o.Store.Memtable.KeepOutput,
		Replaced: o.Store.Replaced.Put}
	if o.Audit.Last != nil {
		if m.ActLog.Last, err = o.Audit.Last(); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{p.load, p.replay, p.recall, p.checkBlobs} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// load reads the rows.
func (p *Prepared) load(ctx context.Context) error {
	m, rows := p.m, p.options.Store
	checkpointed, err := rows.Checkpointed(ctx)
	if err != nil {
		return err
	}
	tail, err := p.journal.Tail(ctx)
	if err != nil {
		return err
	}
	if tail < checkpointed {
		return fmt.Errorf("the journal ends at batch %d, but the store holds what batch %d did: the two files are "+
			"not of one moment; restore both from the same backup", tail, checkpointed)
	}
	p.checkpointed, m.AppliedAt, m.Replay = checkpointed, checkpointed, true
	ended, past := endedIDs{store: rows}, pastRows{store: rows}
	m.Recovery.History.Past = func(seq uint32) (*machine.Past, error) { return past.find(ctx, seq) }
	m.Recovery.History.Holds = func(id queue.SubmissionID) (bool, error) { return ended.has(ctx, id) }
	if err := rows.Asides(ctx, m.Asides.Load); err != nil {
		return err
	}
	if p.before != nil {
		m.Tokens.Carry(p.before)
	}
	defer m.Recovery.Uncounted()
	return rows.Load(ctx, func(row checkpoint.Row) error {
		if err := m.Recovery.Load(row.Spec, row.State); err != nil {
			return fmt.Errorf("store: submission %s: %w", row.ID, err)
		}
		return ctx.Err()
	})
}

// replay applies the journal behind the checkpointed position and counts its bytes. Every checkpoint leaves the batch
// at that position in the journal. Of this batch only the epoch is read: no other place holds it.
func (p *Prepared) replay(ctx context.Context) error {
	err := p.readOn(ctx, max(p.checkpointed, 1)-1)
	trimmed := errors.Is(err, journal.ErrTrimmed)
	switch m := p.m; {
	case trimmed && p.before != nil: // this shard never trims batches that it needs for a reload
		return fmt.Errorf("%w: %w", err, journal.ErrConflict)
	case trimmed:
		return fmt.Errorf("the journal begins behind batch %d, but the store holds only what was done up to there: "+
			"the two files "+
			"are not of one moment; restore both from the same backup", p.checkpointed)
	case err == nil && p.before != nil && m.AppliedAt < p.before.AppliedAt:
		return fmt.Errorf("it ends at batch %d, and batch %d was acknowledged: %w", m.AppliedAt, p.before.AppliedAt,
			journal.ErrConflict)
	}
	return err
}

// readOn applies the batches behind a position.
//
// A reload stops at the first batch of a newer epoch that it did not begin: while the outcome of an append was unknown,
// another writer has claimed the journal. The reload has a new handle, which would append behind the batches of any
// writer.
//
// Without that stop, a reload would append behind the other writer's batches, and two servers would hand out the same
// chunks.
func (p *Prepared) readOn(ctx context.Context, after journal.Position) error {
	m := p.m
	return p.journal.Read(ctx, after, func(position journal.Position, batch []byte) error {
		epoch, err := journal.Epoch(batch)
		if p.own.tried != nil && bytes.Equal(batch, p.own.tried) {
			p.own.epoch = epoch
		}
		if p.before != nil && epoch > p.own.epoch {
			return fmt.Errorf("batch %d is of epoch %d, after this one's %d: %w", position, epoch, p.own.epoch,
				journal.ErrConflict)
		}
		m.Epoch = max(m.Epoch, epoch)
		if err == nil && position > p.checkpointed {
			m.AppliedAt = position
			p.replayed += int64(len(batch))
			err = journal.Decode(batch, func(at queue.Time) { m.Now = at }, m)
			if p.before == nil || position <= p.before.AppliedAt {
				m.Recovery.Uncounted()
			}
		}
		if err != nil {
			return fmt.Errorf("journal: batch %d: %w", position, err)
		}
		return nil
	})
}

// CatchUp reads the batches that another writer has appended since Prepare, so that Claim has little to do.
// journal.ErrTrimmed: Prepare was too long ago, and has to be called again.
func (p *Prepared) CatchUp(ctx context.Context) error {
	before := p.m.AppliedAt
	if err := p.readOn(ctx, before); err != nil || p.m.AppliedAt == before {
		return err
	}
	return p.checkBlobs(ctx)
}

// checkBlobs makes sure that the blobs that inserts name are there.
func (p *Prepared) checkBlobs(ctx context.Context) error {
	return p.blobs.Check(ctx, p.m, p.parts.snapshots.Newest().Kept)
}

// recall takes from the history the state that must outlive a submission, such as its id: no id is drawn again, even if
// the clock was set back.
func (p *Prepared) recall(ctx context.Context) error {
	rows := p.options.Store
	newest, err := rows.History.ListEnded(ctx, 0, submissions.EndStates(), 1)
	if err != nil {
		return err
	}
	for i := range newest {
		p.m.LastID = max(p.m.LastID, newest[i].ID)
	}
	return deadletters.Recall(ctx, rows, p.parts.letters)
}

// endedIDs answers whether the history holds a submission, for the inserts of a replay. Their ids come in nearly
// growing order, so it reads all ids from a little before the first one at once: a query for each would take longer
// than the rest of the replay.
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
		note := func(id queue.SubmissionID) { e.ids[id] = struct{}{} }
		if err := e.store.History.EndedSince(ctx, e.from, note); err != nil {
			return false, err
		}
	}
	_, held := e.ids[id]
	return held, nil
}

// pastRows reads the history for ops of a replay that are older than a row of the history: a kill cut a checkpoint off
// behind that row. Ops about one submission come near each other, so the last rows read are kept.
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

// This file is the reload after a commit of unknown outcome. It reads the durable state again, and carries over the
// state that is only in memory, which a failed commit does not change. Consumers keep their chunks, and limits go on
// counting them.

// reload replaces the state by that of the journal, and carries over the state that is only in memory. Otherwise it is
// like a start, and has to claim the journal too. It runs in the writer, so nothing is appended meanwhile, and without
// the mutexes: `reloading` refuses calls that change anything, and others see the state as it was. A stop ends it.
func (s *Shard) reload(cause error) {
	resume, err := s.checkpoints.pause(s.alive)
	defer resume()
	var next *Prepared
	if err == nil {
		next, err = s.remake(s.alive)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.held(func() { s.reloaded(next, cause, err) })
}

// reloaded ends a reload, successful or not. The mutex is held.
//
// Waiters have to ask again before the state is replaced, as they wait on views of the old backlog. From these they
// would get chunks that no one counts.
func (s *Shard) reloaded(next *Prepared, cause, err error) {
	s.waiters.Again(func(*machine.Request) bool { return true }) // the views that they wait on go with the old state
	if err == nil {
		err = s.take(next)
	}
	s.reloading, s.broken = false, err
	switch {
	case err == nil:
		s.waiters.Serve(s.now())
		s.options.Logger.Warn("reloaded after a failed commit", "queue", s.options.Queue, "cause", cause)
		return
	case errors.Is(err, journal.ErrConflict):
		s.depose(err)
	}
	s.options.Logger.Error("reload failed", "queue", s.options.Queue, "cause", cause, "error", err)
}

// remake prepares the shard again, and claims its journal.
func (s *Shard) remake(ctx context.Context) (*Prepared, error) {
	if err := s.writer.journal.Close(); err != nil {
		s.options.Logger.Warn("closing the journal before a reload", "error", err)
	}
	s.ahead.Store(true)
	next := &Prepared{options: s.options, own: s.own, copies: s.snapshots.copies, before: s.m,
		blobs: contents.Start{Files: s.options.files()}}
	if err := next.read(ctx); err != nil {
		return nil, err
	}
	if err := next.claim(ctx); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// reloadAgain tries a failed reload again, unless that is no longer needed, or of no use.
func (s *Shard) reloadAgain() {
	var cause error
	reloads := false
	s.mu.held(func() {
		cause = s.broken
		reloads = cause != nil && s.lost == nil && !s.closed
		s.reloading = reloads
	})
	if reloads {
		s.reload(cause)
	}
}

// refused decides what to do after a failed append. The mutex is held.
func (s *Shard) refused(cause error) (reloads bool) {
	conflict := errors.Is(cause, journal.ErrConflict)
	if conflict {
		s.depose(cause)
	}
	reloads = !conflict && !errors.Is(cause, journal.ErrFull) && s.lost == nil
	if s.reloading = reloads; !reloads {
		s.waiters.Serve(s.now())
	}
	return reloads
}

// depose ends all writing, for good: another writer has the journal. Memory may be behind that writer's state. The
// mutex is held.
func (s *Shard) depose(cause error) {
	if s.lost == nil {
		s.lost = cause
		s.dismiss()
		s.options.Logger.Error("another writer has the journal: this queue is not served here any more", "queue",
			s.options.Queue, "error", cause)
	}
}
