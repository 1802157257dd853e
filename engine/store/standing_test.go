package store

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// The last state put under a name is there after a restart, and damage to it is reported.
func TestStanding(t *testing.T) {
	t.Parallel()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	if got, err := s.Standing(ctx, "rules"); got != nil || err != nil {
		t.Errorf("Standing of nothing = %q, %v", got, err)
	}
	must(t, s.PutStanding(ctx, "rules", []byte("first")))
	must(t, s.PutStanding(ctx, "other", []byte("x")))
	must(t, s.PutStanding(ctx, "rules", []byte("second")))
	must(t, s.Close())
	s = open(t, path, Options{})
	for name, want := range map[string]string{"rules": "second", "other": "x", "none": ""} {
		if got, err := s.Standing(ctx, name); string(got) != want || err != nil {
			t.Errorf("Standing(%s) = %q, %v; want %q", name, got, err, want)
		}
	}
	must(t, s.Close())
	conn, err := sqlitedb.Open(path, Kind, sqlitedb.Options{})
	must(t, err)
	damage, err := conn.Prepare("UPDATE standing SET state = ? WHERE name = 'rules'")
	must(t, err)
	_, err = damage.Exec([]byte("secone"))
	must(t, err)
	must(t, conn.Close())
	s = open(t, path, Options{})
	if got, err := s.Standing(ctx, "rules"); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("Standing of a damaged row = %q, %v; want to be acts", got, err)
	}
	must(t, s.Close())
}
