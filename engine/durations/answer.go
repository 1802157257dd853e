package durations

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Of returns how long chunks of the queue took lately or, with an entry, those of the submissions with this value. A value that is not kept
// yet is kept from now on, and its Since is now.
func (k *Kept) Of(entry *queue.MetaEntry, now queue.Time) (out api.Durations) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn(now)
	k.slowest()
	p, since := &k.all, queue.Time(0)
	if entry != nil {
		p = k.pairOf(*entry, now, true)
		p.seen, since = max(p.seen, now), p.since
	}
	if out.Since = max(k.since, since).API(); k.before != 0 {
		out.Since = max(k.before, since).API()
	}
	out.Wait, out.Run = joined(p.now[wait], p.before[wait]), joined(p.now[run], p.before[run])
	return out
}

// joined joins both halves.
func joined(parts ...*counts) (out api.DurationCounts) {
	var all counts
	for _, c := range parts {
		if c != nil {
			for i, n := range c.of {
				all.of[i] = uint32(min(uint64(all.of[i])+uint64(n), math.MaxUint32))
			}
			all.n += c.n
			all.longest = max(all.longest, c.longest)
		}
	}
	out = api.DurationCounts{Count: all.n, MaxMS: all.longest.Milliseconds(), Buckets: []api.DurationBucket{}}
	out.P50MS, out.P95MS = all.quantile(0.5), all.quantile(0.95)
	for power := -1; power < powers; power++ {
		n := uint64(all.of[0])
		if power >= 0 {
			n = 0
			for _, m := range all.of[1+power*perPower : 1+(power+1)*perPower] {
				n += uint64(m)
			}
		}
		if n > 0 || len(out.Buckets) > 0 {
			out.Buckets = append(out.Buckets, api.DurationBucket{BelowMS: 1 << (power + 1), Count: n})
		}
	}
	for n := len(out.Buckets); n > 0 && out.Buckets[n-1].Count == 0; n-- {
		out.Buckets = out.Buckets[:n-1]
	}
	return out
}

// quantile is the duration that a share of all chunks stayed below, as the middle of its bucket: at most a tenth off.
func (c *counts) quantile(share float64) int64 {
	left := uint64(math.Ceil(float64(c.n) * share))
	for i, n := range c.of {
		if left <= uint64(n) && n > 0 {
			if i == 0 {
				return 0
			}
			middle := math.Round(math.Exp2((float64(i-1) + 0.5) / perPower))
			return min(int64(middle), c.longest.Milliseconds())
		}
		left -= min(left, uint64(n))
	}
	return 0
}

const (
	// The most chunks that are measured in a period; beyond it the share is halved.
	mostMeasured = 1000
	sharePeriod  = 100 * time.Millisecond

	leastShare = 1 << 16 // of this many chunks one at least is measured
)

// share decides which chunks are measured: all while they are few, and a random share of many. A measured chunk counts for itself and for
// those before it that were passed over, so that the sum of the counts is right. The distances between measured chunks are random: with a
// fixed one, values that take turns would never be measured, or always.
type share struct {
	left    atomic.Int64 // chunks until the next one is measured
	longest atomic.Int64 // of all in this half, also of those that are passed over

	// The others belong to the mutex of Kept.
	every  int64 // one chunk of this many is measured, on average
	drawn  int64 // the distance that left began with
	random uint64
	begun  queue.Time // of the period
	taken  int        // in the period

	_ [64]byte // shares of different kinds change on different processors
}

// passes says whether n chunks are passed over, and notes the time of the slowest. It takes no lock.
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

// measured is how many chunks a measured one counts for. It draws the distance to the next.
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

// adapt halves the share of measured chunks when they are too many, and doubles it when they are few.
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
