package shard

import (
	"testing"

	"github.com/quern-queue/quern/engine/shard/machine"
)

// A call waits for the last batch that has anything in it: the open one, or the one that was sealed last, or the one
// that is being appended.
func TestPendingIsTheLast(t *testing.T) {
	t.Parallel()
	s := &Shard{m: &machine.Machine{Batch: machine.NewBatch()}}
	s.writer.m = s.m
	if got := s.writer.pending(); got != nil {
		t.Errorf("with nothing on its way: got %p, want none", got)
	}
	var batches []*machine.Batch
	for range 3 {
		b := s.m.Batch
		b.Begun = true
		if got := s.writer.pending(); got != b.Commit {
			t.Errorf("with %d batches before it: got %p, want the open one, %p", len(batches), got, b.Commit)
		}
		s.writer.seal()
		if got := s.writer.pending(); got != b.Commit {
			t.Errorf("with %d batches before it: got %p, want the one that was sealed, %p", len(batches), got, b.Commit)
		}
		batches = append(batches, b)
	}
	for i, want := range batches {
		if s.writer.inflight = s.writer.take(); s.writer.inflight != want {
			t.Fatalf("the batch that is appended as number %d is %p, want %p", i, s.writer.inflight, want)
		}
		if got := s.writer.pending(); got != batches[2].Commit {
			t.Errorf("while batch %d is appended: got %p, want the last one, %p", i, got, batches[2].Commit)
		}
	}
	if b := s.writer.take(); b != nil {
		t.Errorf("got %p to append, and there is nothing left", b)
	}
}
