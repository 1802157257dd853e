package shard

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
)

// A directory that a build with version 1 of the ops wrote opens, and Random goes on where it was, in the order that the op says:
// from the journal, from the row that a checkpoint writes, and with further completions behind that. What is inserted now has a key.
func TestOldOrderGoesOn(t *testing.T) {
	t.Parallel()
	const chunks, mul, add = 1000, 381, 7
	at := func(p uint32) uint32 { return uint32((uint64(p)*mul + add) % chunks) }
	dir, ctx := t.TempDir(), context.Background()
	id := queue.MakeSubmissionID(lifeStart, 0, 0)
	withShard(t, dir, func(*Shard) {})
	written := func(version byte, fill func(*journal.Encoder)) {
		t.Helper()
		log, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		var e journal.Encoder
		e.Reset(1, lifeStart)
		fill(&e)
		batch := append([]byte{version}, e.Bytes()[1:]...)
		tail, err := log.Tail(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(ctx, tail, batch); err != nil {
			t.Fatal(err)
		}
	}
	done := func(e *journal.Encoder, from, to uint32) {
		for p := from; p < to; p++ {
			e.Complete([]journal.Completed{{Seq: 1, Index: at(p), Epoch: 1, Sequence: uint64(p + 1)}})
		}
	}
	goesOn := func(s *Shard, p uint32) {
		t.Helper()
		sub := s.m.Backlog.ByID(id)
		if key, m, a := sub.Order(); key != 0 || m != mul || a != add {
			t.Fatalf("the order is %d, %d, %d, want 0, %d, %d", key, m, a, mul, add)
		}
		if got := sub.Next(true); sub.Available() != chunks-p || got != at(p) {
			t.Fatalf("%d chunks are available and Random would take chunk %d, want %d and chunk %d", sub.Available(), got, chunks-p, at(p))
		}
	}
	written(1, func(e *journal.Encoder) {
		e.Insert(&journal.Insert{Seq: 1, ID: id, Chunks: chunks, Mul: mul, Add: add, Prefix: "p/"})
		done(e, 0, 100)
	})
	withShard(t, dir, func(s *Shard) {
		goesOn(s, 100)
		if err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	})
	written(journal.Version, func(e *journal.Encoder) { done(e, 100, 150) })
	withShard(t, dir, func(s *Shard) {
		goesOn(s, 150)
		n := queue.NewSubmission{Chunks: queue.Chunks{Count: chunks, Prefix: "p/"}}
		sub, _, err := s.Insert(ctx, &n)
		if err != nil {
			t.Fatal(err)
		}
		if key, m, _ := s.m.Backlog.ByID(sub.ID).Order(); key == 0 || m != 0 {
			t.Errorf("a new submission has the order %d, %d", key, m)
		}
	})
}
