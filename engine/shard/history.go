package shard

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// finalState is the state in the changing part of a history row, which begins with the reason of the end.
func finalState(final []byte) ([]byte, error) {
	n, size := binary.Uvarint(final)
	if size <= 0 || n > uint64(len(final)-size) {
		return nil, errSnapshot
	}
	return final[size+int(n):], nil
}

// Retain removes ended submissions that finished before the given time from the history, at most `most`, with all that
// belongs to them, their dead letters too.
func (s *Shard) Retain(ctx context.Context, finishedBefore queue.Time, most int) error {
	s.aging.Lock()
	defer s.aging.Unlock()
	s.mu.Lock()
	opened := s.m.opened > 0
	s.mu.Unlock()
	if opened { // the history still has rows of submissions that are open again
		if err := s.Fold(); err != nil {
			return err
		}
	}
	finishedBefore, err := s.pinned(ctx, finishedBefore)
	if err != nil {
		return err
	}
	ids, err := s.store.Retain(ctx, finishedBefore, most)
	s.mu.Lock()
	for _, id := range ids {
		s.m.entomb(id, 0)
	}
	s.mu.Unlock()
	return err
}

// pinMost is how many dead letters on their way are looked up for the retention; with more of them it waits.
const pinMost = 1000

// pinned moves the time before which ended submissions go, so that none goes of which the outbox still has something: the other queue
// needs its content.
func (s *Shard) pinned(ctx context.Context, before queue.Time) (queue.Time, error) {
	list := s.Outgoing(0, pinMost)
	if len(list) == pinMost {
		return 0, nil
	}
	last := queue.SubmissionID(0)
	for _, o := range list {
		if o.Chunk.Submission == last {
			continue
		}
		last = o.Chunk.Submission
		row, found, err := s.store.Ended(ctx, last)
		if err != nil {
			return 0, err
		}
		if found {
			before = min(before, row.Finished)
		}
	}
	return before, nil
}

// recallLetters counts the dead letters of the history.
func (s *Shard) recallLetters(ctx context.Context, m *machine) error {
	for before, more := queue.SubmissionID(0), true; more; {
		rows, err := s.store.ListEnded(ctx, before, []queue.SubmissionState{queue.CompletedWithDead}, listSlice)
		if err != nil {
			return err
		}
		for i := range rows {
			before = rows[i].ID
			if m.record(before) != nil {
				continue // opened again, or what is in memory is younger
			}
			r, _, err := endedRecord(&rows[i])
			if err != nil {
				return err
			}
			if r.dead > 0 {
				m.letters[r.id] = r.dead
			}
		}
		more = len(rows) == listSlice
	}
	return nil
}

// DeadLetters returns up to `limit` dead letters behind `after` (zero: from the start) that the filter means: those of the
// newest submission first, and of one submission by index.
func (s *Shard) DeadLetters(ctx context.Context, f queue.DeadFilter, after queue.ChunkID, limit int) (list []queue.DeadChunk, err error) {
	ids, more := []queue.SubmissionID{f.Submission}, false
	before := after.Submission
	first := before // whose chunks up to after.Index were shown
	for {
		if f.Submission == 0 {
			if before != 0 {
				before++ // the cursor's own is looked at again
			}
			if ids, more, err = s.deadSubmissions(ctx, before); err != nil {
				return nil, err
			}
		}
		for _, id := range ids {
			from := uint64(0)
			if id == first {
				from = uint64(after.Index) + 1
			}
			if list, err = s.lettersOf(ctx, id, &f, from, limit, list); err != nil || len(list) == limit {
				return list, err
			}
			before = id - 1
		}
		if !more || len(ids) == 0 {
			return list, nil
		}
	}
}

// deadPage is how many submissions are looked up at once.
const deadPage = 200

// deadSubmissions are ids of submissions below `before` (0: all) that have dead letters, the newest first.
func (s *Shard) deadSubmissions(ctx context.Context, before queue.SubmissionID) (ids []queue.SubmissionID, more bool, err error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	s.mu.Lock()
	s.m.graves.before(before, 1<<31-1, func(r *record) bool {
		ids = append(ids, r.id)
		return len(ids) < deadPage
	})
	full := len(ids) == deadPage
	s.mu.Unlock()
	rows, err := s.store.ListEnded(ctx, before, []queue.SubmissionState{queue.CompletedWithDead}, deadPage)
	if err != nil {
		return nil, false, err
	}
	last := queue.SubmissionID(0) // both sources are known down to here
	if full {
		last = ids[len(ids)-1]
	}
	if len(rows) == deadPage {
		last = max(last, rows[len(rows)-1].ID)
		full = true
	}
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	slices.SortFunc(ids, func(a, b queue.SubmissionID) int { return compareIDs(b, a) })
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id queue.SubmissionID) bool { return id < last }), full, nil
}

// lettersOf appends the dead letters of one submission from an index on, wherever it is.
func (s *Shard) lettersOf(ctx context.Context, id queue.SubmissionID, f *queue.DeadFilter, from uint64, limit int, list []queue.DeadChunk) ([]queue.DeadChunk, error) {
	s.mu.Lock()
	if r := s.m.live(id); r != nil {
		defer s.mu.Unlock()
		return r.letters(f, from, limit, list), nil
	}
	s.mu.Unlock()
	row, err := s.endedRow(ctx, id)
	if queue.CodeOf(err) == queue.CodeUnknownSubmission {
		return list, nil // its retention was over a moment ago
	}
	if err != nil || row.State != queue.CompletedWithDead {
		return list, err
	}
	r, _, err := endedRecord(row)
	if err != nil {
		return nil, err
	}
	return r.letters(f, from, limit, list), nil
}

func (r *record) letters(f *queue.DeadFilter, from uint64, limit int, list []queue.DeadChunk) []queue.DeadChunk {
	var indexes []uint32
	for index, t := range r.tries {
		if t.reason == journal.Dead && uint64(index) >= from {
			indexes = append(indexes, index)
		}
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		if len(list) == limit {
			break
		}
		if d := r.letter(index); f.Matches(&d) {
			list = append(list, d)
		}
	}
	return list
}

// letter describes a dead chunk.
func (r *record) letter(index uint32) queue.DeadChunk {
	t := r.tries[index]
	d := queue.DeadChunk{
		Chunk: queue.ChunkID{Submission: r.id, Index: index}, State: r.state, Attempts: t.attempts, Expiries: t.expiries, Redrives: t.redrives,
		Error: t.err, Fingerprint: queue.Fingerprint(t.err), Past: slices.Clone(t.past),
	}
	if n := len(t.past); n > 0 {
		d.Died, d.Consumer = t.past[n-1].Ended, t.past[n-1].Consumer
	}
	return d
}
