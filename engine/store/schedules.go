package store

import (
	"context"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// ScheduleRow is the snapshot of one schedule. What Bytes hold is the shard's affair; nil in a checkpoint removes the row.
type ScheduleRow struct {
	Name  string
	Bytes []byte
}

// CheckpointSchedules stores the snapshot of schedules that changed, in one durable transaction. Storing a row again replaces it, and
// removing one that is not there is no mistake.
func (s *Store) CheckpointSchedules(ctx context.Context, rows []ScheduleRow) error {
	return wrap("checkpoint schedules", s.tx(ctx, func(w *writer) error {
		for _, r := range rows {
			var err error
			if r.Bytes == nil {
				_, err = w.dropSchedule.Exec(r.Name)
			} else {
				_, err = w.putSchedule.Exec(r.Name, r.sum().stored(), r.Bytes)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Schedules lists the snapshot of all schedules, by name.
func (s *Store) Schedules(ctx context.Context) (rows []ScheduleRow, err error) {
	err = s.scan.with(ctx, func(r *reader) error {
		return r.schedules.Query(func(row sqlitedb.Row) (bool, error) {
			one := ScheduleRow{Name: row.Text(0), Bytes: row.Blob(2)}
			if one.sum().stored() != row.Int(1) {
				return false, s.damaged("schedule", int64(len(rows)+1))
			}
			rows = append(rows, one)
			return true, nil
		})
	})
	return rows, wrap("schedules", err)
}

func (r *ScheduleRow) sum() sum {
	return sum(0).number(int64(len(r.Name))).bytes([]byte(r.Name)).bytes(r.Bytes)
}
