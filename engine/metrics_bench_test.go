package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
)

// A scrape costs the same at any backlog: compare the two.
func BenchmarkScrape(b *testing.B) {
	for _, submissions := range []int{100, 20_000} {
		b.Run(fmt.Sprintf("submissions=%d", submissions), func(b *testing.B) {
			registry := prometheus.NewRegistry()
			e, err := Open(context.Background(), Options{
				Dir: b.TempDir(), Now: time.Now, Seed: func() uint64 { return 1 }, Registerer: registry, BallastBytes: -1, MetricKeys: []queue.MetaKey{"company"},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			settings := queue.DefaultSettings()
			settings.Durability = queue.Relaxed
			if _, _, err := e.PutQueue(context.Background(), DefaultQueue, settings); err != nil {
				b.Fatal(err)
			}
			for i := range submissions {
				if _, _, err := queueAt(e, DefaultQueue).Insert(context.Background(), queue.NewSubmission{
					Chunks: queue.Chunks{Count: 1000, Prefix: "x"}, OperationsPerChunk: 1, Meta: queue.Meta{{Key: "company", Value: queue.IntValue(int64(i))}},
				}); err != nil {
					b.Fatal(err)
				}
			}
			e.sample()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := registry.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
