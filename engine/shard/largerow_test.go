package shard

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// The row of a large submission is the same, byte for byte, whether it is taken in one hold of the mutex or in slices between which chunks
// are reserved, released, offered again and shelved; and no hold encodes much of it.
//
//quern:sequential
func TestLargeRowIsExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		const held, most = 3000, 100
		l := heldLife(t, 10_000, held)
		for index := uint32(held + 10); index < held+6000; index += 2 { // waiting, back, dead, done ahead
			switch l.hold(index, reserver.Finishing); index % 8 {
			case 0:
				l.putBack(t, index, journal.Failed, l.m.Now+1+queue.Time(index%16), "waits")
			case 2:
				l.putBack(t, index, journal.Failed, 0, "is back")
			case 4:
				l.putBack(t, index, journal.Dead, 0, "is dead")
			default:
				l.complete(t, index)
			}
		}
		want := l.m.Snapshot(nil, l.r)
		s := &Shard{m: l.m, options: Options{CheckpointItems: most}}
		r := rand.New(rand.NewPCG(seed, 1))
		holds, moved := 0, 0
		s.mu.now = func() time.Time { return time.Time{} }
		s.mu.report = func(time.Duration) { // between two slices
			holds++
			l.m.Step(machine.KindRetry, l.m.Now+queue.Time(holds), 20, nil, nil)
			for range 40 {
				index := r.Uint32N(l.r.Chunks)
				if slot, is := l.m.Holds.Find(l.r.Seq, index); is {
					if l.m.Holds.At(slot).State == reserver.Held {
						l.m.Unhold(l.r, slot)
						moved++
					}
				} else if l.hold(index, reserver.Held) {
					moved++
				}
			}
		}
		s.checkpoints.init((*doors)(s), checkpointMeans{options: &s.options})
		got := s.checkpoints.largeSnapshot(l.m, l.r)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the row in slices has %d bytes, want the %d of one hold", seed, len(got), len(want))
		}
		if least := held / most; holds < least || moved < 100 || l.m.Loose.Of != nil {
			t.Fatalf("seed %d: %d holds, %d chunks moved in between; want at least %d and 100, and nothing noted any more", seed, holds, moved, least)
		}
		if err := audit.Machine(l.m); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
