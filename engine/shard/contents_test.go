package shard

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Outputs wait in memory for a checkpoint up to a bound. While the store fails, completions with outputs are refused at
// the bound, and others go on. When the store works again, the next callers make room.
func TestRoomForOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := optionsOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
	})
	o.CheckpointBytes = 64 << 10
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const most = 40
	n := queue.NewSubmission{Chunks: queue.Chunks{Count: most + 2, Prefix: "p/"}}
	if _, _, err := s.Insert(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	parsed, err := strategy.Parse("OldestFirst")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Reserve(t.Context(), machine.Request{Plan: parsed.Plan(), Max: most + 2, Timeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var held []queue.Token
	for i := range got.Reservations {
		held = append(held, got.Reservations[i].Token)
	}
	complete := func(output []byte) (int64, error) {
		_, err := s.Complete(t.Context(), []queue.CompleteItem{{Token: held[0], Output: output}}, nil)
		if err == nil {
			held = held[1:]
		}
		return s.store.Memtable.Bytes(), err
	}
	if err := s.store.SetMaxPages(1); err != nil { // the size that the file already has
		t.Fatal(err)
	}
	noise := make([]byte, 16<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	bound := s.contents.Most() + int64(len(noise)) + 1024
	err = nil
	for i := 0; err == nil && i < most; i++ {
		var bytes int64
		if bytes, err = complete(noise); bytes > bound {
			t.Fatalf("%d bytes wait in memory, want %d at most", bytes, bound)
		}
	}
	if queue.CodeOf(err) != queue.CodeDiskFull {
		t.Fatalf("completions while the store takes nothing ended with %v, want %s", err, queue.CodeDiskFull)
	}
	if _, err := complete(nil); err != nil {
		t.Errorf("a completion without an output: %v", err)
	}
	if err := s.store.SetMaxPages(0); err != nil {
		t.Fatal(err)
	}
	if bytes, err := complete(noise); err != nil || bytes > s.contents.Most() {
		t.Errorf("a completion when there is room: %v, and %d bytes wait in memory; want a checkpoint before it", err, bytes)
	}
}
