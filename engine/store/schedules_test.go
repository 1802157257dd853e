package store

import (
	"path/filepath"
	"reflect"
	"testing"
)

// Rows of schedules are replaced, removed and read back by name, also by the next program that opens the file.
func TestSchedules(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	must(t, s.CheckpointSchedules(ctx, []ScheduleRow{{"b", []byte("one")}, {"a", []byte{}}, {"c", []byte("three")}}))
	must(t, s.CheckpointSchedules(ctx, []ScheduleRow{{"b", []byte("two")}, {"c", nil}, {"never there", nil}}))
	must(t, s.Close())
	s = open(t, path, Options{})
	got, err := s.Schedules(ctx)
	if want := []ScheduleRow{{"a", []byte{}}, {"b", []byte("two")}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Schedules = %v, %v; want %v", got, err, want)
	}
	must(t, s.write.conn.Exec("UPDATE schedule SET name = 'z' WHERE name = 'b'"))
	if got, err := s.Schedules(ctx); err == nil {
		t.Errorf("Schedules = %v of a row with another's name; want an error", got)
	}
	must(t, s.Close())
}
