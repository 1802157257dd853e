package shard

import (
	"context"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Each chunk is measured once it is handed out: how long it waited for that since it was inserted.
func TestReserveMeasuresWaits(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		ctx, waits := context.Background(), measure.New([]float64{1})
		s.Answers.Waits = waits
		if _, _, err := s.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}); err != nil {
			t.Fatal(err)
		}
		parsed, err := strategy.Parse("OldestFirst")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []uint64{3, 5, 5} {
			if _, err := s.Reserve(ctx, machine.Request{Plan: parsed.Plan(), Max: 3, Timeout: time.Hour}, nil); err != nil {
				t.Fatal(err)
			}
			if got := waits.Counts().Count; got != want {
				t.Errorf("%d waits are measured, want %d", got, want)
			}
		}
	})
}

// Submissions of one prefix share its memory, as they are inserted and after a restart.
func TestPrefixesShareTheirMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ids []queue.SubmissionID
	one := func(s *Shard) {
		var first *byte
		s.mu.held(func() {
			for _, id := range ids {
				r := s.m.Live(id)
				if first == nil {
					first = unsafe.StringData(r.Prefix)
				}
				if r.Prefix != "bucket/" || unsafe.StringData(r.Prefix) != first {
					t.Errorf("submission %s has the prefix %q, in memory of its own: %t", id, r.Prefix, unsafe.StringData(r.Prefix) != first)
				}
			}
		})
	}
	withShard(t, dir, func(s *Shard) {
		for range 3 {
			n := &queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: strings.Clone("bucket/")}}
			sub, _, err := s.Insert(context.Background(), n)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, sub.ID)
		}
		one(s)
	})
	withShard(t, dir, one)
}
