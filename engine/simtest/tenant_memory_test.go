package simtest

import (
	"runtime"
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// A tenant of a Fair block costs less than 300 bytes beyond its submission: its books, its place in the ledger, its part of the view.
// The test measures the growth of the heap at the first use of the block. It is not parallel, as all tests share the heap.
func TestMemoryOfATenant(t *testing.T) {
	const tenants = 100_000
	for _, text := range []string{`Fair("company", OldestFirst)`, `Fair("company", Random)`, `Fair("company", MaxSimultaneous("company", 5, OldestFirst))`} {
		b := backlog.New()
		for i := range tenants {
			spec := backlog.Spec{Seq: uint32(i + 1), ID: queue.SubmissionID(i + 1), Chunks: 100, Meta: queue.Meta{{Key: "company", Value: queue.IntValue(int64(i))}}}
			spec.Key = backlog.OrderKey(spec.Chunks, uint64(i))
			b.Show(b.Insert(spec))
		}
		before := heapBytes()
		v := b.Views.Of(&plan(t, text).Branches[0])
		for !v.Build(1 << 20) {
		}
		each := float64(heapBytes()-before) / tenants
		t.Logf("%s: %.0f bytes a tenant", text, each)
		if each >= 300 {
			t.Errorf("%s: %.0f bytes a tenant, want fewer than 300", text, each)
		}
		runtime.KeepAlive(b)
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // memory that finalizers held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
