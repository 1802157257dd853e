package backlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// BenchmarkShelve puts 10^6 submissions of one value aside, behind a pause, in slices of 500 as a shard does: how long the longest slice
// takes, and the second longest, and all of it.
func BenchmarkShelve(b *testing.B) {
	for _, order := range []strategy.Order{strategy.OldestFirst, strategy.Random} {
		b.Run(fmt.Sprint(order), func(b *testing.B) {
			const submissions = 1_000_000
			entry := queue.MetaEntry{Key: "customer", Value: queue.IntValue(7)}
			x := New()
			for i := range submissions {
				key := OrderKey(1, uint64(i))
				x.Show(x.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 1, Key: key, Meta: queue.Meta{entry}}))
			}
			finished(x, filtered(order))
			for range b.N {
				change(x, entry, queue.PausedByRule)
				var longest, second, all time.Duration
				at := 0
				for from, more := -1, true; more; more = from != 0 {
					began := time.Now()
					from = x.Shelve(entry, from, 500)
					took := time.Since(began)
					if all += took; took > longest {
						longest, second, at = took, longest, from
					} else {
						second = max(second, took)
					}
				}
				b.Logf("longest %s with %d to go, second %s, all %s", longest, at, second, all)
				b.ReportMetric(float64(longest.Microseconds()), "longest-us")
				change(x, entry, queue.Unruled)
			}
		})
	}
}
