//quern:sequential

package repair

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// A shard comes back from a backup that is older than the newest snapshot of its store. Large contents, of which the folder of snapshots
// has no copy any more, are whole. The next snapshot makes the store again when it is lost.
func TestRestoreIsOlderThanTheSnapshot(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	closed(t, e)
	snapshots := filepath.Join(t.TempDir(), "snapshots")
	snapshotted := func() *engine.Engine {
		t.Helper()
		e, err := engine.Open(t.Context(), engine.Options{Dir: o.dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1,
			CheckpointBytes: 64 << 10, SnapshotDir: snapshots, SnapshotBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	large := func(e *engine.Engine, of byte) {
		t.Helper()
		s := queue.NewSubmission{Group: o.groups[1]}
		s.Chunks.Inline = [][]byte{bytes.Repeat([]byte{of}, 200<<10)}
		if _, _, err := o.shard(e, 2).Insert(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(snapshots, "*", "0002", "*.zst"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	e = snapshotted()
	large(e, 'a')
	from := o.backup(e)
	for of := byte('b'); of < 'f'; of++ {
		large(e, of)
	}
	o.insert(e, 2, 2000)
	for until := time.Now().Add(20 * time.Second); kept() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no snapshot was made")
		}
	}
	closed(t, e)
	for _, lost := range []string{"journal.db", "store.db"} {
		if err := os.Truncate(filepath.Join(o.folder(2), lost), 5000); err != nil {
			t.Fatal(err)
		}
		closed(t, snapshotted())
		if _, err := o.restore("orders~2", from); err != nil {
			t.Fatal(err)
		}
		e = snapshotted()
		got := o.take(e, 2, 10)
		if len(got) != 1 || !bytes.Equal(got[0].Content.Bytes, bytes.Repeat([]byte{'a'}, 200<<10)) {
			t.Fatalf("lost %s: it gives %d chunks, want the large one of the backup", lost, len(got))
		}
		large(e, 'x')
		o.insert(e, 2, 2000)
		closed(t, e)
		if err := os.Remove(filepath.Join(o.folder(2), "store.db")); err != nil {
			t.Fatal(err)
		}
		e = snapshotted()
		ready := o.shard(e, 2).Stats().Ready
		got = o.take(e, 2, 1)
		if ready != 2001 || len(got) != 1 || !bytes.Equal(got[0].Content.Bytes, bytes.Repeat([]byte{'x'}, 200<<10)) {
			t.Fatalf("lost %s, and then the store: %d chunks are ready, want 2001, and the large one first", lost, ready)
		}
		closed(t, e)
		if n := kept(); n != 1 {
			t.Errorf("%d snapshots are kept, want 1", n)
		}
	}
}
