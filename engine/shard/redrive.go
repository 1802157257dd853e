package shard

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// finalState is the state in the changing part of a history row, which begins with the reason of the end.
func finalState(final []byte) ([]byte, error) {
	n, size := binary.Uvarint(final)
	if size <= 0 || n > uint64(len(final)-size) {
		return nil, errSnapshot
	}
	return final[size+int(n):], nil
}

// Redrive offers dead chunks of a submission again, with no try counted, and says how many: those of the indexes that are
// not dead stay as they are. A submission that completed with dead chunks is open again. It returns after the commit. The
// indexes ascend; there are at most journal.MaxRedrive.
func (s *Shard) Redrive(ctx context.Context, id queue.SubmissionID, indexes []uint32) (n int, err error) {
	s.aging.RLock()
	defer s.aging.RUnlock()
	for {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return 0, err
		}
		if r := s.m.live(id); r != nil {
			n, err := s.m.redrive(r, indexes, now)
			pending := s.pending()
			s.mu.Unlock()
			if err != nil || n == 0 {
				return 0, err
			}
			return n, s.wait(commits{first: pending})
		}
		unfolded := s.m.ended[id] != nil
		s.mu.Unlock()
		if unfolded { // then the history is the only place where it is
			if err := s.Fold(); err != nil {
				return 0, err
			}
			continue
		}
		n, again, err := s.redriveEnded(ctx, id, indexes, now)
		if !again {
			return n, err
		}
	}
}

// redrive encodes the redrive of chunks of an open submission.
func (m *machine) redrive(r *record, indexes []uint32, now queue.Time) (n int, err error) {
	if r.ending {
		return 0, notRedriven(r.id, "is about to end")
	}
	op := journal.Redrive{Seq: r.seq}
	for _, index := range indexes {
		if t := r.tries[index]; t != nil && t.reason == journal.Dead && !t.deciding {
			t.deciding = true
			m.batch.letter = append(m.batch.letter, t)
			op.Indexes = append(op.Indexes, index)
		}
	}
	if len(op.Indexes) > 0 {
		m.encode(now).Redrive(op)
	}
	return len(op.Indexes), nil
}

func notRedriven(id queue.SubmissionID, why string) error {
	return &queue.Error{Code: queue.CodeConflict, Message: "Submission " + id.String() + " " + why + ": its chunks cannot be redriven. Insert the work anew."}
}

// redriveEnded encodes the redrive of chunks of a submission of the history. again: meanwhile it is there no longer.
func (s *Shard) redriveEnded(ctx context.Context, id queue.SubmissionID, indexes []uint32, now queue.Time) (n int, again bool, err error) {
	row, found, err := s.store.Ended(ctx, id)
	if err != nil {
		return 0, false, err
	}
	if !found {
		return 0, false, unknownSubmission(id)
	}
	r, _, err := endedRecord(&row)
	if err != nil {
		return 0, false, err
	}
	if row.State != queue.CompletedWithDead {
		return 0, false, notRedriven(id, "is "+row.State.String())
	}
	if at := r.details().deadDeadline; at != 0 && at <= now {
		return 0, false, notRedriven(id, "has a dead_deadline that passed")
	}
	s.mu.Lock()
	m := s.m
	if m.live(id) != nil || m.ended[id] != nil {
		s.mu.Unlock()
		return 0, true, nil
	}
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return 0, false, err
	}
	v := m.revive[r.seq]
	if v == nil {
		v = &revival{row: &row, taken: map[uint32]bool{}}
	}
	op := journal.Redrive{Seq: r.seq}
	for _, index := range indexes {
		if t := r.tries[index]; t != nil && t.reason == journal.Dead && !v.taken[index] {
			v.taken[index] = true
			op.Indexes = append(op.Indexes, index)
		}
	}
	var waits commits
	if len(op.Indexes) > 0 {
		m.revive[r.seq] = v
		m.batch.revive = append(m.batch.revive, r.seq)
		m.encode(now).Redrive(op)
		waits.add(m.batch)
	}
	s.mu.Unlock()
	return len(op.Indexes), false, s.wait(waits)
}

// DeleteDead gives dead chunks of a submission up for good, and says how many: those of the indexes that are not dead stay as
// they are. They count as skipped from then on. It returns after the commit.
func (s *Shard) DeleteDead(ctx context.Context, id queue.SubmissionID, indexes []uint32) (n int, err error) {
	for {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return 0, err
		}
		if r := s.m.live(id); r != nil {
			n, err := s.m.deleteDead(r, indexes, now)
			pending := s.pending()
			s.mu.Unlock()
			if err != nil || n == 0 {
				return 0, err
			}
			return n, s.wait(commits{first: pending})
		}
		unfolded := s.m.ended[id] != nil
		s.mu.Unlock()
		if unfolded {
			if err := s.Fold(); err != nil {
				return 0, err
			}
			continue
		}
		n, again, err := s.deleteEnded(ctx, id, indexes)
		if !again {
			return n, err
		}
	}
}

func (m *machine) deleteDead(r *record, indexes []uint32, now queue.Time) (n int, err error) {
	if r.ending {
		return 0, &queue.Error{Code: queue.CodeConflict, Message: "Submission " + r.id.String() + " is about to end. Try again in a moment."}
	}
	for _, index := range indexes {
		t := r.tries[index]
		if t == nil || t.reason != journal.Dead || t.deciding {
			continue
		}
		t.deciding = true
		m.batch.letter = append(m.batch.letter, t)
		m.encode(now).Return(journal.Returned{
			Seq: r.seq, Index: index, Epoch: t.epoch, Sequence: t.sequence, Reason: journal.Skipped, Attempts: t.attempts, Expiries: t.expiries,
		})
		n++
	}
	return n, nil
}

// deleteEnded changes the history row, in a transaction of the store: no journal tells of a submission that has ended.
func (s *Shard) deleteEnded(ctx context.Context, id queue.SubmissionID, indexes []uint32) (n int, again bool, err error) {
	s.aging.Lock()
	defer s.aging.Unlock()
	s.mu.Lock()
	moved := s.m.live(id) != nil || s.m.ended[id] != nil
	s.mu.Unlock()
	if moved {
		return 0, true, nil
	}
	row, found, err := s.store.Ended(ctx, id)
	if err != nil || !found {
		if err == nil {
			err = unknownSubmission(id)
		}
		return 0, false, err
	}
	r, sub, err := endedRecord(&row)
	if err != nil || row.State != queue.CompletedWithDead {
		return 0, false, err
	}
	for _, index := range indexes {
		if t := r.tries[index]; t != nil && t.reason == journal.Dead {
			t.reason = journal.Skipped
			r.dead--
			r.skips++
			n++
		}
	}
	if n == 0 {
		return 0, false, nil
	}
	r.ended.final = r.appendSnapshot(nil, nil, sub)
	row.Final = r.endedRow().Final
	row.Keyed = r.details().key != ""
	if err := s.roomy(func() error { return s.store.Fold(ctx, nil, []store.Ended{row}) }); err != nil {
		return 0, false, storeError(err)
	}
	s.mu.Lock()
	s.m.entomb(id, r.dead)
	s.mu.Unlock()
	return n, false, nil
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
