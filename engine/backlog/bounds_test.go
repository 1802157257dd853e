package backlog

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// The ordered orders take put-back chunks first, smallest index first, then go on in index order; submissions come by id,
// from either end, or by priority.
func TestOrders(t *testing.T) {
	t.Parallel()
	for order, want := range map[strategy.Order][]uint32{
		strategy.OldestFirst: {1, 2, 3, 4}, strategy.NewestFirst: {4, 3, 2, 1}, strategy.CustomPriority: {3, 2, 4, 1},
	} {
		b := New()
		for _, priority := range []int64{-5, 7, 9, 7} {
			b.add(5, priority)
		}
		v := finished(b, filtered(order))
		for _, seq := range want {
			var got []uint32
			for i := range 7 {
				s, index, ok := b.Take(v, nil)
				if !ok || s.Seq() != seq {
					t.Fatalf("%v: take %d gave submission %v, want %d", order, i, s, seq)
				}
				got = append(got, index)
				if i == 2 {
					b.PutBack(s, 1)
					b.PutBack(s, 0)
				}
				b.Land(s)
			}
			if indexes := []uint32{0, 1, 2, 0, 1, 3, 4}; !slices.Equal(got, indexes) {
				t.Errorf("%v: submission %d gave chunks %v, want %v", order, seq, got, indexes)
			}
		}
		if s, _, ok := b.Take(v, nil); ok {
			t.Errorf("%v: submission %v gave a chunk too many", order, s.ID())
		}
	}
}

// At the largest size nothing overflows: both cursors reach the end, the skip set works at the last indexes, and a pick
// between two nearly exhausted cursors neither walks nor misses.
func TestLargestSubmission(t *testing.T) {
	t.Parallel()
	const n = math.MaxUint32
	b, rnd := New(), rand.New(rand.NewPCG(1, 30))
	s := b.add(n, 0)
	oldest, random := finished(b, filtered(strategy.OldestFirst)), finished(b, limited(strategy.Random, strategy.Limit{Key: "a", Max: 1}))
	if s.Available() != n || b.Available() != n {
		t.Fatalf("%d available, want %d", s.Available(), uint32(n))
	}
	seen := map[uint32]bool{}
	for i := range 2000 {
		v := oldest
		if i%2 == 0 {
			v = random
		}
		got, index, ok := b.Take(v, rnd)
		if !ok || got != s || index >= n || seen[index] {
			t.Fatalf("take %d gave chunk %d, %v", i, index, ok)
		}
		seen[index] = true
	}
	for _, index := range []uint32{n - 1, n - 2, n / 2} {
		if !seen[index] && (!b.TakeChunk(s, index) || b.TakeChunk(s, index) || s.IsAvailable(index)) {
			t.Fatalf("chunk %d was not taken once", index)
		}
	}
	if s.IsAvailable(n) || b.TakeChunk(s, n) {
		t.Fatal("there is a chunk beyond the last")
	}
	b.Remove(s)
	for _, cursors := range [][2]uint32{{n - 40, 0}, {0, n - 40}, {n - 1, 5}, {n - 200_000, n - 200_000}, {n - 3, n - 2}, {n, 0}, {0, n}, {n, n}} {
		exhaust(t, b, rnd, cursors[0], cursors[1])
	}
}

// exhaust restores a submission of the largest size with the given cursors and takes its remaining chunks, up to a
// thousand, in both orders by turns.
func exhaust(t *testing.T, b *Backlog, rnd *rand.Rand, p, l uint32) {
	t.Helper()
	const n = math.MaxUint32
	key := OrderKey(n, rnd.Uint64())
	probe := Submission{chunks: n, key: key, p: p, l: l}
	probe.both = bothVisited(&probe)
	s, err := b.Restore(Spec{Seq: 9, ID: 9, Chunks: n, Key: key}, probe.AppendSnapshot(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Remove(s)
	b.Show(s)
	left := s.Available()
	if smallest := min(n-p, n-l); left > smallest {
		t.Fatalf("p=%d l=%d: %d available, want at most %d", p, l, left, smallest)
	}
	views := []*View{finished(b, filtered(strategy.OldestFirst)), finished(b, filtered(strategy.Random))}
	last := int64(-1)
	for i := range min(left, 1000) {
		got, index, ok := b.Take(views[i%2], rnd)
		if !ok || got != s || probe.visited(index) {
			t.Fatalf("p=%d l=%d: take %d gave chunk %d (visited before: %v), %v", p, l, i, index, probe.visited(index), ok)
		}
		if i%2 == 0 && int64(index) <= last {
			t.Fatalf("p=%d l=%d: take %d gave chunk %d after %d", p, l, i, index, last)
		}
		if i%2 == 0 {
			last = int64(index)
		}
	}
	if left <= 1000 && (s.Available() != 0 || !views[0].Empty() || !views[1].Empty()) {
		t.Fatalf("p=%d l=%d: %d available after all %d were taken", p, l, s.Available(), left)
	}
}

// The skip set holds MaxSkip chunks and no more, except in a replay; chunks at a cursor need no place in it.
func TestSkipSetIsBounded(t *testing.T) {
	t.Parallel()
	b := New()
	s := b.add(100_000, 0)
	index := uint32(50_000)
	for range MaxSkip {
		for s.positionOf(index) == s.p {
			index++
		}
		if got := b.Withdraw(s, index, true); got != Taken {
			t.Fatalf("Withdraw(%d) = %v with %d skipped", index, got, s.ahead.len())
		}
		index += 2
	}
	before := s.Available()
	if got := b.Withdraw(s, 49_999, true); got != Full {
		t.Errorf("Withdraw beyond MaxSkip = %v, want Full", got)
	}
	if b.TakeChunk(s, 49_999) {
		t.Error("TakeChunk beyond MaxSkip was done")
	}
	if s.Available() != before || !s.IsAvailable(49_999) {
		t.Errorf("a refused Withdraw changed something: %d available, want %d", s.Available(), before)
	}
	if got := b.Withdraw(s, 50_000, true); got != WasTaken {
		t.Errorf("Withdraw of a skipped chunk = %v, want WasTaken", got)
	}
	if got := b.Withdraw(s, 0, true); got != Taken {
		t.Errorf("Withdraw of the first chunk = %v, want Taken", got)
	}
	if got := b.Withdraw(s, 49_999, false); got != Taken {
		t.Errorf("unbounded Withdraw = %v, want Taken", got)
	}
}

// Put-back chunks, however many, are drawn by their share; above MaxPutBackAll in the backlog they are handed out first.
func TestPutBackChunksComeByTheirShare(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(soakSeed(t), 31))
	s := b.add(8000, 0)
	v := finished(b, filtered(strategy.Random))
	taken := map[uint32]bool{}
	for range 5000 {
		_, index, _ := b.Take(v, rnd)
		taken[index] = true
	}
	for index := range taken {
		b.Land(s)
		b.PutBack(s, index)
	}
	drawn := 0
	for range 2000 {
		if _, index, _ := b.Take(v, rnd); taken[index] {
			drawn++
		}
	}
	if drawn < 1250-94 || drawn > 1250+94 { // five standard deviations: a false alarm in two million runs
		t.Errorf("of 2,000 picks %d were put-back chunks, which are 5,000 of 8,000; want about 1,250", drawn)
	}
	for b.exceptions.putBack = MaxPutBackAll + 1; s.back.len() > 2000; {
		if _, index, _ := b.Take(v, rnd); !taken[index] {
			t.Fatalf("an unvisited chunk was taken with more than %d put back in all", MaxPutBackAll)
		}
		b.exceptions.putBack++
	}
}

// The same calls with the same chance give the same results.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	run := func() (trace []queue.ChunkID) {
		m := newModel(t, 77, modelBranches())
		for m.step = 0; m.step < 1500; m.step++ {
			switch x := m.r.IntN(10); {
			case x == 0:
				m.insert()
			case x < 5:
				m.take()
			default:
				m.act()
			}
			for _, x := range m.subs {
				if index := slices.Index(x.state, held); index >= 0 {
					trace = append(trace, queue.ChunkID{Submission: x.spec.ID, Index: uint32(index)})
				}
			}
		}
		for _, key := range []string{"a", "b", "c"} {
			m.b.Values.Each(key, func(c ValueCount) bool {
				trace = append(trace, queue.ChunkID{Submission: queue.SubmissionID(c.Value.Int()), Index: uint32(c.Available)})
				return true
			})
		}
		return trace
	}
	if first, second := run(), run(); !slices.Equal(first, second) {
		t.Errorf("two runs of the same calls differ (%d and %d entries)", len(first), len(second))
	}
}

// Misuse that would corrupt the counts stops at once.
func TestMisusePanics(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(b *Backlog, s *Submission){
		"no chunks":               func(b *Backlog, _ *Submission) { b.Insert(Spec{Seq: 5, ID: 5}) },
		"no permutation":          func(b *Backlog, _ *Submission) { b.Insert(Spec{Seq: 5, ID: 5, Chunks: 10, Key: 5}) },
		"same id":                 func(b *Backlog, _ *Submission) { b.Insert(Spec{Seq: 5, ID: 10, Chunks: 1}) },
		"same seq":                func(b *Backlog, _ *Submission) { b.Insert(Spec{Seq: 1, ID: 5, Chunks: 1}) },
		"land without a flight":   func(b *Backlog, s *Submission) { b.Land(s) },
		"put back what was there": func(b *Backlog, s *Submission) { b.PutBack(s, 3) },
		"put back twice": func(b *Backlog, s *Submission) {
			b.TakeChunk(s, 0)
			b.PutBack(s, 0)
			b.PutBack(s, 0)
		},
		"meta out of order": func(b *Backlog, _ *Submission) {
			b.Insert(Spec{Seq: 5, ID: 5, Chunks: 1, Meta: queue.Meta{is("b", 1), is("a", 1)}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := New()
			s := b.add(10, 0)
			defer func() {
				if recover() == nil {
					t.Error("nothing happened, want a panic")
				}
			}()
			misuse(b, s)
		})
	}
}
