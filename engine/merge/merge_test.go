package merge

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// shards are lists of heads, each in its order: the first of a list is the head of the shard.
type shards [][]backlog.Head

func (s shards) heads() []backlog.Head {
	heads := make([]backlog.Head, len(s))
	for i := range s {
		if len(s[i]) > 0 {
			heads[i] = s[i][0]
		}
	}
	return heads
}

// follow takes from a shard as far as it is its turn.
func (s shards) follow(t *Turn, order strategy.Order) (got []backlog.Head) {
	for len(got) < t.Most && len(s[t.Shard]) > 0 {
		head := s[t.Shard][0]
		if t.Bound != nil && t.Bound.Before(&head, order) {
			break
		}
		got, s[t.Shard] = append(got, head), s[t.Shard][1:]
	}
	return got
}

// Turns over several shards give what one shard with everything in it gives, in the same order, for every order and any number
// at a time.
func TestTurnsMakeOneOrder(t *testing.T) {
	t.Parallel()
	for _, order := range []strategy.Order{strategy.OldestFirst, strategy.NewestFirst, strategy.CustomPriority} {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				compare := func(a, b backlog.Head) int {
					if a.Before(&b, order) {
						return -1
					}
					return cmp.Compare(1, 0)
				}
				of := make(shards, 1+rnd.IntN(5))
				var all []backlog.Head
				for id := range 1 + rnd.IntN(40) {
					head := backlog.Head{ID: queue.SubmissionID(id + 1), Priority: rnd.Int64N(4)}
					at := rnd.IntN(len(of))
					of[at], all = append(of[at], head), append(all, head)
				}
				slices.SortFunc(all, compare)
				for i := range of {
					slices.SortFunc(of[i], compare)
				}
				branch, got := &strategy.Branch{Order: order}, []backlog.Head(nil)
				for {
					turns := Next(branch, of.heads(), 1+rnd.IntN(7), rnd, nil)
					if len(turns) == 0 {
						break
					}
					for i := range turns {
						got = append(got, of.follow(&turns[i], order)...)
					}
				}
				if !slices.Equal(got, all) {
					t.Fatalf("seed %d: got %v, want %v", seed, got, all)
				}
			}
		})
	}
}

// Draws fall on shards by their weights, and by PreferDistinct only on those of the values with the fewest chunks in flight.
func TestDrawsFallByWeight(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(9, 1))
	heads := []backlog.Head{{Weight: 100}, {}, {Weight: 300}, {Weight: 600, Flight: 1}}
	count := func(branch *strategy.Branch, heads []backlog.Head) (counts [4]int) {
		for range 1000 {
			for _, turn := range Next(branch, heads, 10, rnd, nil) {
				if turn.Weight != heads[turn.Shard].Weight {
					t.Fatalf("shard %d was weighed with %d, and is asked with %d", turn.Shard, heads[turn.Shard].Weight, turn.Weight)
				}
				counts[turn.Shard] += turn.Most
			}
		}
		return counts
	}
	near := func(what string, got, want int) {
		t.Helper()
		if d := got - want; d*d > 25*want { // five standard deviations
			t.Errorf("%s: %d draws, want about %d", what, got, want)
		}
	}
	all := slices.Clone(heads)
	all[3].Flight = 0
	counts := count(&strategy.Branch{}, all)
	near("a tenth", counts[0], 1000)
	near("three tenths", counts[2], 3000)
	near("six tenths", counts[3], 6000)
	counts = count(&strategy.Branch{Fewest: "group"}, heads)
	near("a quarter, one draw at a time", counts[0], 250)
	near("three quarters", counts[2], 750)
	if counts[1]+counts[3] != 0 {
		t.Errorf("%v: a shard with nothing, or with nothing of the fewest, was asked", counts)
	}
	if turns := Next(&strategy.Branch{}, make([]backlog.Head, 3), 5, rnd, nil); len(turns) != 0 {
		t.Errorf("nothing is there, and %v is asked", turns)
	}
}
