package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file is the reload after a commit of unknown outcome: what is durable is read
// again, and what is in memory only is carried over, as a failed commit makes none of it
// less true. Consumers go on with what they hold, and limits go on counting it.

// reload replaces the state by what the journal says, and carries over what it does not
// hold. It is a start in all but that, and has to claim the journal likewise. It runs in
// the writer, so nothing is appended meanwhile, and without the mutexes: reloading has
// calls that change anything refused, and others see the state as it was. A stop ends it.
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

// reloaded ends a reload that came so far. The mutex is held.
//
// Waiters are sent round again before the state is replaced, as they stand on views of the old
// backlog. Served from those, they would get chunks that no one counts.
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
	next := &Prepared{options: s.options, own: s.own, copies: s.snapshots.copies, before: s.m}
	if err := next.read(ctx); err != nil {
		return nil, err
	}
	if err := next.claim(ctx); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// reloadAgain makes a reload again, unless that is not needed any more, or of no use.
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

// depose ends all writing, for good: another writer has the journal. Whatever is in memory
// may be behind what that one does. The mutex is held.
func (s *Shard) depose(cause error) {
	if s.lost == nil {
		s.lost = cause
		s.dismiss()
		s.options.Logger.Error("another writer has the journal: this queue is not served here any more", "queue",
			s.options.Queue, "error", cause)
	}
}
