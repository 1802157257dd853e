package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
)

// This file is the reload after a commit of unknown outcome: what is durable is read again, and what is in memory only is carried over,
// as a failed commit makes none of it less true. Consumers go on with what they hold, and limits go on counting it.

// reload replaces the state by what the journal says, and carries over what it does not hold. It is a start in all but that, and has to
// claim the journal likewise. It runs in the writer, so nothing is appended meanwhile, and without the mutexes: reloading has calls that
// change anything refused, and others see the state as it was. A stop ends it.
func (p *writer) reload(cause error) {
	s := p.s
	resume, err := s.checkpoints.pause(s.alive)
	defer resume()
	var next *Prepared
	if err == nil {
		next, err = p.remake(s.alive)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Consumers.tellWaiting(func(*waiter) bool { return true }) // the views that they wait on go with the old state
	if err == nil {
		err = s.take(next)
	}
	s.reloading, s.broken = false, err
	switch {
	case err == nil:
		s.waiters.serve(s.now())
		s.options.Logger.Warn("reloaded after a failed commit", "queue", s.options.Queue, "cause", cause)
		return
	case errors.Is(err, journal.ErrConflict):
		p.depose(err)
	}
	s.options.Logger.Error("reload failed", "queue", s.options.Queue, "cause", cause, "error", err)
}

// remake prepares the shard again, and claims its journal.
func (p *writer) remake(ctx context.Context) (*Prepared, error) {
	s := p.s
	if err := s.journal.Close(); err != nil {
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

// again has the writer make a reload again that failed, and waits for it.
func (p *writer) again() {
	done := make(chan struct{})
	select {
	case p.heal <- done:
		<-done
	case <-p.ended:
	}
}

// reloadAgain makes a reload again, unless that is not needed any more, or of no use.
func (p *writer) reloadAgain() {
	s := p.s
	s.mu.Lock()
	cause := s.broken
	s.reloading = cause != nil && s.lost == nil && !s.closed
	reloads := s.reloading
	s.mu.Unlock()
	if reloads {
		p.reload(cause)
	}
}
