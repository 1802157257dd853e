package rules

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Whatever the order in which ends are added, and however often, the last ones are kept, by their end, each once.
func TestPastKeepsTheLast(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var all []queue.EndedRule
	for i := range queue.MaxEndedRules + 300 {
		all = append(all, queue.EndedRule{Rule: queue.Rule{ID: queue.RuleID(i + 1)}, Ended: queue.Time(1000 + i/2)})
	}
	reports := slices.Concat(all, all[200:900])
	random.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
	var p Past
	for _, r := range reports {
		p.Add(r)
	}
	if got, want := p.List(), all[300:]; !slices.Equal(got, want) {
		t.Errorf("seed %d: %d are kept, from %v to %v; want %d, from %v to %v", seed, len(got), got[0].ID, got[len(got)-1].ID, len(want), want[0].ID, want[len(want)-1].ID)
	}
	before := p.List()
	p.Add(all[500])
	p.Add(all[3])
	if !slices.Equal(p.List(), before) {
		t.Errorf("seed %d: what is known, or older than all that are kept, changed something", seed)
	}
}
