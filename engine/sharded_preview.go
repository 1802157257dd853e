package engine

// Questions about a strategy of a queue of several shards. Each shard foresees what it would hand out by itself. The lists
// are merged as a reserve merges the shards (package merge).
//
//	shard 1   7 9 12 ─┐
//	shard 2   8 20   ─┼─► 7 8 9 12 20     OldestFirst
//	shard 3   none   ─┘
//
// That is exact while no shard has to know which chunks another one gives, as with limits by the group. No shard can foresee limits that
// the shards count together, or shares of one ledger.

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/merge"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/engine/together"
)

// Asking is a question about a strategy of a queue of several shards.
type Asking struct {
	Shard int            // the only one with chunks that the strategy selects; 0: several may have some
	Plan  *strategy.Plan // with numbers in place of percentages, so that all shards mean the same
	Seed  uint64
}

// Asking prepares a question to the shards of a queue about a strategy, for up to so many chunks. A strategy that the queue cannot follow
// exactly is refused as in a reserve.
func (x *Sharding) Asking(ctx context.Context, name string, raw []byte, most int) (a Asking, err error) {
	a = Asking{Shard: 1, Seed: x.of.options.Seed() & MaxSeed}
	s := x.whole(name)
	if s == nil {
		return a, nil
	}
	asked, err := s.Asked(ctx, raw)
	if err != nil {
		return a, err
	}
	if a.Plan = asked.Plan; a.Plan.Percents() {
		a.Plan = numbered(s, &ReserveRequest{Plan: asked.Plan, Max: cmp.Or(most, defaultPreview)}).Plan
	}
	switch numbers, few, _ := s.asked(asked.Plan); {
	case few && len(numbers) == 0: // no shard has any of these groups yet: the first says what is wrong with the plan
	case few && len(numbers) == 1:
		a.Shard = numbers[0]
		if cross := together.CrossingOf(a.Plan); cross.Counts() {
			return a, s.mergeable(a.Plan)
		}
	default:
		a.Shard = 0
		return a, s.mergeable(a.Plan)
	}
	return a, nil
}

// Foreseeable refuses questions about a plan that a queue can follow, and of which no shard can answer its part for itself.
func Foreseeable(name string, plan *strategy.Plan) error {
	cross, why := together.CrossingOf(plan), ""
	switch {
	case cross.Fair:
		why = "shares out by one ledger of all shards"
	case len(cross.Rates) > 0:
		why = fmt.Sprintf("counts the reservations of all shards together, as in %s", cross.Rates[0].String())
	case len(cross.Keys) > 0:
		why = fmt.Sprintf("counts the chunks of all shards together by the key %q", cross.Keys[0])
	default:
		return nil
	}
	return queue.Invalid("/strategy", "%s, and no shard knows what the others would give in the same moment. Ask one shard, as in "+
		"%q, or select one group, as in SelectOnly(%q, \"NAME\", ...)", why, queue.ShardName(name, 1), queue.GroupKey)
}

// ForeseenIn has the chunks that one shard would hand out by a plan. Cut: it would hand out more, but the answer had no room.
type ForeseenIn struct {
	Picks []Previewed
	Cut   bool
}

// shardStream keeps the draws of shards apart from those of chunks.
const shardStream = 0x5851f42d4c957f2d

// MergeForeseen lists the shards from which a reserve of up to so many chunks would take, one after the other. For Random it draws a shard
// by the number of its chunks, as a reserve does.
func MergeForeseen(plan *strategy.Plan, shards []ForeseenIn, most int, seed uint64) (order []int) {
	rnd, next := rand.New(rand.NewPCG(seed, shardStream)), make([]int, len(shards))
	heads, turns := make([]backlog.Head, len(shards)), []merge.Turn(nil)
	for b := range plan.Branches {
		for len(order) < cmp.Or(most, defaultPreview) {
			for i := range shards {
				heads[i] = backlog.Head{}
				if list := shards[i].Picks[next[i]:]; len(list) > 0 && list[0].Leaf == b {
					heads[i] = backlog.Head{Flight: list[0].Head.Flight, Priority: list[0].Priority, ID: list[0].Submission,
						Weight: max(1, list[0].Head.Weight)}
				} else if len(list) == 0 && shards[i].Cut {
					return order
				}
			}
			if turns = merge.Next(&plan.Branches[b], heads, 1, rnd, turns[:0]); len(turns) == 0 {
				break
			}
			order = append(order, turns[0].Shard)
			next[turns[0].Shard]++
		}
	}
	return order
}
