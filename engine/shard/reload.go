package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
)

// This file is the reload after a commit of unknown outcome: what is durable is read again, and what is in memory only is carried over,
// as a failed commit makes none of it less true. Consumers go on with what they hold, and limits go on counting it.

// reload replaces the state by what the journal says, and carries over what it does not hold. Both mutexes are held.
func (s *Shard) reload(cause error) {
	s.Consumers.tellWaiting(func(*waiter) bool { return true }) // the views that they wait on are built again
	if err := s.journal.Close(); err != nil {
		s.options.Logger.Warn("closing the journal before a reload", "error", err)
	}
	s.ahead.Store(true)
	if err := s.remake(context.Background()); err != nil {
		if errors.Is(err, journal.ErrConflict) {
			s.writer.depose(err)
		}
		s.broken = err
		s.options.Logger.Error("reload failed", "queue", s.options.Queue, "cause", cause, "error", err)
		return
	}
	s.broken = nil
	s.options.Logger.Warn("reloaded after a failed commit", "queue", s.options.Queue, "cause", cause)
}

// remake prepares the shard again, and claims its journal.
func (s *Shard) remake(ctx context.Context) error {
	p := &Prepared{options: s.options, own: s.own, copies: s.snapshots.copies, before: s.m}
	if err := p.read(ctx); err != nil {
		return err
	}
	err := p.claim(ctx)
	if err == nil {
		err = s.take(p)
	}
	if err != nil {
		p.Close()
	}
	return err
}
