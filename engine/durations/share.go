package durations

import (
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

const (
	// So many chunks at most are measured in a period; beyond that the share is halved.
	mostMeasured = 1000
	sharePeriod  = 100 * time.Millisecond

	leastShare = 1 << 16 // of so many chunks one at least is measured
)

// share decides which chunks are measured: all while they are few, and a random share of many. Each chunk that is measured counts for
// itself and for those before it that were passed over, so that all counts together are right. The distances are drawn at random: with a
// fixed one, values that take turns would never be measured, or always.
type share struct {
	left    atomic.Int64 // chunks until the next one is measured
	longest atomic.Int64 // of all in this half, also of those that are passed over

	// The others belong to the mutex of Kept.
	every  int64 // one chunk of so many is measured, on average
	drawn  int64 // the distance that left began with
	random uint64
	begun  queue.Time // of the period
	taken  int        // in the period

	_ [64]byte // shares of different kinds change on different processors
}

// passes says that n chunks are passed over, of which the slowest took so long. It takes no lock.
func (s *share) passes(n int64, slowest time.Duration) bool {
	for longest := s.longest.Load(); int64(slowest) > longest; longest = s.longest.Load() {
		if s.longest.CompareAndSwap(longest, int64(slowest)) {
			break
		}
	}
	if n > 1 && s.left.Load() <= n {
		return false // one of them is measured, or all
	}
	return s.left.Add(-n) > 0
}

// measured is for how many chunks one counts that is not passed over. It draws the distance to the next.
func (s *share) measured(now queue.Time) uint64 {
	if s.left.Load() > 0 {
		return 1 // another one that came at the same moment has drawn already
	}
	counts := max(s.drawn, 1)
	s.adapt(now)
	if s.drawn = 1; s.every > 1 {
		s.random = s.random*6364136223846793005 + 1442695040888963407 // Knuth's linear congruential generator
		s.drawn += int64(s.random>>33) % (2*s.every - 1)
	}
	s.left.Store(s.drawn)
	return uint64(counts)
}

// adapt halves the share of those that are measured when they are too many, and doubles it when they are few.
func (s *share) adapt(now queue.Time) {
	s.every = max(s.every, 1)
	if age := now.Sub(s.begun); age < 0 || age >= sharePeriod {
		if s.taken < mostMeasured/4 {
			s.every = max(s.every/2, 1)
		}
		if age >= time.Second {
			s.every = 1
		}
		s.begun, s.taken = now, 0
	}
	if s.taken++; s.taken > mostMeasured {
		s.every, s.taken = min(s.every*2, leastShare), 0
	}
}
