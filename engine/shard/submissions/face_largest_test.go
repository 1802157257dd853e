package submissions

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// However many submissions are added, in whatever order, the heaviest are kept, in their order.
func TestLargestKeepsTheHeaviest(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 300 {
		all := make([]weighed, rnd.IntN(200))
		top := largest{most: 1 + rnd.IntN(12)}
		for i := range all {
			all[i] = weighed{queue.SubmissionID(i + 1), rnd.Uint64N(20)}
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, w := range all {
			if top.add(w); len(top.list) >= 2*top.most {
				t.Fatalf("seed %d, round %d: keeps %d of %d", seed, round, len(top.list), top.most)
			}
		}
		slices.SortFunc(all, heavier)
		if got, want := top.cut(), all[:min(len(all), top.most)]; !slices.Equal(got, want) {
			t.Fatalf("seed %d, round %d: got %v, want %v", seed, round, got, want)
		}
	}
}
