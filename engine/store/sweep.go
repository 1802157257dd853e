package store

//	visit each seq that has bytes ─► known to the machine, or in the history? ─ no ─► deleted

import (
	"context"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// SweepOrphans deletes content, attachments and outputs of submissions that are neither `known` nor in the history,
// because their inserts were never published. It visits each submission once, not each row. Call it when no insert is
// under way, or let `known` say yes to those under way; the store is not held while `known` is asked. `deleted`
// counts submissions. The history is read only for the first seq that the machine does not know: usually there is
// none. Orphans come from an insert with large contents: they are stored before the insert is in the journal. If the
// server is killed in between, no op names them. Nothing else would ever delete them.
func (s *Store) SweepOrphans(ctx context.Context, known func(seq uint32) bool) (deleted int, err error) {
	s.outputs.moves.mu.Lock()
	defer s.outputs.moves.mu.Unlock()
	orphans := map[uint32]bool{}
	var ended seqSet
	err = s.visit(ctx, func(seq uint32) (err error) {
		if orphans[seq] || known(seq) {
			return nil
		}
		if ended == nil {
			if ended, err = s.History.endedSeqs(ctx); err != nil {
				return err
			}
		}
		if !ended.has(seq) {
			orphans[seq] = true
		}
		return nil
	})
	if err != nil {
		return 0, wrap("sweep orphans", err)
	}
	for seq := range orphans {
		// One submission may have millions of rows. Each transaction deletes a part of them, so that a checkpoint
		// never waits for more than one budget.
		for gone := false; !gone; {
			err := s.tx(ctx, func(w *writer) (err error) {
				s.Memtable.drop(seq)
				if err := w.eraseSingles(s, []uint32{seq}); err != nil {
					return err
				}
				gone, err = w.erase(seq, &budget{rows: eraseRows, bytes: eraseBytes})
				return err
			})
			if err != nil {
				return deleted, wrap("sweep orphans", err)
			}
		}
		s.outputs.drop(seq)
		deleted++
	}
	return deleted, nil
}

// visit calls fn for every submission that has content, outputs or an attachment, perhaps more than once. From each
// it leaps to the next by the key, without reading the rows between. Keys have the seq in their upper half, so the
// largest key of a submission plus one is the next one's first. One query per submission, not per row. fn runs
// without a connection, since it may ask the shard, whose mutex must not wait for the store.
func (s *Store) visit(ctx context.Context, fn func(seq uint32) error) error {
	last := func(seq uint32) int64 { return keyOf(seq, lastNumber) }
	for _, table := range []struct {
		next func(*reader) *sqlitedb.Stmt
		from int64
		seq  func(key int64) uint32
		last func(seq uint32) int64 // the largest key that belongs to seq
	}{
		{func(r *reader) *sqlitedb.Stmt { return r.nextContent }, math.MinInt64, seqOf, last},
		{func(r *reader) *sqlitedb.Stmt { return r.nextOutput }, math.MinInt64, seqOf, last},
		{func(r *reader) *sqlitedb.Stmt { return r.nextAttachment }, 0, func(key int64) uint32 { return uint32(key) },
			func(seq uint32) int64 { return int64(seq) }},
	} {
		for from := table.from; ; {
			key, found := int64(0), false
			err := s.scan.with(ctx, func(r *reader) error {
				return table.next(r).Query(func(row sqlitedb.Row) (bool, error) {
					key, found = row.Int(0),
						true
					return false, nil
				}, from)
			})
			if err != nil {
				return err
			}
			if !found {
				break
			}
			if err := fn(table.seq(key)); err != nil {
				return err
			}
			// The largest key of all has no key behind it: adding one would begin again at the smallest, for ever.
			if from = table.last(table.seq(key)); from == math.MaxInt64 {
				break
			}
			from++
		}
	}
	if err := s.Singles.visit(ctx, fn); err != nil {
		return err
	}
	for _, seq := range slices.Concat(s.outputs.seqs(), s.Memtable.seqs()) {
		if err := fn(seq); err != nil {
			return err
		}
	}
	return nil
}
