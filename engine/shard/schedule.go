package shard

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/shard/schedules"
	"github.com/quern-queue/quern/engine/store"
)

// loadSchedules reads the rows.
func loadSchedules(ctx context.Context, from *store.Store, part *schedules.Part) error {
	rows, err := from.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		r, err := journal.DecodeScheduleRow(row.Bytes)
		if err != nil {
			return fmt.Errorf("store: schedule %s: %w", row.Name, err)
		}
		sch := &schedules.Scheduled{
			Name: row.Name, Version: r.Version, Created: r.Created, Changed: r.Changed, Enabled: r.Enabled, Reason: r.Reason, Next: r.Next,
			Waiting: r.Waiting, Last: r.Last, LastID: r.LastID, Counts: r.Counts, AppliedAt: r.Position, Made: true,
		}
		if err := sch.Read(r.Definition); err != nil {
			return fmt.Errorf("store: schedule %s: %w", row.Name, err)
		}
		part.ByName[row.Name] = sch
	}
	return nil
}

// checkpoint writes the rows of schedules that changed.
func (p *Schedules) checkpoint(ctx context.Context, part *schedules.Part) error {
	s := p.s
	s.applying.Lock()
	s.mu.Lock()
	changed := part.Dirty
	part.Dirty = map[string]bool{}
	rows := make([]store.ScheduleRow, 0, len(changed))
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		rows = append(rows, store.ScheduleRow{Name: name, Bytes: part.ByName[name].Row()})
	}
	s.mu.Unlock()
	s.applying.Unlock()
	if len(rows) == 0 {
		return nil
	}
	err := s.disk.write(func() error { return s.store.CheckpointSchedules(ctx, rows) })
	if err != nil {
		s.mu.Lock()
		maps.Copy(part.Dirty, changed)
		s.mu.Unlock()
	}
	return err
}
