package shard

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// DeadLetters returns up to `limit` dead letters behind `after` (zero: from the start) that the filter means: those of the
// newest submission first, and of one submission by index.
func (s *Shard) DeadLetters(ctx context.Context, f queue.DeadFilter, after queue.ChunkID, limit int) (list []queue.DeadChunk, err error) {
	return s.deadLetters(ctx, &queue.BulkFilter{Dead: f}, after, limit, nil)
}

// deadLetters has what it looks at counted, and breaks off when that has been enough.
func (s *Shard) deadLetters(ctx context.Context, f *queue.BulkFilter, after queue.ChunkID, limit int, seen *survey) (list []queue.DeadChunk, err error) {
	ids, more := []queue.SubmissionID{f.Dead.Submission}, false
	before := after.Submission
	first := before // whose chunks up to after.Index were shown
	for {
		if f.Dead.Submission == 0 {
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
			if list, err = s.lettersOf(ctx, id, f, from, limit, list, seen); err != nil || len(list) == limit || seen.spent() {
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
func (s *Shard) lettersOf(ctx context.Context, id queue.SubmissionID, f *queue.BulkFilter, from uint64, limit int, list []queue.DeadChunk, seen *survey) ([]queue.DeadChunk, error) {
	for open := true; open && len(list) < limit; {
		var slice []queue.DeadChunk
		slice, from, open = s.lettersSlice(id, f, from, seen)
		list = appendMatching(list, slice, f, limit, seen)
		if open && len(slice) < sliceItems || seen.spent() {
			return list, nil
		}
	}
	if len(list) == limit {
		return list, nil
	}
	row, err := s.endedRow(ctx, id)
	if queue.CodeOf(err) == queue.CodeUnknownSubmission {
		return list, nil // its retention was over a moment ago
	}
	if err != nil || row.State != queue.CompletedWithDead {
		return list, err
	}
	r, _, err := endedRecord(row)
	if err != nil {
		return list, err
	}
	if !f.Matches(id, r.state, r.ended.meta) {
		if from == 0 {
			seen.passed(id, uint64(r.dead))
		}
		return list, nil
	}
	return r.letters(f, from, limit, list, seen), nil
}

// lettersSlice is the next of the dead letters of an open submission, at most sliceItems, without their fingerprints: those are worked
// out without the mutex. open: it is open.
func (s *Shard) lettersSlice(id queue.SubmissionID, f *queue.BulkFilter, from uint64, seen *survey) (slice []queue.DeadChunk, next uint64, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.m.live(id)
	if r == nil {
		return nil, from, false
	}
	if !f.Matches(id, r.state, r.meta()) {
		if from == 0 {
			seen.passed(id, uint64(r.dead))
		}
		return nil, from, true
	}
	next = from
	for _, index := range r.deads.from(from, sliceItems, nil) {
		slice, next = append(slice, r.letter(index)), uint64(index)+1
	}
	return slice, next, true
}

// appendMatching works out the fingerprints and appends what the filter means, up to limit items in all.
func appendMatching(list, slice []queue.DeadChunk, f *queue.BulkFilter, limit int, seen *survey) []queue.DeadChunk {
	for i := range slice {
		if len(list) == limit || seen.spent() {
			break
		}
		d := &slice[i]
		d.Fingerprint = queue.Fingerprint(d.Error)
		fits := f.Dead.Matches(d)
		if fits {
			list = append(list, *d)
		}
		seen.saw(d, fits)
	}
	return list
}

// letters appends those of an ended submission.
func (r *record) letters(f *queue.BulkFilter, from uint64, limit int, list []queue.DeadChunk, seen *survey) []queue.DeadChunk {
	var found []uint32
	for index, t := range r.tries {
		if t.reason == journal.Dead && uint64(index) >= from {
			found = append(found, index)
		}
	}
	slices.Sort(found)
	for _, index := range found {
		if len(list) == limit || seen.spent() {
			break
		}
		list = appendMatching(list, []queue.DeadChunk{r.letter(index)}, f, limit, seen)
	}
	return list
}

// letter describes a dead chunk, but for its fingerprint.
func (r *record) letter(index uint32) queue.DeadChunk {
	t := r.tries[index]
	d := queue.DeadChunk{
		Chunk: queue.ChunkID{Submission: r.id, Index: index}, State: r.state, Attempts: t.attempts, Expiries: t.expiries, Redrives: t.redrives,
		Error: t.err, Past: slices.Clone(t.past),
	}
	if n := len(t.past); n > 0 {
		d.Died, d.Consumer = t.past[n-1].Ended, t.past[n-1].Consumer
	}
	return d
}
