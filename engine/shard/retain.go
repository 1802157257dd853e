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

// overdue is what KindRetention is behind with: the moments from which the oldest ended submission and the oldest dead letter should be
// gone that are not, 0 for none. The shard's mutex guards it.
type overdue struct{ ended, letter queue.Time }

// since is the older of the two.
func (o *overdue) since() (at queue.Time, any bool) {
	if o.ended == 0 || o.letter != 0 && o.letter < o.ended {
		return o.letter, o.letter != 0
	}
	return o.ended, true
}

// Retain removes ended submissions that finished before the given time from the history, at most `most`, with all that
// belongs to them, but not those that have dead letters: no one is to lose one unasked (see Age). more says that there may be more of
// them. It is the worker's kind KindRetention: after a failure it pauses, a submission that cannot be removed is found and parked, and the
// others go.
func (s *Shard) Retain(ctx context.Context, finishedBefore queue.Time, most int) (more bool, err error) {
	s.aging.Lock()
	defer s.aging.Unlock()
	now := s.now()
	s.mu.Lock()
	t := &s.Worker.kinds[machine.KindRetention]
	if !t.may(now) {
		s.mu.Unlock()
		return false, nil
	}
	if t.limit > 0 {
		most = min(most, t.limit)
	}
	m, part := s.m, s.parts.letters
	// The history still has rows of submissions that are open again, or lacks some that are past their time. While it has others to remove,
	// those can wait: a checkpoint for every slice would take longer than the slice.
	gone := m.Endings.InOrder
	due := m.Endings.Opened > 0 || s.Worker.overdue.ended == 0 && len(gone) > 0 && gone[0].Ended.At < finishedBefore
	stays, known := s.staying(part)
	kept := s.DeadLetters.kept
	s.mu.Unlock()
	if !known {
		return false, nil
	}
	if due {
		if err := s.checkpoints.now(); err != nil {
			return false, err
		}
	}
	found, err := s.outlived(ctx, part, kept, finishedBefore, most, stays)
	if err == nil && len(found) > 0 && s.ahead.Load() {
		err = s.checkpoints.now() // else a replay would insert them again, as the history lacks them
	}
	removed, oldest, youngest := 0, finishedBefore, finishedBefore
	if len(found) > 0 {
		oldest, youngest = found[0].Finished, found[len(found)-1].Finished
	}
	if err == nil {
		removed, err = s.store.History.Forget(ctx, found)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gone := range found[:removed] {
		s.parts.letters.Keep(gone.ID, 0)
	}
	s.m.Stats.Acts[machine.KindRetention].Done += uint64(removed)
	more = err == nil && len(found) == most
	switch {
	case more: // what follows ended no earlier
		s.Worker.overdue.ended = youngest.Add(now.Sub(finishedBefore))
	case err != nil && len(found) > 0:
		s.Worker.overdue.ended = oldest.Add(now.Sub(finishedBefore))
	case err == nil:
		s.Worker.overdue.ended = 0
	}
	if err == nil {
		t.pass(now, removed)
		return more, nil
	}
	t.fail(err, now, s.options.Seed())
	if left := found[removed:]; len(left) > 0 && !errors.Is(err, journal.ErrFull) && t.narrow(len(left)) {
		s.Worker.park(machine.Action{Kind: machine.KindRetention, Submission: left[0].ID}, err, now)
	}
	return false, err
}

// staying are ended submissions that have to stay whatever their age: their letters are on their way, or they are parked. false: there are
// too many of them. The mutex is held.
func (s *Shard) staying(part *deadletters.Part) (ids map[queue.SubmissionID]bool, known bool) {
	ids, known = part.Pinned()
	if freed := &s.m.Endings.Freed; *freed != 0 {
		s.DeadLetters.kept = min(s.DeadLetters.kept, *freed)
		*freed = 0
	}
	for a := range s.Worker.parked {
		if a.Kind == machine.KindRetention {
			ids[a.Submission] = true
		}
	}
	return ids, known
}

// retained is how many ended submissions and dead letters wait for their retention to be over. The mutex is held.
func (w *Worker) retained() (n uint64) {
	s := w.s
	if s.m.Settings.Retention > 0 {
		all, letters := s.store.History.Len()+len(s.m.Endings.ByID), len(s.parts.letters.OfEnded)
		n = uint64(max(all-letters, 0))
	}
	if s.m.Settings.DeadRetention > 0 {
		n += s.m.Stats.Dead + s.m.Stats.EndedLetters
	}
	return n
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
