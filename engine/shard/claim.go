package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Claim makes the shard the owner of its journal, and starts its goroutines. Its error has the code moved when another writer has claimed
// the journal since it was prepared. After an error the journal is closed.
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

// deposed gives an error that says that another writer has the journal the code that callers know.
func deposed(err error) error {
	if errors.Is(err, journal.ErrConflict) {
		return moved(err)
	}
	return err
}

// claim begins an epoch in the journal, before its first token is handed out. The conditional append makes sure that no one else writes
// this journal, and that no append of unknown outcome comes to it later. What the life before has left is removed behind it.
func (p *Prepared) claim(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if p.before == nil && p.options.Snapshots != nil {
		if err := p.findCopies(ctx); err != nil {
			return err
		}
	}
	if err := p.sweep(ctx); err != nil {
		return err
	}
	// what a crash left of the last checkpoint's trim
	if err := p.journal.Trim(ctx, p.copies.needless(p.checkpointed)); err != nil {
		return err
	}
	return p.journal.SetDurability(p.m.Settings.Durability)
}

// begin appends the batch that begins the epoch.
func (p *Prepared) begin(ctx context.Context) (err error) {
	epoch := p.m.Epoch + 1
	var enc journal.Encoder
	enc.Reset(epoch, queue.At(p.options.Now()))
	enc.Epoch(epoch)
	if p.begun = p.ofCopies(); p.begun != nil {
		enc.Snapshot(p.begun)
	}
	ctx, giveUp := context.WithTimeout(ctx, appendPatience)
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

// sweep removes contents whose insert was never published and makes sure that their numbers are not drawn again.
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
		p.options.Logger.Info("removed contents of inserts that were never answered", "queue", p.options.Queue, "rows", n)
	}
	last, err := rows.MaxSeq(ctx)
	m.Numbered(last)
	return err
}

// take has the shard go on from what was prepared and claimed. The mutex is held, or no one else knows the shard yet.
func (s *Shard) take(p *Prepared) error {
	m, parts, now := p.m, &p.parts, s.now()
	m.Holders.Roster, m.Ran, parts.settings.Report = s.roster, s.options.Seconds.Run, s.options.Set
	switch {
	case p.before != nil:
		m.Recovery.Carry(p.before, now)
	case parts.stops.InOrder:
		parts.stops.Resume(now)
	default:
		m.ValueLimits.Restrain(now) // no one can tell what consumers hold
	}
	m.Recovery.Settle(now)
	parts.settle()
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
	s.journal, s.m, s.parts = p.journal, m, p.parts
	s.parts.ends.Settle(m.AppliedAt)
	s.Ends.tell()
	s.countLive()
	s.noteSpecial()
	s.Consumers.stirAttached()
	s.checkpoints.restart(p.replayed)
	return nil
}

// carry keeps what goes on over a reload.
func (s *Shard) carry(p *Prepared) {
	p.m.Stats.Carry(&p.before.Stats)
	p.m.Endings.Rewatch(p.before)
	p.parts.carry(&s.parts)
	s.roster.Rewind()
}
