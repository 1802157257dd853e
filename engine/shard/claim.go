package shard

// The second step of a start, a reload and a takeover: from a state that was read to a shard that
// owns its journal.
//
//	begin        append the next epoch, on the condition that the journal ends where it was read to
//	               refused: another writer came first ─► moved
//	               unknown: own.tried remembers the batch; the next read finds out whether it is there
//	Fetch        copies of blobs that the store lacks
//	Sweep        blobs that no submission names
//	recallAwaited  how submissions ended that others wait for
//	sweep        contents of inserts that were never published
//	take         the machine becomes the shard's
//
// Everything that deletes comes after begin. Only the owner of the journal knows that no one else needs the deleted
// data.

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Claim makes the shard the owner of its journal, and starts its goroutines. Its error has
// the code moved when another writer has claimed the journal since it was prepared. After
// an error the journal is closed.
func (p *Prepared) Claim(ctx context.Context) (*Shard, error) {
	s := newShard(ctx, p)
	err := p.claim(ctx)
	if err == nil {
		err = s.take(p)
	}
	if err != nil {
		p.Close()
		return nil, deposed(err)
	}
	go s.writer.run()
	go s.checkpoints.run()
	return s, nil
}

// deposed gives the error of a conflict (another writer has the journal) the code that callers know.
func deposed(err error) error {
	if errors.Is(err, journal.ErrConflict) {
		return commit.Moved(err)
	}
	return err
}

// claim begins an epoch in the journal, before its first token is handed out. The
// conditional append makes sure that no one else writes this journal, and that no append of unknown outcome comes to it
// later. Then it removes the leftovers of the earlier life.
func (p *Prepared) claim(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	var journaled map[string]bool // nil: the contents of the newest snapshot are not known
	if p.before == nil && p.options.Copies.Snapshots != nil {
		var err error
		if journaled, err = p.findCopies(ctx); err != nil {
			return err
		}
	}
	if err := p.blobs.Fetch(ctx); err != nil {
		return err
	}
	past := pastRows{store: p.options.Store}
	if err := p.blobs.Sweep(ctx, p.m, p.own.epoch, journaled, past.find); err != nil {
		return err
	}
	if err := p.recallAwaited(ctx); err != nil {
		return err
	}
	if err := p.sweep(ctx); err != nil {
		return err
	}
	// a crash may have cut off the last checkpoint's trim
	if err := p.journal.Trim(ctx, p.copies.needless(p.checkpointed)); err != nil {
		return err
	}
	return p.journal.SetDurability(p.m.Settings.Durability)
}

// begin appends the batch that begins the epoch. A server that stood still and is the owner no longer does not: it
// would depose the new owner.
func (p *Prepared) begin(ctx context.Context) (err error) {
	if p.options.Owner.Own != nil && !p.options.Owner.Own() {
		return errMoving
	}
	epoch := p.m.Epoch + 1
	var enc journal.Encoder
	enc.Reset(epoch, queue.At(p.options.Now()))
	enc.Epoch(epoch)
	if p.begun = p.ofCopies(); p.begun != nil {
		enc.Snapshot(p.begun)
	}
	ctx, giveUp := context.WithTimeout(ctx, p.options.Owner.Patience)
	defer giveUp()
	batch := enc.Packed()
	if p.claimed, err = p.journal.Append(ctx, p.m.AppliedAt, batch); err != nil {
		if p.own.tried = nil; errors.Is(err, journal.ErrUnknown) {
			p.own.tried = batch
		}
		return fmt.Errorf("shard: start epoch %d: %w", epoch, err)
	}
	p.own.epoch, p.own.tried = epoch, nil
	return nil
}

// recallAwaited asks the history how submissions ended that others wait for: a crash may have come before the end was
// written for all of the others.
func (p *Prepared) recallAwaited(ctx context.Context) error {
	for _, id := range p.m.Afters.Unknown() {
		state, found, err := inserts.EndedAs(ctx, p.options.Store, id)
		if err != nil {
			return err
		}
		if found {
			p.m.Afters.Know(id, state)
		}
	}
	return nil
}

// sweep removes contents whose insert was never published, and reserves their numbers so
// that they are not used again.
func (p *Prepared) sweep(ctx context.Context) error {
	m, rows := p.m, p.options.Store
	ended := make(map[uint32]bool, len(m.Endings.InOrder))
	for _, r := range m.Endings.InOrder {
		ended[r.Seq] = true
	}
	n, err := rows.SweepOrphans(ctx, func(seq uint32) bool { return ended[seq] || m.LiveSeq(seq) != nil })
	if err != nil {
		return err
	}
	if n > 0 {
		p.options.Logger.Info("removed contents of inserts that were never answered", "queue", p.options.Queue, "rows",
			n)
	}
	last, err := rows.MaxSeq(ctx)
	m.Numbered(last)
	return err
}

// take starts the shard from its prepared and claimed state. The mutex is held, or no
// other goroutine knows the shard yet.
//
// Three kinds of lives begin here. A reload carries over the state in memory. A start after an orderly stop restores
// the reservations that the stop wrote. A start after a crash does not know which chunks consumers hold, so limits are
// restrained for the restart grace. The very first life (epoch 0) needs none: no one can hold anything.
func (s *Shard) take(p *Prepared) error {
	m, parts, now := p.m, &p.parts, s.now()
	m.Roster, m.Runs.Ever, m.Runs.Lately = s.roster, s.options.Seconds.Run, s.options.Seconds.Lately
	parts.settings.Report = passSettings(s)
	switch {
	case p.before != nil:
		m.Recovery.Carry(p.before, now)
	case parts.stops.InOrder:
		parts.stops.Resume(now)
	case m.Epoch > 0: // the reservations of consumers are not known, but in the first life there are none
		m.ValueLimits.Restrain(now, m.Settings.RestartGrace)
	}
	if m.Epoch > 0 { // rates are not written: they begin as if all had just been used
		m.Backlog.Values.Rates.Begin(s.options.Now().UnixNano())
	}
	m.Recovery.Replayed(now)
	m.AppliedAt = p.claimed
	if err := m.ApplyEpoch(p.own.epoch); err != nil {
		return err
	}
	if p.begun != nil {
		if err := m.ApplyPart(p.begun); err != nil {
			return err
		}
	}
	if p.before != nil {
		s.carry(p)
	}
	s.m, s.parts = m, p.parts
	s.writer.journal, s.writer.m = p.journal, m
	s.parts.ends.Reach(m.AppliedAt)
	s.Ends.Tell()
	s.countLive()
	s.noteSpecial()
	s.Consumers.Stir()
	s.checkpoints.restart(p.replayed)
	return nil
}

// passSettings passes settings of operators on to the queue. Calls that took the shard for the whole queue ask again
// when it gets more shards. The mutex is held.
func passSettings(s *Shard) func(list []journal.Set, all bool) {
	return func(list []journal.Set, all bool) {
		if s.options.Set != nil {
			s.options.Set(list, all)
		}
		if !all && s.m.Settings.Shards > 1 {
			s.waiters.Again(func(q *machine.Request) bool { return q.Whole })
		}
	}
}

// carry keeps the state that survives a reload.
func (s *Shard) carry(p *Prepared) {
	p.m.Stats.Totals.Carry(&p.before.Stats.Totals)
	p.m.Endings.Rewatch(&p.before.Endings, p.m.Live)
	p.parts.carry(&s.parts)
	s.roster.Rewind()
}
