package shard

// Reserves of a queue that has several shards. The queue looks at the heads of all shards, and takes from the one whose
// turn it is (package merge). When there is nothing it waits in all shards at once:
//
//	Heads of 1, 2, 3 ─► turns ─► Reserve with Request.Turn ─► Heads …
//	     nothing ─► Heads of 1, 2, 3, listening ─► a sign of any of them ─► Heads …
//
// A call that listens gets a sign and not a chunk, because only the queue knows whose turn it is. The look and the wait
// begin in one hold of the mutex, so no chunk can become available between the two.

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Listening is a call that waits in several shards. Each sends one sign at most through Signs, which has room for all.
type Listening struct {
	Request machine.Request
	Signs   chan []machine.Pick
	parked  []func()
}

// Stop ends the wait in all shards.
func (l *Listening) Stop() {
	for _, unpark := range l.parked {
		unpark()
	}
}

// Heads are what the branches of a plan give next in this shard, in their order; the zero Head:
// nothing. They are appended to dst. The branches are neither fair nor scored. If there is nothing
// at all, the listening call waits in this shard from then on; nil: no call does.
func (s *Shard) Heads(ctx context.Context, plan *strategy.Plan, dst []backlog.Head,
	listening *Listening) (heads []backlog.Head, err error) {
	from, again := len(dst), true
	for heads = dst; err == nil && again; {
		s.mu.held(func() {
			heads, again, err = look(ctx, s, plan, heads[:from])
			if listening != nil && err == nil && !again && nothingIn(heads[from:]) {
				listening.Request.Asks = true
				w := s.waiters.ParkAt(&listening.Request, listening.Signs)
				listening.parked = append(listening.parked, func() { s.mu.held(func() { s.waiters.Unpark(w) }) })
			}
		})
	}
	return heads, err
}

func nothingIn(heads []backlog.Head) bool {
	for _, h := range heads {
		if h != (backlog.Head{}) {
			return false
		}
	}
	return true
}

// look is one hold of the mutex of Heads; again: it has to go on. The mutex is held.
func look(ctx context.Context, s *Shard, plan *strategy.Plan,
	dst []backlog.Head) (heads []backlog.Head, again bool, err error) {
	now := s.now()
	if err := s.handsOut(now); err != nil {
		return dst, false, err
	}
	if err := s.m.Backlog.Views.Admit(plan); err != nil {
		return dst, false, err
	}
	views, unbuilt := s.m.Views(plan, s.views[:0])
	if s.views = views; unbuilt != nil {
		return dst, true, s.Views.Build(ctx, s.m.Backlog, unbuilt)
	}
	if s.alarm.advance() {
		s.waiters.Serve(now)
	}
	s.m.Seed(s.options.Seed())
	heads, again = machine.Heads(s.m, views, dst)
	return heads, again, nil
}
