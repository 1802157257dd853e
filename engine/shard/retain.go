package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
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
	t := &s.Worker.kinds[machine.KindRetention]
	if !t.may(now) {
		s.mu.Unlock()
		return nil
	}
	most = min(most, t.most())
	m, part := s.m, s.parts.letters
	// The history still has rows of submissions that are open again, or lacks some that are past their time.
	gone := m.Endings.InOrder
	due := m.Endings.Opened > 0 || len(gone) > 0 && gone[0].Ended.At < finishedBefore
	parked, pinned := part.Pinned()
	if m.Endings.Freed != 0 {
		s.DeadLetters.kept = min(s.DeadLetters.kept, m.Endings.Freed)
		m.Endings.Freed = 0
	}
	kept := s.DeadLetters.kept
	for a := range s.Worker.parked {
		if a.Kind == machine.KindRetention {
			parked[a.Submission] = true
		}
	}
	s.mu.Unlock()
	if !pinned {
		return nil
	}
	if due {
		if err := s.checkpoints.now(); err != nil {
			return err
		}
	}
	found, err := s.outlived(ctx, part, kept, finishedBefore, most, parked)
	if err == nil && len(found) > 0 && s.ahead.Load() {
		err = s.checkpoints.now() // else a replay would insert them again, as the history lacks them
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
		s.parts.letters.Keep(gone.ID, 0)
	}
	s.m.Stats.Acts[machine.KindRetention].Done += uint64(removed)
	if err == nil {
		t.pass(now, removed)
		return nil
	}
	t.fail(err, now, s.options.Seed())
	if left := found[removed:]; len(left) > 0 && !errors.Is(err, journal.ErrFull) && t.narrow(len(left)) {
		s.Worker.park(machine.Action{Kind: machine.KindRetention, Submission: left[0].ID}, err, now)
	}
	return err
}

// outlived finds submissions whose time is over, from `kept` on, but for those that are parked or have dead letters; and notes up to where
// there are none but such. The caller holds aging.
func (s *Shard) outlived(ctx context.Context, part *deadletters.Part, kept, finishedBefore queue.Time, most int,
	parked map[queue.SubmissionID]bool) ([]store.Outlived, error) {
	onlyLetters := true // up to here
	found, err := s.store.History.Outlived(ctx, kept, finishedBefore, most, func(id queue.SubmissionID, finished queue.Time) bool {
		s.mu.Lock()
		letters := part.OfEnded[id] > 0
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
