package shard

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Of dead letters whose inserts are on their way to the disk and fail, the newest first, each is expected again from then on, and the ones
// before it are not: they may still arrive.
func TestUndoneArrivalsAreExpected(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f := &s.m.Forwarding
		const source = 7
		pending := []machine.Arriving{{Source: source}, {Source: source, Before: 1}, {Source: source, Before: 2}} // 1, 2 and 3
		f.Arriving[source] = 3
		for left := 3; left >= 0; left-- {
			for number := uint64(1); number <= 3; number++ {
				o := &queue.Origin{Source: source, Number: number}
				if got := f.Expects(o); got != (number > uint64(left)) {
					t.Errorf("with %d on their way, number %d is expected: %v", left, number, got)
				}
			}
			if left > 0 {
				pending[left-1].Undo(s.m)
			}
		}
		if len(f.Arriving) != 0 {
			t.Errorf("%v is kept, want nothing", f.Arriving)
		}
	})
}
