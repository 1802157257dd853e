package store

import (
	"context"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Checkpoint stores the snapshot of submissions that changed and moves the ended ones into the history, in one durable
// transaction. Content and outputs of the ended stay until Forget.
func (s *Store) Checkpoint(ctx context.Context, rows []checkpoint.Row, ended []checkpoint.Ended) error {
	if err := ctx.Err(); err != nil {
		return wrap("checkpoint", err)
	}
	return wrap("checkpoint", s.writing(func(w *writer) error {
		change := s.History.index.change()
		err := w.conn.Tx(func() error {
			for i := range rows {
				if err := s.putRow(w, &rows[i], change); err != nil {
					return err
				}
			}
			return change.putEnded(s, w, ended)
		})
		if err == nil {
			s.History.index.publish(change)
		}
		return err
	}))
}

func (s *Store) putRow(w *writer, r *checkpoint.Row, change *endedChange) error {
	seq := int64(r.Seq)
	if r.Reopened {
		if err := change.dropID(s, w, r.ID); err != nil {
			return err
		}
	}
	if r.Spec != nil {
		crc := sum(0).number(seq).number(int64(r.ID)).bytes(r.Spec)
		if _, err := w.putSubmission.Exec(seq, int64(r.ID), crc.stored(), r.Spec); err != nil {
			return err
		}
	}
	_, err := w.putProgress.Exec(seq, sum(0).number(seq).bytes(r.State).stored(), r.State)
	return err
}

// SetCheckpointed records durably that the snapshot holds everything up to and including this position of the journal.
func (s *Store) SetCheckpointed(ctx context.Context, pos journal.Position) error {
	return wrap("set checkpointed", s.tx(ctx, func(w *writer) error {
		_, err := w.setCheckpointed.Exec(int64(pos))
		return err
	}))
}

// Checkpointed is what SetCheckpointed recorded last, 0 at first.
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

const loadRows = 512 // rows read at once while the reader is held

// Load calls fn for every open submission, by ascending seq. The row's bytes may be kept. The first error of fn ends the
// loading and is returned.
func (s *Store) Load(ctx context.Context, fn func(checkpoint.Row) error) error {
	rows := make([]checkpoint.Row, 0, loadRows)
	for after := int64(-1); ; {
		rows = rows[:0]
		err := s.scan.with(ctx, func(r *reader) error {
			return r.load.Query(func(row sqlitedb.Row) (bool, error) {
				loaded, err := s.rowOf(row)
				rows = append(rows, loaded)
				return true, err
			}, after, int64(loadRows))
		})
		if err != nil {
			return wrap("load", err)
		}
		for i := range rows {
			if err := fn(rows[i]); err != nil {
				return err
			}
		}
		if len(rows) < loadRows {
			return nil
		}
		after = int64(rows[len(rows)-1].Seq)
	}
}

// rowOf reads seq, id, crc, spec, crc of the progress, state.
func (s *Store) rowOf(row sqlitedb.Row) (checkpoint.Row, error) {
	r := checkpoint.Row{Seq: uint32(row.Int(0)), ID: queue.SubmissionID(row.Int(1)), Spec: row.Blob(3), State: row.Blob(5)}
	if sum(0).number(row.Int(0)).number(row.Int(1)).bytes(r.Spec).stored() != row.Int(2) {
		return r, s.damaged("submission", row.Int(0))
	}
	if r.State != nil && sum(0).number(row.Int(0)).bytes(r.State).stored() != row.Int(4) {
		return r, s.damaged("progress", row.Int(0))
	}
	return r, nil
}

// MaxSeq is the largest seq of which the store holds anything, 0 when it is empty.
func (s *Store) MaxSeq(ctx context.Context) (largest uint32, err error) {
	err = s.scan.with(ctx, func(r *reader) error {
		for _, column := range []string{"seq FROM submission", "seq FROM progress", "seq FROM attachment"} {
			seq, err := r.conn.Int("SELECT " + column + " ORDER BY 1 DESC LIMIT 1")
			if err != nil {
				return err
			}
			largest = max(largest, uint32(seq))
		}
		seq, err := r.lastSingle(s)
		if err != nil {
			return err
		}
		largest = max(largest, seq)
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
