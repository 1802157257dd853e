package backlog

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Views of each kind report the bytes that the heap grows by while they are built, within a factor of 1.6. Not
// parallel, as all tests share the heap.
func TestBytesAreThoseOfTheHeap(t *testing.T) {
	const n = 50_000
	user, few := strategy.Limit{Key: "u", Max: 3}, strategy.Limit{Key: "few", Max: 3}
	for _, test := range []struct {
		name string
		br   strategy.Branch
	}{
		{"an order", filtered(strategy.OldestFirst)},
		{"random", filtered(strategy.Random)},
		{"a limit of as many values as submissions", limited(strategy.OldestFirst, user)},
		{"the same, random", limited(strategy.Random, user)},
		{"a limit of few values", limited(strategy.Random, few)},
		{"two limits", limited(strategy.OldestFirst, few, user)},
		{"two limits, random", limited(strategy.Random, few, user)},
		{"few values in turn", byFewestOf("few", filtered(strategy.OldestFirst))},
		{"many values in turn", byFewestOf("u", filtered(strategy.OldestFirst))},
		{"many values in turn, random", byFewestOf("u", filtered(strategy.Random))},
		{"shares of few", fairly("few", strategy.OldestFirst)},
		{"shares of many", fairly("u", strategy.Random)},
		{"shares in shares", strategy.Branch{Fair: "few", Inner: []strategy.Branch{fairly("u", strategy.OldestFirst, few)}}},
	} {
		b := New()
		for i := range n {
			meta := queue.Meta{{Key: "few", Value: queue.IntValue(int64(i % 100))}, {Key: "u", Value: queue.StringValue(fmt.Sprint("user", i))}}
			b.Show(b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 3, Key: OrderKey(3, 1), Meta: meta}))
		}
		finished(b, filtered(strategy.NewestFirst)) // the list of views of each submission is there
		before := heapInUse()
		v := finished(b, test.br)
		grown, reported := heapInUse()-before, v.Bytes()
		t.Logf("%s: %d bytes are reported, %d the heap grew by: %d per submission", test.name, reported, grown, grown/n)
		if ratio := float64(reported) / float64(grown); ratio < 1/1.6 || ratio > 1.6 {
			t.Errorf("%s: %d bytes are reported, but the heap grew by %d", test.name, reported, grown)
		}
		runtime.KeepAlive(b)
	}
}

// Strategies that differ only in the number of their limit share a base: thirty of them take less than 1.6 times the
// memory of one, by their own report and by the heap. This holds also after consumers have used them all, so that there
// are values between any two numbers. Not parallel, as all tests share the heap.
func TestNumbersShareMemory(t *testing.T) {
	const n = 100_000
	for _, order := range []strategy.Order{strategy.OldestFirst, strategy.Random} {
		b, rnd := New(), rand.New(rand.NewPCG(1, 70))
		for i := range n {
			meta := queue.Meta{{Key: "u", Value: queue.IntValue(int64(i))}}
			b.Show(b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 10_000, Key: OrderKey(10_000, 1), Meta: meta}))
		}
		finished(b, filtered(strategy.NewestFirst)) // the list of views of each submission is there
		start := heapInUse()
		views := []*View{finished(b, limited(order, strategy.Limit{Key: "u", Max: 1}))}
		oneReported, one := b.Views.Memory().Views, heapInUse()-start
		for most := uint32(2); most <= 30; most++ {
			views = append(views, finished(b, limited(order, strategy.Limit{Key: "u", Max: most})))
		}
		compare := func(when string) {
			reported, all, sum := b.Views.Memory().Views, heapInUse()-start, uint64(0)
			b.EachView(func(v *View) { sum += v.Bytes() })
			t.Logf("%v, %s: %d bytes are reported and %d taken, of one %d and %d", order, when, reported, all, oneReported, one)
			if sum != reported {
				t.Errorf("%v, %s: the views tell %d bytes, in all %d", order, when, sum, reported)
			}
			if reported*10 > oneReported*16 || all*10 > one*16 {
				t.Errorf("%v, %s: thirty numbers take %d bytes and say %d, one takes %d and says %d: want less than 1.6 times that", order, when, all, reported, one, oneReported)
			}
		}
		compare("built")
		for i := range 2 * n {
			if _, _, ok := b.Take(views[i%len(views)], rnd); !ok {
				t.Fatalf("%v: the view of %d found nothing at pick %d", order, i%len(views)+1, i)
			}
		}
		compare("used")
		runtime.KeepAlive(b)
	}
}
