package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Retain removes ended submissions that finished before the given time from the history, at most `most`, with all that
// belongs to them, but not those that have dead letters: no one is to lose one unasked (see Age). It is the worker's
// kind KindRetention: after a failure it pauses, a submission that cannot be removed is found and parked, and the
// others go.
func (s *Shard) Retain(ctx context.Context, finishedBefore queue.Time, most int) error {
	s.aging.Lock()
	defer s.aging.Unlock()
	now := s.now()
	s.mu.Lock()
	t := &s.Worker.kinds[KindRetention]
	if !t.may(now) {
		s.mu.Unlock()
		return nil
	}
	most = min(most, t.most())
	m := s.m
	due := m.opened > 0                                                 // the history still has rows of submissions that are open again
	due = due || len(m.gone) > 0 && m.gone[0].ended.at < finishedBefore // or lacks some that are past their time
	parked, pinned := m.pinned()
	if m.freed != 0 {
		s.DeadLetters.kept = min(s.DeadLetters.kept, m.freed)
		m.freed = 0
	}
	kept := s.DeadLetters.kept
	for a := range s.Worker.parked {
		if a.Kind == KindRetention {
			parked[a.Submission] = true
		}
	}
	s.mu.Unlock()
	if !pinned {
		return nil
	}
	if due {
		if err := s.Checkpoint(); err != nil {
			return err
		}
	}
	found, err := s.outlived(ctx, m, kept, finishedBefore, most, parked)
	if err == nil && len(found) > 0 && s.ahead.Load() {
		err = s.Checkpoint() // else a replay would insert them again, as the history lacks them
	}
	removed := 0
	if err == nil {
		removed, err = s.store.History.Forget(ctx, found)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gone := range found[:removed] {
		s.m.letters.keep(gone.ID, 0)
	}
	s.m.stats.acts[KindRetention].done += uint64(removed)
	if err == nil {
		t.pass(now, removed)
		return nil
	}
	t.fail(err, now, s.options.Seed())
	if left := found[removed:]; len(left) > 0 && !errors.Is(err, journal.ErrFull) && t.narrow(len(left)) {
		s.Worker.park(Action{Kind: KindRetention, Submission: left[0].ID}, err, now)
	}
	return err
}

// outlived finds submissions whose time is over, from `kept` on, but for those that are parked or have dead letters; and notes up to where
// there are none but such. The caller holds aging.
func (s *Shard) outlived(ctx context.Context, m *machine, kept, finishedBefore queue.Time, most int,
	parked map[queue.SubmissionID]bool) ([]store.Outlived, error) {
	onlyLetters := true // up to here
	found, err := s.store.History.Outlived(ctx, kept, finishedBefore, most, func(id queue.SubmissionID, finished queue.Time) bool {
		s.mu.Lock()
		letters := m.letters.ofEnded[id] > 0
		s.mu.Unlock()
		if onlyLetters = onlyLetters && letters; onlyLetters {
			kept = finished
		}
		return letters || parked[id]
	})
	if err == nil {
		s.DeadLetters.kept = kept
	}
	return found, err
}

// pinMost is how many dead letters on their way the retention looks at; as long as there are more it waits.
const pinMost = 1000

// pinned are the submissions of which the outbox still has something: the other queue needs their content. known: there are not too
// many to tell.
func (m *machine) pinned() (ids map[queue.SubmissionID]bool, known bool) {
	ids = map[queue.SubmissionID]bool{}
	if m.forwarding.outbox.len() > pinMost {
		return ids, false
	}
	for i := range m.forwarding.outbox.list {
		if o := &m.forwarding.outbox.list[i]; o.Queue != "" {
			ids[o.Chunk.Submission] = true
		}
	}
	return ids, true
}
