package backlog

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// BenchmarkRule measures 10^6 chunks behind a pause at the head of OldestFirst, in so many submissions: how long
// setting and lifting it hold the shard, and the costs of the first reserve after it and of later ones, beside one with
// nothing paused.
func BenchmarkRule(b *testing.B) {
	const paused = 1_000_000
	for _, submissions := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("submissions=%d", submissions), func(b *testing.B) {
			entry := queue.MetaEntry{Key: "customer", Value: queue.IntValue(7)}
			x := New()
			for i := range submissions + 1000 {
				value := entry.Value
				if i >= submissions {
					value = queue.IntValue(int64(i % 10))
					if value == entry.Value {
						value = queue.IntValue(8)
					}
				}
				chunks := uint32(paused / submissions)
				if i >= submissions {
					chunks = 1000
				}
				key := OrderKey(chunks, uint64(i))
				x.Show(x.Insert(Spec{
					ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: chunks, Key: key,
					Meta: queue.Meta{{Key: "customer", Value: value}, {Key: "mode", Value: queue.IntValue(int64(i % 3))}},
				}))
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			v := finished(x, filtered(strategy.OldestFirst))
			take := func(n int) time.Duration {
				began := time.Now()
				for range n {
					s, index, ok := x.Take(v, rnd)
					if !ok {
						b.Fatal("nothing to take")
					}
					x.PutBack(s, index)
					x.Land(s)
				}
				return time.Since(began)
			}
			var set, first, lift, steady, free, slice time.Duration
			slices := 0
			const many = 1000
			for i := range b.N {
				free += take(many)
				set += change(x, entry, queue.PausedByRule)
				for from, more := -1, true; i == 0 && more; more = from != 0 {
					began := time.Now()
					from = x.Shelve(entry, from, 500)
					slice = max(slice, time.Since(began))
					slices++
				}
				if i == 0 {
					first = take(1)
				}
				steady += take(many)
				lift += change(x, entry, queue.Unruled)
			}
			b.ReportMetric(float64(set.Nanoseconds())/float64(b.N)/1000, "set-µs")
			b.ReportMetric(float64(lift.Nanoseconds())/float64(b.N)/1000, "lift-µs")
			b.ReportMetric(float64(slices), "shelve-slices")
			b.ReportMetric(float64(slice.Microseconds()), "longest-slice-µs")
			b.ReportMetric(float64(first.Microseconds()), "first-take-µs")
			b.ReportMetric(float64(steady.Nanoseconds())/float64(b.N*many), "take-ns")
			b.ReportMetric(float64(steady)/float64(free), "take-ratio")
		})
	}
}

// change prepares and makes a change, and returns how long the change itself took. The shard is held that long without
// a pause.
func change(b *Backlog, entry queue.MetaEntry, ruling queue.Ruling) time.Duration {
	b.Rules.Draft(entry, ruling)
	for from, more := -1, true; more; more = from != 0 {
		from = b.Rules.Prepare(from, 2000)
	}
	began := time.Now()
	b.Rules.SetValue(entry, ruling)
	took := time.Since(began)
	for from, more := -1, true; more; more = from != 0 {
		from = b.Rules.Reconcile(from, 2000)
	}
	return took
}
