package backlog

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

const (
	benchSubmissions = 100_000
	benchChunks      = 10_000 // 10^9 in all
)

func runCycle(b *testing.B, test costCase, backlog *Backlog) {
	c := test.cycle(backlog)
	for range 10_000 {
		c.once()
	}
	before := backlog.Examined()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		c.once()
	}
	b.ReportMetric(float64(backlog.Examined()-before)/float64(b.N), "examined/op")
}

// BenchmarkTake is one Take, Land and PutBack at 10^5 submissions of 10^4 chunks.
func BenchmarkTake(b *testing.B) {
	for _, test := range costCases() {
		if test.before == nil {
			b.Run(test.name, func(b *testing.B) { runCycle(b, test, filled(benchSubmissions, benchChunks)) })
		}
	}
}

// BenchmarkTakeSaturated is the same where other designs scan: the head of the order reserved, all values but one or all of
// them saturated.
func BenchmarkTakeSaturated(b *testing.B) {
	for _, test := range costCases() {
		if test.before != nil {
			b.Run(test.name, func(b *testing.B) { runCycle(b, test, filled(benchSubmissions, 10)) })
		}
	}
	worst := costCase{name: "nested-100x100", hold: 90, branch: limited(strategy.Random, strategy.Limit{Key: "x", Max: 1}, strategy.Limit{Key: "y", Max: 1})}
	b.Run(worst.name, func(b *testing.B) {
		runCycle(b, worst, pairs(benchSubmissions))
	})
}

// BenchmarkTakeOnly is Take alone, each chunk finished at once.
func BenchmarkTakeOnly(b *testing.B) {
	for _, order := range []strategy.Order{strategy.Random, strategy.OldestFirst, strategy.NewestFirst, strategy.CustomPriority} {
		b.Run(order.String(), func(b *testing.B) {
			backlog := filled(benchSubmissions, 1<<20)
			v, rnd := finished(backlog, filtered(order)), rand.New(rand.NewPCG(1, 60))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				backlog.Take(v, rnd)
			}
		})
	}
}

// BenchmarkInsert is Insert, Show and Remove beside 10^5 others, with four broad views and one by company.
func BenchmarkInsert(b *testing.B) {
	backlog := filled(benchSubmissions, 1000)
	for _, br := range []strategy.Branch{filtered(strategy.Random), filtered(strategy.OldestFirst), filtered(strategy.NewestFirst), filtered(strategy.CustomPriority), filtered(strategy.Random, equals("company", 5))} {
		finished(backlog, br)
	}
	ring := make([]*Submission, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		seq := uint32(benchSubmissions + 1 + i)
		key := OrderKey(1000, uint64(i))
		if old := ring[i%len(ring)]; old != nil {
			backlog.Remove(old)
		}
		s := backlog.Insert(Spec{
			Seq: seq, ID: queue.SubmissionID(seq) * 10, Chunks: 1000, Key: key,
			Meta: queue.Meta{is("company", int64(i%1000)), is("kind", int64(i%100)), is("mode", 1)},
		})
		backlog.Show(s)
		ring[i%len(ring)] = s
	}
}

// BenchmarkInsertNested is the same beside 10^5 others in 10^4 pairs, with one view of two limits.
func BenchmarkInsertNested(b *testing.B) {
	backlog := pairs(benchSubmissions)
	finished(backlog, limited(strategy.Random, strategy.Limit{Key: "x", Max: 3}, strategy.Limit{Key: "y", Max: 3}))
	ring := make([]*Submission, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		seq := uint32(benchSubmissions + 1 + i)
		key := OrderKey(1000, uint64(i))
		if old := ring[i%len(ring)]; old != nil {
			backlog.Remove(old)
		}
		s := backlog.Insert(Spec{
			Seq: seq, ID: queue.SubmissionID(seq) * 10, Chunks: 1000, Key: key,
			Meta: queue.Meta{is("x", int64(i%100)), is("y", int64(i/100%100))},
		})
		backlog.Show(s)
		ring[i%len(ring)] = s
	}
}

// pairs is a backlog of all pairs of x and y, a hundred of each.
func pairs(submissions int64) *Backlog {
	b := New()
	for i := range submissions {
		b.add(1000, 0, is("x", i%100), is("y", i/100%100))
	}
	return b
}

// BenchmarkOrder measures a pick's cost for its place in the order, by size, and the cost of the inverse.
func BenchmarkOrder(b *testing.B) {
	for _, n := range []uint32{16, 17, 64, 256, 1000, 1_000_000, 1<<32 - 1} {
		for _, kind := range []struct {
			name string
			s    *Submission
			of   func(*Submission, uint32) uint32
		}{
			{"keyed", permuted(n, 1), (*Submission).at}, {"keyed-inverse", permuted(n, 1), (*Submission).positionOf},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, kind.name), func(b *testing.B) {
				p, sum := uint32(0), uint32(0)
				for range b.N {
					sum += kind.of(kind.s, p)
					if p++; p == n {
						p = 0
					}
				}
				runtime.KeepAlive(sum)
			})
		}
	}
}

// BenchmarkMemory reports the live heap per submission: with three keys of few values and without meta, and for each
// broad view, and for a key with a value of its own for each submission. It measures once, whatever b.N is.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	const n = benchSubmissions
	start := heap()
	bare := New()
	for range n {
		bare.add(1000, 0)
	}
	b.ReportMetric((heap()-start)/n, "B/sub-0-keys")
	runtime.KeepAlive(bare)
	bare = nil

	start = heap()
	backlog := filled(n, 1000)
	b.ReportMetric((heap()-start)/n, "B/sub-3-keys")
	for i, order := range []strategy.Order{strategy.Random, strategy.OldestFirst, strategy.CustomPriority} {
		before := heap()
		finished(backlog, filtered(order))
		b.ReportMetric((heap()-before)/n, fmt.Sprintf("B/sub-view-%d", i+1))
	}
	before := heap()
	finished(backlog, limited(strategy.Random, strategy.Limit{Key: "company", Max: 3}))
	b.ReportMetric((heap()-before)/n, "B/sub-limited-view")
	runtime.KeepAlive(backlog)
	backlog = nil

	nested := pairs(n)
	alone := New()
	for i := range int64(n) {
		alone.add(1000, 0, is("x", i%10_000), is("y", i*7919%9973))
	}
	for name, backlog := range map[string]*Backlog{"10^4-pairs": nested, "10^5-pairs": alone} {
		before := heap()
		finished(backlog, limited(strategy.Random, strategy.Limit{Key: "x", Max: 3}, strategy.Limit{Key: "y", Max: 3}))
		b.ReportMetric((heap()-before)/n, "B/sub-nested-view-"+name)
		runtime.KeepAlive(backlog)
	}
	nested, alone = nil, nil

	start = heap()
	unique := New()
	for i := range int64(n) {
		unique.add(1000, 0, is("user", i))
	}
	b.ReportMetric((heap()-start)/n, "B/sub-1-unique-key")
	runtime.KeepAlive(unique)
}

// BenchmarkTakeNearExhaustion is an ordered Take from a submission of which Random took all but a thousandth, a hundred-
// thousandth and the last thousand chunks of 4*10^9: the ordered cursor jumps over chunks that the other one visited.
func BenchmarkTakeNearExhaustion(b *testing.B) {
	const n = 1<<32 - 1
	for _, left := range []uint32{n / 1000, n / 100_000, 1000} {
		b.Run(fmt.Sprint(left, "-left"), func(b *testing.B) {
			key := OrderKey(n, 1)
			probe := Submission{chunks: n, key: key, p: n - left}
			snapshot := probe.AppendSnapshot(nil, nil)
			var backlog *Backlog
			var v *View
			for range b.N {
				if v == nil || v.Empty() {
					b.StopTimer()
					backlog = New()
					s, err := backlog.Restore(Spec{Seq: 1, ID: 1, Chunks: n, Key: key}, snapshot)
					if err != nil {
						b.Fatal(err)
					}
					backlog.Show(s)
					v = finished(backlog, filtered(strategy.OldestFirst))
					b.StartTimer()
				}
				backlog.Take(v, nil)
			}
		})
	}
}
