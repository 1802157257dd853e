package nodes

import (
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
)

// The simulated database does all that a backend must, so that nodes behave with it as with a real one.
func TestBackend(t *testing.T) {
	t.Parallel()
	var all sync.Map // dir -> *database
	of := func(dir string) *database {
		d, _ := all.LoadOrStore(dir, newDatabase())
		return d.(*database)
	}
	clustertest.Exercise(t, clustertest.Medium{
		Open: func(_ *testing.T, dir string) (cluster.Backend, func() error) {
			return &link{database: of(dir)}, func() error { return nil }
		},
		Rewind: func(_ *testing.T, dir string, to journal.Position) { of(dir).rewind(clustertest.Journal, to) },
		Fail: func(j journal.Journal, o journaltest.Outcome, tries int, made func()) {
			l := j.(*log)
			l.mu.Lock()
			defer l.mu.Unlock()
			for range tries {
				l.fails = append(l.fails, failing{o, made})
			}
		},
		Damage: func(_ *testing.T, dir, key string) {
			d := of(dir)
			d.mu.Lock()
			defer d.mu.Unlock()
			damaged := d.blobs[key]
			damaged.bytes = append([]byte{damaged.bytes[0] ^ 1}, damaged.bytes[1:]...)
			d.blobs[key] = damaged
		},
	})
}
