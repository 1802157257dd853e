package shard

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// BenchmarkLargeRow takes the row of an open submission of which 10^6 chunks wait for another try: in one hold of the mutex, and in slices,
// of which the longest counts.
func BenchmarkLargeRow(b *testing.B) {
	const chunks, tries = 2_000_000, 1_000_000
	key := backlog.OrderKey(chunks, 11)
	l := newLife(b, &journal.Insert{Seq: 7, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: chunks, Key: key, Prefix: "p/"})
	for index := range uint32(tries) {
		l.hold(index, reserver.Finishing)
		l.putBack(b, index, journal.Failed, l.m.Now+1000, "no luck today")
	}
	s := &Shard{m: l.m, options: Options{CheckpointItems: 2000}}
	var longest time.Duration
	s.mu.now, s.mu.report = time.Now, func(took time.Duration) { longest = max(longest, took) }
	s.checkpoints.init((*doors)(s), checkpointMeans{options: &s.options})
	b.Run("one hold", func(b *testing.B) {
		longest = 0
		for range b.N {
			s.mu.Lock()
			l.m.Snapshot(nil, l.r)
			s.mu.Unlock()
		}
		b.ReportMetric(float64(longest.Microseconds()), "longest-hold-us")
	})
	b.Run("slices", func(b *testing.B) {
		longest = 0
		for range b.N {
			s.checkpoints.largeSnapshot(l.m, l.r)
		}
		b.ReportMetric(float64(longest.Microseconds()), "longest-hold-us")
	})
}
