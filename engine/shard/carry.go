package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file is the reload after a commit of unknown outcome: what is durable is read again, and what is in memory only is carried over,
// as a failed commit makes none of it less true. Consumers go on with what they hold, and limits go on counting it.

// reload replaces the state by what the journal says, and carries over what it does not hold. Both mutexes are held.
//
// Outputs that are being written are waited for. Their completions are refused, as what decided them is gone; written later, they could
// take the place of the output of a repetition, or of the one who completes the chunk next.
func (s *Shard) reload(cause error) {
	s.Consumers.tellWaiting(func(*waiter) bool { return true }) // the views that they wait on are built again
	old, oldParts := s.m, s.parts
	if err := s.journal.Close(); err != nil {
		s.options.Logger.Warn("closing the journal before a reload", "error", err)
	}
	s.outputs.Lock()
	defer s.outputs.Unlock()
	if err := s.recovery.run(context.Background()); err != nil {
		if errors.Is(err, journal.ErrConflict) {
			s.writer.depose(err)
		}
		s.broken = err
		s.options.Logger.Error("reload failed", "queue", s.options.Queue, "cause", cause, "error", err)
		return
	}
	s.broken = nil
	s.m.Stats.Carry(&old.Stats)
	s.m.Endings.Rewatch(old)
	s.parts.carry(&oldParts)
	s.roster.Rewind()
	s.options.Logger.Warn("reloaded after a failed commit", "queue", s.options.Queue, "cause", cause)
}

// fence appends that this life of the shard goes on, or, at the start, that a new one begins: before its first token is handed out. The
// conditional append makes sure that no one else writes this journal, and that no append of unknown outcome comes to it later.
func (s *Shard) fence(ctx context.Context, m *machine.Machine, parts *parts, now queue.Time) error {
	epoch := m.Epoch
	if s.m == nil {
		epoch++
	}
	var enc journal.Encoder
	enc.Reset(epoch, now)
	enc.Epoch(epoch)
	begun := s.snapshots.begin(m, parts)
	if begun != nil {
		enc.Snapshot(begun)
	}
	ctx, giveUp := context.WithTimeout(ctx, appendPatience)
	defer giveUp()
	position, err := s.journal.Append(ctx, m.AppliedAt, enc.Packed())
	if err != nil {
		return fmt.Errorf("shard: start epoch %d: %w", epoch, err)
	}
	m.AppliedAt = position
	if err := m.ApplyEpoch(epoch); err != nil || begun == nil {
		return err
	}
	return m.ApplyPart(begun)
}
