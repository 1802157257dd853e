package backlog

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// chiSquare compares counts with expectations and fails beyond the 99.99 % point of its distribution (Wilson-Hilferty).
// Seeds are fixed, so a test that passes passes always.
func chiSquare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	var chi, cells float64
	for i := range got {
		if want[i] == 0 {
			if got[i] != 0 {
				t.Errorf("%s: cell %d was hit %v times, want never", what, i, got[i])
			}
			continue
		}
		chi += (got[i] - want[i]) * (got[i] - want[i]) / want[i]
		cells++
	}
	k := cells - 1
	cube := 1 - 2/(9*k) + 3.72*math.Sqrt(2/(9*k))
	if limit := k * cube * cube * cube; chi > limit {
		t.Errorf("%s: chi-square is %.1f over %v cells, want at most %.1f\ngot  %v\nwant %v", what, chi, cells, limit, got, want)
	}
}

// finished is the built view of a branch.
func finished(b *Backlog, br strategy.Branch) *View {
	v := b.Views.Of(&br)
	for !v.Build(1000) {
	}
	return v
}

// add inserts and shows a submission with the next seq, an id that grows with it, and meta from name, number pairs.
func (b *Backlog) add(chunks uint32, priority int64, meta ...queue.MetaEntry) *Submission {
	seq := uint32(b.Len() + 1)
	key := OrderKey(chunks, uint64(seq))
	s := b.Insert(Spec{Seq: seq, ID: queue.SubmissionID(seq) * 10, Chunks: chunks, Priority: priority, Meta: meta, Key: key})
	b.Show(s)
	return s
}

func byFewestOf(key string, br strategy.Branch) strategy.Branch {
	br.Fewest = key
	return br
}

func is(key string, value int64) queue.MetaEntry {
	return queue.MetaEntry{Key: key, Value: queue.IntValue(value)}
}

// Random hits every submission in proportion to its available chunks: alone, through a filter, with limits, with many gates,
// with nested limits, and with values that are full.
func TestRandomIsUniformOverSubmissions(t *testing.T) {
	t.Parallel()
	const draws = 150_000
	for _, test := range []struct {
		name   string
		branch strategy.Branch
		admits func(i int64) bool
	}{
		{"all", filtered(strategy.Random), func(int64) bool { return true }},
		{"filter", filtered(strategy.Random, equals("a", 3)), func(i int64) bool { return i%7 == 3 }},
		{"limit", limited(strategy.Random, strategy.Limit{Key: "a", Max: 50}), func(int64) bool { return true }},
		{"limit of a few", limited(strategy.Random, strategy.Limit{Key: "few", Max: 50}), func(int64) bool { return true }},
		{"a limit reached", limited(strategy.Random, strategy.Limit{Key: "a", Max: 2}), func(i int64) bool { return i%7 != 5 }},
		{"the fewest of a", byFewestOf("a", limited(strategy.Random)), func(i int64) bool { return i%7 != 5 && i%7 != 0 }},
		{"the fewest of a key that few have", byFewestOf("few", limited(strategy.Random)), func(i int64) bool { return i >= 6 }},
		{"the fewest of a, a limit reached", byFewestOf("a", limited(strategy.Random, strategy.Limit{Key: "b", Max: 3})), func(i int64) bool { return i%7 != 5 && i%7 != 0 && i%5 != 0 }},
		{"nested, reached", limited(strategy.Random, strategy.Limit{Key: "a", Max: 2}, strategy.Limit{Key: "b", Max: 3}), func(i int64) bool { return i%7 != 5 && i%5 != 0 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, rnd := New(), rand.New(rand.NewPCG(1, 20))
			var subs []*Submission
			for i := range int64(60) {
				meta := queue.Meta{is("a", i%7), is("b", i%5)}
				if i < 9 {
					meta = append(meta, is("few", i/3))
				}
				subs = append(subs, b.add(uint32(3+i*i), 0, meta...))
			}
			for range 2 { // a=5 has two in flight, b=0 three
				b.Take(finished(b, filtered(strategy.OldestFirst, equals("a", 5))), nil)
			}
			for b.Values.Counts("b", queue.IntValue(0))[strategy.Simultaneous] < 3 {
				b.Take(finished(b, filtered(strategy.OldestFirst, equals("b", 0))), nil)
			}
			v := finished(b, test.branch)
			got, want := make([]float64, len(subs)), make([]float64, len(subs))
			total := 0.0
			for i, s := range subs {
				if test.admits(int64(i)) {
					want[i] = float64(s.Available())
					total += want[i]
				}
			}
			for i := range want {
				want[i] *= draws / total
			}
			for range draws {
				s, index, ok := b.Take(v, rnd)
				if !ok {
					t.Fatal("nothing found")
				}
				got[s.Seq()-1]++
				b.Land(s)
				b.PutBack(s, index)
			}
			chiSquare(t, test.name, got, want)
		})
	}
}

// Every available chunk is hit alike: a put-back one and one that no cursor visited, of small and of large submissions, with
// and without a limit.
func TestRandomIsUniformOverChunks(t *testing.T) {
	t.Parallel()
	const rounds = 60_000
	for name, branch := range map[string]strategy.Branch{
		"all": filtered(strategy.Random), "limit": limited(strategy.Random, strategy.Limit{Key: "a", Max: 9}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sizes := []uint32{5, 8, 13, 40}
			var chunks, back []float64 // hits by chunk, by "was put back"
			for _, n := range sizes {
				chunks = append(chunks, make([]float64, n)...)
			}
			back = make([]float64, 2)
			expect := make([]float64, 2)
			for seed := range uint64(rounds) {
				b, rnd := New(), rand.New(rand.NewPCG(seed, 21))
				for i, n := range sizes {
					key := OrderKey(n, rnd.Uint64())
					s := b.Insert(Spec{Seq: uint32(i), ID: queue.SubmissionID(i + 1), Chunks: n, Key: key, Meta: queue.Meta{is("a", int64(i%2))}})
					b.Show(s)
				}
				random := finished(b, branch)
				prepare(b, random, rnd)
				var known, total float64
				b.Each(func(s *Submission) bool {
					known += float64(s.back.len())
					total += float64(s.Available())
					return true
				})
				expect[1] += known / total
				expect[0] += 1 - known/total
				piles := map[queue.ChunkID]bool{}
				b.Each(func(s *Submission) bool {
					for _, index := range putBackOf(s) {
						piles[queue.ChunkID{Submission: s.ID(), Index: index}] = true
					}
					return true
				})
				s, index, _ := b.Take(random, rnd)
				at := index
				for _, n := range sizes[:s.Seq()] {
					at += n
				}
				chunks[at]++
				if piles[queue.ChunkID{Submission: s.ID(), Index: index}] {
					back[1]++
				} else {
					back[0]++
				}
			}
			chiSquare(t, "put back", back, expect)
			want := make([]float64, len(chunks))
			for i := range want {
				want[i] = rounds / float64(len(want))
			}
			chiSquare(t, "chunks", chunks, want)
		})
	}
}

// prepare takes twenty chunks and puts them all back.
func prepare(b *Backlog, random *View, rnd *rand.Rand) {
	type hold struct {
		s     *Submission
		index uint32
	}
	var holds []hold
	for range 20 {
		s, index, ok := b.Take(random, rnd)
		if !ok {
			break
		}
		holds = append(holds, hold{s, index})
	}
	for _, h := range holds {
		b.Land(h.s)
		b.PutBack(h.s, h.index)
	}
}
