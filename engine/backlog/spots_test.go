package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// The same seed always foresees the same chunks, and without draws of its own within submissions they are the chunks
// that picks by that seed give then.
func TestPreviewAgain(t *testing.T) {
	t.Parallel()
	limit := func(key string, most uint32) strategy.Limit { return strategy.Limit{Key: key, Max: most} }
	for _, br := range []strategy.Branch{
		limited(strategy.Random), limited(strategy.Random, limit("company", 2)), limited(strategy.Random, limit("company", 2), limit("kind", 9)),
		byFewestOf("kind", limited(strategy.Random)), byFewestOf("kind", limited(strategy.Random, limit("company", 2))),
		fairly("company", strategy.Random), fairly("kind", strategy.Random, limit("company", 1)),
	} {
		b := filled(300, 7)
		others := []*View{finished(b, limited(strategy.Random)), finished(b, limited(strategy.Random, limit("kind", 3)))}
		v := finished(b, br)
		for seed := range uint64(30) {
			previewTwice(t, b, v, others[seed%2], seed)
		}
	}
}

func previewTwice(t *testing.T, b *Backlog, v, other *View, seed uint64) {
	draws := func() *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }
	b.Preview([]*View{v}, 40, draws(), nil, nil) // submissions that it moves behind shut gates stay there
	first := b.Preview([]*View{v}, 40, draws(), nil, nil)
	b.Preview([]*View{other, v}, 40, rand.New(rand.NewPCG(seed, 10)), nil, nil)
	again := b.Preview([]*View{v}, 40, draws(), nil, nil)
	if !slices.Equal(first, again) {
		t.Fatalf("%s seed %d: foreseen\n%v\nthen\n%v", v.key, seed, show(first), show(again))
	}
	rnd := draws()
	for i := range first[:min(8, len(first))] {
		s, index, ok := b.Take(v, rnd)
		if !ok || s != first[i].Submission || index != first[i].Index {
			t.Fatalf("%s seed %d: pick %d is %v/%d, foreseen was %v/%d", v.key, seed, i, s.ID(), index, first[i].Submission.ID(), first[i].Index)
		}
		defer b.Land(s)
	}
}

// A preview with another seed foresees other chunks, also of one submission: each chunk as often as any other, whether
// it is put back or was never taken. Such a preview does not change the chunks that Take gives.
func TestPreviewDrawsWithinSubmissions(t *testing.T) {
	t.Parallel()
	const seeds = 10_000
	for _, taken := range []int{0, 5, 11} { // of 12, the first three of which are put back
		b, rnd := New(), rand.New(rand.NewPCG(soakSeed(t), 12))
		s := b.add(12, 0)
		v := finished(b, limited(strategy.Random))
		for i := range taken {
			_, index, _ := b.Take(v, rnd)
			b.Land(s)
			if i < 3 {
				b.PutBack(s, index)
			}
		}
		expected := b.Preview([]*View{v}, 12, rand.New(rand.NewPCG(1, 9)), nil, nil)
		var got, want [12]float64
		for i := range want {
			if s.IsAvailable(uint32(i)) {
				want[i] = seeds / float64(s.Available())
			}
		}
		sets := map[[3]uint32]bool{}
		for seed := range uint64(seeds) {
			draw := func() []Pick {
				return b.Preview([]*View{v}, 3, rand.New(rand.NewPCG(seed, 9)), rand.New(rand.NewPCG(seed, 10)), nil)
			}
			picks := draw()
			if seed < 100 && !slices.Equal(picks, draw()) {
				t.Fatalf("%d taken, seed %d: foreseen\n%v\nthen\n%v", taken, seed, show(picks), show(draw()))
			}
			got[picks[0].Index]++
			if len(picks) == 3 {
				sets[[3]uint32{picks[0].Index, picks[1].Index, picks[2].Index}] = true
			}
		}
		chiSquare(t, fmt.Sprint(taken, " taken"), got[:], want[:])
		if n := int(s.Available()); n >= 3 && len(sets) != n*(n-1)*(n-2) {
			t.Errorf("%d taken: three chunks of %d were foreseen in %d ways, want %d", taken, n, len(sets), n*(n-1)*(n-2))
		}
		if again := b.Preview([]*View{v}, 12, rand.New(rand.NewPCG(1, 9)), nil, nil); !slices.Equal(expected, again) {
			t.Errorf("%d taken: Take would give %v, before the previews it was %v", taken, show(again), show(expected))
		}
	}
}

func show(picks []Pick) (text string) {
	for _, p := range picks {
		text += fmt.Sprintf("%v/%d ", p.Submission.ID(), p.Index)
	}
	return text
}
