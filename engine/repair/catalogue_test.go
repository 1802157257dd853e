//quern:sequential

package repair

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A repair takes only the damaged row out of the catalogue: the other queues keep their names and settings.
func TestOneRowOfTheCatalogue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, dir)
	settings := queue.DefaultSettings()
	settings.MaxAttempts = 7
	for _, name := range []string{"first", "second", "third"} {
		if _, _, err := e.PutQueue(t.Context(), name, settings); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, e)
	db, err := sqlitedb.SQL(filepath.Join(dir, "quern.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE queue SET name = 'secomd' WHERE name = 'second'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "repaired")
	r, err := Dir(t.Context(), dir, to, check.Options{Work: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Left) != 1 || r.Left[0].Table != "queue" || !r.Check.Whole {
		t.Errorf("left out are %v, and a check finds %v; want the one row, and nothing", r.Left, r.Check.Findings)
	}
	e = open(t, to)
	defer closed(t, e)
	for _, name := range []string{"first", "third"} {
		if info, err := e.QueueInfo(name); err != nil || info.Settings.MaxAttempts != 7 {
			t.Errorf("%s: %+v, %v; want it with its settings", name, info, err)
		}
	}
}
