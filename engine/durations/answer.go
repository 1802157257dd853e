package durations

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Of tells how long chunks of the queue took lately or, with an entry, those of the submissions with this value. A value that is not kept
// is from now on, and its Since is now.
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

// quantile is about the duration that a share of all stayed below: the middle of its bucket, at most a tenth off.
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
