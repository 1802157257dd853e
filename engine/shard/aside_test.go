package shard

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// However many entries of the outbox changed since the last checkpoint, no hold of the mutex makes more than checkpointMost rows of them, and a start
// finds them all.
func TestAsideIsWrittenInSlices(t *testing.T) {
	t.Parallel()
	dir, holds := t.TempDir(), 0
	const entries = 20 * checkpointMost
	withShard(t, dir, func(s *Shard) {
		s.mu.Lock()
		for n := range uint64(entries) {
			s.parts.letters.Outbox.Add(queue.Outgoing{Number: n + 1, Queue: "there", Chunk: queue.ChunkID{Submission: 1, Index: uint32(n)}})
			s.m.Asides.Changed(machine.AsideOutbox, n+1)
		}
		s.mu.report = func(time.Duration) { holds++ }
		s.mu.Unlock()
		if err := s.checkpoints.asides(t.Context(), s.m, 0); err != nil {
			t.Fatal(err)
		}
		if holds < entries/checkpointMost {
			t.Errorf("%d rows were made in %d holds of the mutex, want at least %d", entries, holds, entries/checkpointMost)
		}
	})
	withShard(t, dir, func(s *Shard) {
		if got := s.Forwarding.OutgoingTo("there"); got != entries {
			t.Errorf("after a restart: %d on their way, want %d", got, entries)
		}
	})
}
