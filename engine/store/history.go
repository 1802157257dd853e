package store

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Ended finds an ended submission in the history.
func (s *Store) Ended(ctx context.Context, id queue.SubmissionID) (e Ended, found bool, err error) {
	return s.findEnded(ctx, int64(id), func(r *reader) *sqlitedb.Stmt { return r.ended })
}

// EndedBySeq finds it by its number in the shard.
func (s *Store) EndedBySeq(ctx context.Context, seq uint32) (e Ended, found bool, err error) {
	return s.findEnded(ctx, int64(seq), func(r *reader) *sqlitedb.Stmt { return r.endedBySeq })
}

func (s *Store) findEnded(ctx context.Context, key int64, by func(*reader) *sqlitedb.Stmt) (e Ended, found bool, err error) {
	err = s.hot.with(ctx, func(r *reader) error {
		return by(r).Query(func(row sqlitedb.Row) (bool, error) {
			found = true
			e, err = s.endedOf(row)
			return false, err
		}, key)
	})
	return e, found && err == nil, wrap("ended", err)
}

// EndedSince calls fn for the id of every ended submission from `from` on, in no order.
func (s *Store) EndedSince(ctx context.Context, from queue.SubmissionID, fn func(queue.SubmissionID)) error {
	return wrap("ended since", s.scan.with(ctx, func(r *reader) error {
		return r.endedSince.Query(func(row sqlitedb.Row) (bool, error) {
			fn(queue.SubmissionID(row.Int(0)))
			return true, nil
		}, int64(from))
	}))
}

// EndedKeyed calls fn for every ended submission from id `from` on that came with an idempotency key, oldest first.
func (s *Store) EndedKeyed(ctx context.Context, from queue.SubmissionID, fn func(*Ended) error) error {
	return wrap("ended keyed", s.scan.with(ctx, func(r *reader) error {
		return r.endedKeyed.Query(func(row sqlitedb.Row) (bool, error) {
			e, err := s.endedOf(row)
			if err == nil {
				err = fn(&e)
			}
			return true, err
		}, int64(from))
	}))
}

// endedOf reads the historyColumns.
func (s *Store) endedOf(row sqlitedb.Row) (Ended, error) {
	e := Ended{
		ID: queue.SubmissionID(row.Int(0)), Seq: uint32(row.Int(1)), State: queue.SubmissionState(row.Int(2)),
		Finished: queue.Time(row.Int(3)), Spec: row.Blob(5), Final: row.Blob(6),
	}
	if e.sum().stored() != row.Int(4) {
		return e, s.damaged("history", row.Int(0))
	}
	return e, nil
}

// ListEnded lists ended submissions in one of the states, the newest id first, beginning below `before` (0: at the newest),
// at most `limit`.
func (s *Store) ListEnded(ctx context.Context, before queue.SubmissionID, states []queue.SubmissionState, limit int) ([]Ended, error) {
	below := int64(math.MaxInt64)
	if before != 0 && uint64(before) < math.MaxInt64 {
		below = int64(before)
	}
	var all []Ended
	states = slices.Compact(slices.Sorted(slices.Values(states)))
	err := s.scan.with(ctx, func(r *reader) error {
		for _, state := range states { // each walks its part of the index backwards, so a rare state costs no more than a common one
			err := r.listEnded.Query(func(row sqlitedb.Row) (bool, error) {
				e, err := s.endedOf(row)
				all = append(all, e)
				return true, err
			}, int64(state), below, int64(limit))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap("list ended", err)
	}
	slices.SortFunc(all, func(a, b Ended) int { return cmp.Compare(b.ID, a.ID) })
	return all[:min(max(limit, 0), len(all))], nil
}

// EndedIn lists the ids of ended submissions in a state, those below `before` and the newest first, at most `limit`. It reads none of
// what the history tells about them, which is long for a submission with many dead letters.
func (s *Store) EndedIn(ctx context.Context, before queue.SubmissionID, state queue.SubmissionState,
	limit int) (ids []queue.SubmissionID, err error) {
	err = s.scan.with(ctx, func(r *reader) error {
		return r.endedIn.Query(func(row sqlitedb.Row) (bool, error) {
			ids = append(ids, queue.SubmissionID(row.Int(0)))
			return true, nil
		}, int64(state), int64(before), int64(limit))
	})
	return ids, wrap("ended in a state", err)
}

// What one transaction deletes at most.
const (
	eraseRows  = 512
	eraseBytes = 4 << 20
)

// Outlived is a submission of the history whose retention is over.
type Outlived struct {
	ID  queue.SubmissionID
	Seq uint32
}

// Outlived lists submissions that finished from one time on and before another, the longest ended first and at most `most`, without those
// that skip (nil: none) says. It is asked about each in their order, perhaps more than once, and must not call the store.
func (s *Store) Outlived(ctx context.Context, finishedFrom, finishedBefore queue.Time, most int,
	skip func(id queue.SubmissionID, finished queue.Time) bool) (list []Outlived, err error) {
	const page = 256
	for limit := page; most > 0; limit *= 2 {
		list = list[:0]
		seen := 0
		err := s.scan.with(ctx, func(r *reader) error {
			return r.outlived.Query(func(row sqlitedb.Row) (bool, error) {
				seen++
				if id := queue.SubmissionID(row.Int(0)); skip == nil || !skip(id, queue.Time(row.Int(2))) {
					list = append(list, Outlived{id, uint32(row.Int(1))})
				}
				return len(list) < most, nil
			}, int64(finishedFrom), int64(finishedBefore), int64(limit))
		})
		if err != nil {
			return nil, wrap("outlived", err)
		}
		if seen < limit || len(list) == most {
			break
		}
	}
	return list, nil
}

// Forget deletes submissions of the history with their content, attachments and outputs, and says how many of the list are
// gone, from its start. It works in transactions of bounded size, the history row last, so after a crash or a failure it is
// simply called again with the rest.
func (s *Store) Forget(ctx context.Context, list []Outlived) (gone int, err error) {
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	for gone < len(list) {
		if err := ctx.Err(); err != nil {
			return gone, wrap("forget", err)
		}
		n := 0
		err := s.writing(func(w *writer) error {
			room := budget{rows: eraseRows, bytes: eraseBytes}
			err := w.conn.Tx(func() error {
				for _, v := range list[gone:] {
					if all, err := w.erase(v.Seq, &room); err != nil || !all {
						return err
					}
					if _, err := w.dropHistory.Exec(int64(v.ID)); err != nil {
						return err
					}
					room.rows--
					n++
				}
				return nil
			})
			if err == nil {
				for _, v := range list[gone : gone+n] {
					s.Memtable.drop(v.Seq)
				}
			}
			return err
		})
		if err != nil {
			return gone, wrap("forget", err)
		}
		for _, v := range list[gone : gone+n] {
			s.outputs.drop(v.Seq)
			s.TrustAll(v.Seq)
		}
		gone += n
	}
	return gone, nil
}

// budget is what is left of a transaction's bounds.
type budget struct{ rows, bytes int64 }

func (b *budget) spent() bool { return b.rows <= 0 || b.bytes <= 0 }

// erase deletes content, outputs and attachment of a submission as far as the budget goes; `gone` says that nothing is left.
func (w *writer) erase(seq uint32, room *budget) (gone bool, err error) {
	first, last := keyOf(seq, 0), keyOf(seq, lastNumber)
	for _, from := range []struct{ size, drop *sqlitedb.Stmt }{{w.sizeContent, w.dropContent}, {w.sizeOutput, w.dropOutput}} {
		if gone, err := eraseRange(from.size, from.drop, first, last, room); err != nil || !gone {
			return false, err
		}
	}
	if room.spent() {
		return false, nil
	}
	n, err := w.dropAttachment.Exec(int64(seq))
	room.rows -= n
	return err == nil, err
}

// eraseRange deletes the rows of a range from its start, as far as the budget goes.
func eraseRange(size, drop *sqlitedb.Stmt, first, last int64, room *budget) (gone bool, err error) {
	if room.spent() {
		return false, nil
	}
	end, found, asked := int64(0), int64(0), room.rows
	err = size.Query(func(row sqlitedb.Row) (bool, error) {
		end = row.Int(0)
		found++
		room.rows--
		room.bytes -= row.Int(1)
		return !room.spent(), nil
	}, first, last, asked)
	if err != nil {
		return false, err
	}
	if found > 0 {
		if _, err := drop.Exec(first, end); err != nil {
			return false, err
		}
	}
	return !room.spent(), nil
}
