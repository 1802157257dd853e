package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// The same seed foresees the same, however often it is asked, and it is what picks by that seed give then.
func TestPreviewAgain(t *testing.T) {
	t.Parallel()
	limit := func(key string, most uint32) strategy.Limit { return strategy.Limit{Key: key, Max: most} }
	for _, br := range []strategy.Branch{
		limited(strategy.Random), limited(strategy.Random, limit("company", 2)), limited(strategy.Random, limit("company", 2), limit("kind", 9)),
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
	b.Preview([]*View{v}, 40, draws(), nil) // what it finds out about shut gates stays found out
	first := b.Preview([]*View{v}, 40, draws(), nil)
	b.Preview([]*View{other, v}, 40, rand.New(rand.NewPCG(seed, 10)), nil)
	again := b.Preview([]*View{v}, 40, draws(), nil)
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

func show(picks []Pick) (text string) {
	for _, p := range picks {
		text += fmt.Sprintf("%v/%d ", p.Submission.ID(), p.Index)
	}
	return text
}
