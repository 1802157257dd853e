package backlog

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// Where a chunk is said to stand is how many chunks are taken before it.
func TestStanding(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		b := New()
		for i := range 8 {
			b.add(1+rnd.Uint32N(30), int64(rnd.IntN(3)), is("company", int64(i%3)))
		}
		order := strategy.OldestFirst + strategy.Order(seed%3)
		ordered, random := finished(b, filtered(order, filter("company", 1))), finished(b, filtered(strategy.Random))
		for range rnd.IntN(60) {
			v := random
			if rnd.IntN(2) == 0 && !ordered.Empty() {
				v = ordered
			}
			if s, index, ok := b.Take(v, rnd); ok && rnd.IntN(2) == 0 {
				b.PutBack(s, index)
				b.Land(s)
			} else if ok {
				b.Withdraw(s, rnd.Uint32N(s.Chunks()), true)
			}
		}
		for place, pick := range b.Preview([]*View{ordered}, 1000, rnd, nil) {
			if got, ok := b.Standing(ordered, pick.Submission, pick.Index, 100); !ok || got != uint64(place) {
				t.Fatalf("seed %d: chunk %d of %v stands at %d (%v), want %d", seed, pick.Index, pick.Submission.ID(), got, ok, place)
			}
			if got, ok := b.Standing(random, pick.Submission, pick.Index, 100); !ok || got != b.Available() {
				t.Fatalf("seed %d: Random chooses among %d (%v), want %d", seed, got, ok, b.Available())
			}
			if _, ok := b.Standing(ordered, pick.Submission, pick.Index, 1); ok {
				t.Fatalf("seed %d: one look is said to be enough", seed)
			}
		}
	}
}
