package engine

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-queue/quern/engine/queue"
)

// snapshotted is an engine whose stores are copied often.
func snapshotted(t *testing.T, dir, snapshots string) *Engine {
	t.Helper()
	return snapshottedEvery(t, dir, snapshots, 512<<10)
}

// snapshottedEvery makes a snapshot after so many bytes, or after each checkpoint if bytes is negative.
func snapshottedEvery(t *testing.T, dir, snapshots string, bytes int64) *Engine {
	t.Helper()
	e, err := Open(context.Background(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1, CheckpointBytes: 128 << 10,
		SnapshotDir: snapshots, SnapshotBytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// loseStores removes the stores of all queues of a directory that is not in use, and leaves the files of a start that was killed while it
// made them again.
func loseStores(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "shards", "*", storeFile+"*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no store to lose: %v", err)
	}
	for _, path := range files {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == storeFile {
			if err := os.WriteFile(path+copySuffix, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// keptSnapshots are the copies in a folder.
func keptSnapshots(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == blobsFolder })
}

// closedWhole closes an engine when no snapshot is under way: a close would cut it off, and leave the unfinished file to the next one.
func closedWhole(t *testing.T, e *Engine) {
	t.Helper()
	for _, q := range e.Queues() {
		if err := queueAt(e, q.Name).shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, e)
}

// large inserts a submission that is too large to share a batch with others, and returns it.
func large(t *testing.T, e *Engine) (id queue.SubmissionID, chunks [][]byte) {
	t.Helper()
	for i := range 9 {
		chunks = append(chunks, bytes.Repeat([]byte{byte('a' + i)}, queue.MaxChunkBytes-i))
	}
	n := queue.NewSubmission{Chunks: queue.Chunks{Inline: chunks}, Meta: queue.Meta{{Key: "large", Value: queue.IntValue(1)}},
		Attachment: bytes.Repeat([]byte{'z'}, queue.MaxAttachmentBytes)}
	s, _, err := queueAt(e, "large").Insert(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID, chunks
}

// hasLarge reserves the chunks of a large submission and looks at all their bytes.
func hasLarge(t *testing.T, e *Engine, id queue.SubmissionID, chunks [][]byte) {
	t.Helper()
	plan, err := queueAt(e, "large").Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	var got ReserveResult
	for len(got.Reservations) < len(chunks) { // one answer does not have all of their bytes
		had := len(got.Reservations)
		if got, err = queueAt(e, "large").Reserve(t.Context(), ReserveRequest{Max: 100, Plan: plan}, got.Reservations); err != nil ||
			len(got.Reservations) == had {
			t.Fatalf("%d reservations of %s, %v; want %d", len(got.Reservations), id, err, len(chunks))
		}
	}
	var tokens []queue.ReleaseItem
	for _, r := range got.Reservations {
		if !bytes.Equal(r.Content.Bytes, chunks[r.Token.Index]) || len(r.Attachment) != queue.MaxAttachmentBytes {
			t.Errorf("chunk %d has %d bytes and an attachment of %d", r.Token.Index, len(r.Content.Bytes), len(r.Attachment))
		}
		tokens = append(tokens, queue.ReleaseItem{Token: r.Token})
	}
	if _, err := queueAt(e, "large").Release(t.Context(), tokens, nil); err != nil {
		t.Fatal(err)
	}
}

// With snapshots, a server whose stores are deleted while it is stopped loses nothing. Contents and outputs, small and large, settings of
// operators, counters and ended submissions are made again from the snapshots and the journals. One copy of each store is kept.
//
//quern:sequential
func TestStoresAreMadeAgain(t *testing.T) {
	t.Parallel()
	dir, snapshots := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "snapshots")
	e := snapshotted(t, dir, snapshots)
	fillSettings(t, e)
	if _, _, err := e.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	id, chunks := large(t, e)
	queues := []string{"default", "other"}
	l := newLedger()
	for round := range restoreRounds(t) {
		stop := loadOf(t, e, l, queues)
		for enough := len(l.until().done) + 60; len(l.until().done) < enough && !t.Failed(); {
			<-l.more
		}
		stop()
		operate(t, e, round)
		set, before := settingsOf(t, e, queues), l.until()
		closed(t, e)
		loseStores(t, dir)
		e = snapshotted(t, dir, snapshots)
		l.check(t, e, before, queues)
		if got := settingsOf(t, e, queues); got != set {
			t.Errorf("settings:\n%swant\n%s", got, set)
		}
		hasLarge(t, e, id, chunks)
		for _, name := range queues {
			if _, err := e.Storage().Verify(t.Context(), name, func(f Fault) { t.Errorf("made again: %+v", f) }); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	of := len(e.Queues())
	closed(t, e)
	e = snapshottedEvery(t, dir, snapshots, -1) // a close may have left a copy that no op names: the next snapshot removes it
	closedWhole(t, e)
	files := keptSnapshots(t, snapshots)
	if len(files) != of {
		t.Errorf("%d copies are kept of %d queues: %v", len(files), of, files)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, ".zst") {
			t.Errorf("%s is left", name)
		}
	}
}

// A folder of snapshots that cannot be written refuses the start.
func TestFolderOfSnapshotsIsTried(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Dir: t.TempDir(), Now: time.Now, Seed: rand.Uint64, BallastBytes: -1, SnapshotDir: filepath.Join(file, "s")})
	if err == nil || !strings.Contains(err.Error(), "the folder of snapshots") {
		t.Errorf("got %v, want that the folder of snapshots cannot be used", err)
	}
}

// A store is made again only from a whole journal: one whose end is cut off is refused, as it is beside a store.
func TestStoreIsMadeAgainOfAWholeJournal(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	dir, snapshots := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "snapshots")
	e := snapshotted(t, dir, snapshots)
	l := newLedger()
	for i := range 30 {
		if err := l.insert(e, "default", strings.Repeat("4", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	killed := snapshot(t, dir)
	if err := os.Remove(filepath.Join(killed, "shards", "0000", storeFile)); err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		dir := snapshot(t, killed)
		log := filepath.Join(dir, "shards", "0000", journalFile+"-wal")
		info, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		size := random.Int64N(info.Size())
		if round > 0 {
			if err := os.Truncate(log, size); err != nil {
				t.Fatal(err)
			}
		}
		again, err := Open(t.Context(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1, SnapshotDir: snapshots})
		switch {
		case err == nil:
			l.check(t, again, l, []string{"default"})
			closed(t, again)
		case round == 0 || !advises(err):
			t.Errorf("a log of %d bytes of %d: %v", size, info.Size(), err)
		}
	}
}

// A missing store is refused, with advice, if its snapshot is missing, damaged or not kept any more. The other queues serve.
//
//quern:sequential
func TestStoresThatCannotBeMadeAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm func(t *testing.T, dir, snapshots string)
		want string
	}{
		"snapshots are gone": {func(t *testing.T, _, snapshots string) {
			if err := os.RemoveAll(snapshots); err != nil {
				t.Fatal(err)
			}
		}, "it is not there"},
		"a snapshot is damaged": {func(t *testing.T, _, snapshots string) {
			for _, path := range keptSnapshots(t, snapshots) {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				b[len(b)/2] ^= 1
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, "damaged"},
		"a snapshot is another one": {func(t *testing.T, _, snapshots string) {
			packer, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range keptSnapshots(t, snapshots) {
				if err := os.WriteFile(path, packer.EncodeAll([]byte("another"), nil), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, "its checksum is"},
		"none are kept any more": {func(t *testing.T, dir, _ string) {
			e := openAt(t, dir)
			if err := newLedger().insert(e, "default", "more"); err != nil {
				t.Fatal(err)
			}
			closed(t, e)
		}, "names no snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, snapshots := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "snapshots")
			e := snapshotted(t, dir, snapshots)
			l := newLedger()
			for i := 0; len(keptSnapshots(t, snapshots)) == 0 || i < 40; i++ {
				if err := l.insert(e, "default", strings.Repeat("3", i+1)); err != nil {
					t.Fatal(err)
				}
				if _, err := l.work(e, "default", false); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := e.PutQueue(t.Context(), "other", queue.DefaultSettings()); err != nil {
				t.Fatal(err)
			}
			closedWhole(t, e)
			test.harm(t, dir, snapshots)
			if err := os.Remove(filepath.Join(dir, "shards", "0000", storeFile)); err != nil {
				t.Fatal(err)
			}
			e = snapshotted(t, dir, snapshots)
			for _, q := range e.Queues() {
				if broken := q.Quarantined != nil; broken != (q.Name == "default") {
					t.Errorf("queue %s is in quarantine: %t", q.Name, broken)
				} else if broken && !strings.Contains(q.Quarantined.Reason, test.want) {
					t.Errorf("the reason is %q, want %q", q.Quarantined.Reason, test.want)
				}
			}
		})
	}
}
