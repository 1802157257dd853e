package shard

import (
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/strategy"
)

// The cost of a reserve and a completion in memory, without the journal: without a recount, and while one counts the
// totals, when a submission's first change counts it.
func BenchmarkReserveComplete(b *testing.B) {
	b.Run("idle", func(b *testing.B) { reserveComplete(b, func(*recount.Part, int) {}) })
	b.Run("totals", func(b *testing.B) {
		reserveComplete(b, func(c *recount.Part, i int) {
			if i%1_000_000 == 0 {
				c.BeginTotals()
			}
		})
	})
	b.Run("rounds", func(b *testing.B) { // a step of a recount with each, which is a hundred times the pace of a busy server
		reserveComplete(b, func(c *recount.Part, i int) {
			if i%100 == 0 {
				c.Slice(100)
			}
		})
	})
}

func reserveComplete(b *testing.B, before func(c *recount.Part, i int)) {
	m := pureMachine(lifeStart)
	recounts := quietRecount(m)
	populate(b, m, 10_000)
	parsed, err := strategy.Parse(`MaxSimultaneous("company", 50, Random)`)
	if err != nil {
		b.Fatal(err)
	}
	q := &machine.Request{Plan: parsed.Plan(), Max: 1, Consumer: "c"}
	views, unbuilt := m.Views(q.Plan, nil)
	for unbuilt != nil && !unbuilt.Build(1000) {
	}
	var held [64]machine.Pick
	var picks []machine.Pick
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		before(recounts, i)
		picks = picks[:0]
		if n := m.Follow(q, views, 1, lifeStart, &picks); n != 1 {
			b.Fatalf("step %d: %d chunks, want 1", i, n)
		}
		old := held[i%64]
		held[i%64] = picks[0]
		if old.R != nil {
			if err := m.ApplyComplete(journal.Completed{Seq: old.R.Seq, Index: old.Token.Index, Epoch: 3, Sequence: old.Token.Sequence}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// populate inserts submissions of 10^5 chunks with two values each.
func populate(b *testing.B, m *machine.Machine, n uint32) {
	for i := range n {
		key := backlog.OrderKey(100_000, uint64(i))
		meta := queue.Meta{{Key: "company", Value: queue.IntValue(int64(i % 100))}, {Key: "user", Value: queue.IntValue(int64(i % 3000))}}
		if err := m.ApplyInsert(&journal.Insert{Seq: i + 1, ID: queue.MakeSubmissionID(lifeStart+queue.Time(i), 0, 0), Chunks: 100_000, Key: key, Meta: meta, Prefix: "p/"}); err != nil {
			b.Fatal(err)
		}
	}
}

// The cost of one slice of a recount, which is how long all others wait for it: over many submissions, and within one
// submission with 10^6 tried chunks, 10^5 of them held.
func BenchmarkRecountSlice(b *testing.B) {
	slices := func(b *testing.B, m *machine.Machine) {
		recounts := quietRecount(m)
		b.ResetTimer()
		for b.Loop() {
			recounts.Slice(recount.SliceMost)
		}
	}
	b.Run("submissions", func(b *testing.B) {
		m := pureMachine(lifeStart)
		populate(b, m, 200_000)
		slices(b, m)
	})
	b.Run("tries", func(b *testing.B) { slices(b, triedLife(b, 1_000_000, 100_000).m) })
}

// quietRecount lets a machine without its shard recount.
func quietRecount(m *machine.Machine) *recount.Part {
	c := recount.New(m, nil)
	c.Compared, c.Skipped, c.Judged = func(recount.Scope, int) {}, func(recount.Skip, int) {}, func(recount.Counter, *recount.Drift) {}
	return c
}
