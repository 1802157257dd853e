// Package merge decides which shard of a queue hands out the next chunks. It knows one branch of a plan, and the next chunk of each shard
// by it (the shard's head). It does no I/O and has no clock.
//
//	ordered   the shard whose head comes first, as long as nothing comes before it in the others
//	Random    every chunk of all shards with the same probability: a draw falls on a shard by its weight, and then
//	          on a chunk in it. A draw that falls on nothing is made again over all shards
//
// A merge is as exact as its heads. Other callers may take something between the look at a head and the pick. An ordered pick still never
// passes over a chunk that was the first of another shard. A draw uses the weights of the look.
package merge

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Turn is the next request to one shard.
type Turn struct {
	Shard int // its place in the list of heads
	Most  int // chunks, or for Random draws
	machine.Turn
}

// Next are the turns of the shards for up to `most` chunks. heads has one head per shard; the zero Head is a shard
// that has nothing. No turns: none has anything. After the turns the caller looks at the heads of their shards again.
func Next(branch *strategy.Branch, heads []backlog.Head, most int, rnd *rand.Rand, dst []Turn) []Turn {
	first := ahead(heads, -1, branch.Order)
	switch {
	case first < 0:
		return dst
	case branch.Order == strategy.Random:
		return draws(branch, heads, &heads[first], most, rnd, dst)
	}
	turn := Turn{Shard: first, Most: most}
	if second := ahead(heads, first, branch.Order); second >= 0 {
		bound := heads[second]
		turn.Bound = &bound
	}
	return append(dst, turn)
}

// ahead is the shard whose head comes first, without one that is left out; -1: none has anything.
func ahead(heads []backlog.Head, without int, order strategy.Order) int {
	first := -1
	for i := range heads {
		if i != without && heads[i] != (backlog.Head{}) && (first < 0 || heads[i].Before(&heads[first], order)) {
			first = i
		}
	}
	return first
}

// draws spreads draws over the shards by their weights. By PreferDistinct the values with the fewest chunks in flight come
// first, and each chunk changes these counts, so one draw is made at a time.
func draws(branch *strategy.Branch, heads []backlog.Head, least *backlog.Head, most int, rnd *rand.Rand, dst []Turn) []Turn {
	if branch.Fewest != "" {
		most = 1
	}
	total := uint64(0)
	for i := range heads {
		total += weight(&heads[i], least)
	}
	counts := make([]int, len(heads))
	for range most {
		number, i := rnd.Uint64N(total), 0
		for number >= weight(&heads[i], least) {
			number -= weight(&heads[i], least)
			i++
		}
		counts[i]++
	}
	for i, n := range counts {
		if n > 0 {
			dst = append(dst, Turn{i, n, machine.Turn{Weight: heads[i].Weight}})
		}
	}
	return dst
}

// weight is 0 for a head that others come before.
func weight(h, least *backlog.Head) uint64 {
	if h.Flight > least.Flight {
		return 0
	}
	return h.Weight
}
