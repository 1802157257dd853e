package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// CompareRequest asks for the previews of two plans on one state; the rest is as in PreviewRequest.
type CompareRequest struct {
	A, B    *strategy.Plan
	Max     int
	Seed    *uint64
	Context queue.Meta
}

// Comparison is how the picks of two plans differ. Overlap is how many chunks both would hand out.
type Comparison struct {
	A, B    Spread
	Overlap int
	OnlyA   []Previewed // what A would hand out and B would not, in its order
	OnlyB   []Previewed // and the reverse
	Seed    uint64
	Grace   queue.Time // as in Foreseen
}

// Spread is how the picks of one plan are spread over the values of each meta key, by key. The first is
// strategy.SubmissionKey, whose values are the submissions.
type Spread struct {
	Picks  int
	Keys   []api.KeySpread
	Faults []error // as in Foreseen
}

// Compare previews two plans on the same state, and says how fair each is and how much they have in common.
func (p Questions) Compare(ctx context.Context, r CompareRequest) (Comparison, error) {
	all, err := p.previews(ctx, []*strategy.Plan{r.A, r.B}, r.Max, r.Seed, r.Context)
	if err != nil {
		return Comparison{}, err
	}
	a, b := countPicks(all[0].Picks), countPicks(all[1].Picks)
	c := Comparison{A: a.spread(b), B: b.spread(a), Seed: all[0].Seed, Grace: all[0].Grace}
	c.A.Faults, c.B.Faults = all[0].Faults, all[1].Faults
	c.OnlyA, c.OnlyB = without(all[0].Picks, all[1].Picks), without(all[1].Picks, all[0].Picks)
	c.Overlap = len(all[1].Picks) - len(c.OnlyB)
	return c, nil
}

// without are the picks of chunks that are not among the others.
func without(picks, others []Previewed) (list []Previewed) {
	there := make(map[queue.ChunkID]bool, len(others))
	for i := range others {
		there[queue.ChunkID{Submission: others[i].Submission, Index: others[i].Index}] = true
	}
	for i := range picks {
		if !there[queue.ChunkID{Submission: picks[i].Submission, Index: picks[i].Index}] {
			list = append(list, picks[i])
		}
	}
	return list
}

// tally is how many picks each value of each key has.
type tally struct {
	picks int
	keys  map[queue.MetaKey]map[queue.MetaValue]int
}

func countPicks(picks []Previewed) tally {
	t := tally{picks: len(picks), keys: map[queue.MetaKey]map[queue.MetaValue]int{strategy.SubmissionKey: {}}}
	count := func(key queue.MetaKey, value queue.MetaValue) {
		if t.keys[key] == nil {
			t.keys[key] = map[queue.MetaValue]int{}
		}
		t.keys[key][value]++
	}
	for i := range picks {
		count(strategy.SubmissionKey, queue.IntValue(int64(picks[i].Submission)))
		for _, m := range picks[i].Meta {
			count(m.Key, m.Value)
		}
	}
	return t
}

// spread measures every key that either of the two has.
func (t tally) spread(other tally) Spread {
	s := Spread{Picks: t.picks}
	keys := map[queue.MetaKey]bool{}
	for _, side := range []tally{t, other} {
		for key := range side.keys {
			keys[key] = true
		}
	}
	for key := range keys {
		s.Keys = append(s.Keys, spreadOf(key, t.keys[key], other.keys[key]))
	}
	slices.SortFunc(s.Keys, func(a, b api.KeySpread) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

func spreadOf(key queue.MetaKey, mine, other map[queue.MetaValue]int) api.KeySpread {
	k := api.KeySpread{Key: key, Distinct: len(mine)}
	most, squares, values := 0, 0, len(mine)
	for _, n := range mine {
		k.Picks += n
		squares += n * n
		most = max(most, n)
	}
	for value := range other {
		if _, both := mine[value]; !both {
			values++
		}
	}
	if k.Picks > 0 {
		k.MaxShare = float64(most) / float64(k.Picks)
		k.Jain = float64(k.Picks*k.Picks) / float64(values*squares)
	}
	return k
}
