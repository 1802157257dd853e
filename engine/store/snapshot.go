package store

import (
	"context"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Checkpoint stores the snapshot of submissions that changed and moves the ended ones into
// the history, in one durable transaction. Content and outputs of the ended submissions stay until Forget. Checkpoint
// sorts the list of the ended. Ended submissions leave the open ones and enter the history in the same transaction, so
// a reader finds each in exactly one of them. The indexes in memory follow when it is durable; until then a reader
// sees the file as it was.
func (s *Store) Checkpoint(ctx context.Context, rows []checkpoint.Row, ended []checkpoint.Ended) error {
	if err := ctx.Err(); err != nil {
		return wrap("checkpoint", err)
	}
	return wrap("checkpoint", s.writing(func(w *writer) error {
		// The changes are collected apart from the indexes that readers use, which stay as they are if the transaction
		// fails.
		open, history := s.open.change(), s.History.index.change()
		for i := range rows {
			if err := open.put(&rows[i]); err != nil {
				return err
			}
		}
		for i := range ended {
			open.drop(ended[i].Seq)
		}
		err := w.conn.Tx(func() error {
			for i := range rows {
				// A redrive opened it again: it is in the history, and must leave it in the commit that makes it open.
				if rows[i].Reopened {
					if err := history.dropID(s, w, rows[i].ID); err != nil {
						return err
					}
				}
			}
			if err := history.putEnded(s, w, ended); err != nil {
				return err
			}
			return open.write(s, w)
		})
		if err == nil {
			s.open.publish(open)
			s.History.index.publish(history)
		}
		return err
	}))
}

// SetCheckpointed records durably that the snapshot holds everything up to and including
// this position of the journal.
// It comes after all rows of the checkpoint, in a commit of its own. If the server is killed before it, the next start
// replays ops that the rows already have; each row carries its own position, so they are passed over. The journal is
// trimmed only after it.
func (s *Store) SetCheckpointed(ctx context.Context, pos journal.Position) error {
	return wrap("set checkpointed", s.tx(ctx, func(w *writer) error {
		_, err := w.setCheckpointed.Exec(int64(pos))
		return err
	}))
}

// Checkpointed is the position that SetCheckpointed recorded last, 0 at first.
func (s *Store) Checkpointed(ctx context.Context) (pos journal.Position, err error) {
	err = s.scan.with(ctx, func(r *reader) error {
		found := false
		err := r.checkpointed.Query(func(row sqlitedb.Row) (bool, error) {
			pos, found = journal.Position(row.Int(0)), true
			return false, nil
		})
		if err == nil && !found {
			err = s.damaged("folded", 1)
		}
		return err
	})
	return pos, wrap("checkpointed", err)
}

// MaxSeq is the largest seq that any row of the store is about, 0 when it is empty. Every table that names a
// submission is asked. A number that was given out twice would hand one submission's contents to another.
func (s *Store) MaxSeq(ctx context.Context) (largest uint32, err error) {
	err = s.scan.with(ctx, func(r *reader) error {
		for _, column := range []string{"seq FROM submission", "seq FROM attachment"} {
			seq, err := r.conn.Int("SELECT " + column + " ORDER BY 1 DESC LIMIT 1")
			if err != nil {
				return err
			}
			largest = max(largest, uint32(seq))
		}
		for _, last := range []func(*Store) (uint32, error){r.lastSingle, r.lastOpen} {
			seq, err := last(s)
			if err != nil {
				return err
			}
			largest = max(largest, seq)
		}
		for _, table := range []string{"content", "output"} {
			for _, half := range []string{"<", ">="} { // seqs from 1<<31 on have negative keys
				key, err := r.conn.Int("SELECT k FROM " + table + " WHERE k " + half + " 0 ORDER BY k DESC LIMIT 1")
				if err != nil {
					return err
				}
				largest = max(largest, seqOf(key))
			}
		}
		return nil
	})
	return max(largest, s.outputs.maxSeq(), s.History.index.maxSeq()), wrap("max seq", err)
}
