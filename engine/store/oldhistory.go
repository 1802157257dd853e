package store

import (
	"context"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// oldHistoryRows is how many rows one transaction packs into pages.
const oldHistoryRows = 4096

// packOld packs the history of a file from before version 6, which has a row for each submission, into pages. A start that is killed
// meanwhile leaves some of it in rows, and the next one goes on.
func (h *History) packOld(ctx context.Context) error {
	found, err := h.s.write.conn.Int("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'history'")
	if err != nil || found == 0 {
		return err
	}
	rows, err := h.s.write.conn.Prepare("SELECT id, seq, state, finished, crc, keyed, spec, final FROM history ORDER BY id LIMIT ?")
	if err != nil {
		return err
	}
	drop, err := h.s.write.conn.Prepare("DELETE FROM history WHERE id <= ?")
	if err != nil {
		return err
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		change := h.index.change()
		err := h.s.write.conn.Tx(func() error {
			list, err := h.oldRows(rows)
			if more = len(list) > 0; err != nil || !more {
				return err
			}
			if _, err := drop.Exec(int64(list[len(list)-1].ID)); err != nil {
				return err
			}
			change.add(list)
			return change.write(&h.s.write)
		})
		if err != nil {
			return err
		}
		h.index.publish(change)
	}
	return h.s.write.conn.Exec("DROP TABLE history")
}

// oldRows reads the next rows.
func (h *History) oldRows(rows *sqlitedb.Stmt) (list []checkpoint.Ended, err error) {
	err = rows.Query(func(row sqlitedb.Row) (bool, error) {
		e := checkpoint.Ended{
			ID: queue.SubmissionID(row.Int(0)), Seq: uint32(row.Int(1)), State: queue.SubmissionState(row.Int(2)),
			Finished: queue.Time(row.Int(3)), Keyed: row.Int(5) == 1, Spec: row.Blob(6), Final: row.Blob(7),
		}
		c := sum(0).number(row.Int(0)).number(row.Int(1)).number(row.Int(2)).number(row.Int(3)).number(int64(len(e.Spec)))
		if c.bytes(e.Spec).bytes(e.Final).stored() != row.Int(4) {
			return false, h.s.damaged("history", row.Int(0))
		}
		list = append(list, e)
		return true, nil
	}, int64(oldHistoryRows))
	return list, err
}
