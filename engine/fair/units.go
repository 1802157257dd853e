package fair

import (
	"math"
	"time"
)

// Cost is an amount of service. Picks are charged in it, and lags are measured in it. A ledger counts in chunks or in consumer time.
type Cost int64

const (
	// Chunk is the cost of one chunk where every chunk costs the same.
	Chunk Cost = 1 << 40

	// Second is the cost of holding a consumer for one second where consumer time is shared.
	Second Cost = 1 << 32

	// MaxCost is the most that one call charges or refunds; a higher cost counts as this much. It is 65,536 chunks, or 194 days.
	MaxCost Cost = 1 << 56

	// maxLead is how far from virtual time a tag may be moved, times the weight. Charges and refunds beyond are forgiven.
	maxLead = 16 * int64(MaxCost)
)

// Time is the cost of holding a consumer for d, from 0 to MaxCost.
func Time(d time.Duration) Cost {
	seconds, rest := int64(d)/int64(time.Second), int64(d)%int64(time.Second)
	if seconds >= int64(MaxCost/Second) {
		return MaxCost
	}
	return max(0, Cost(seconds)*Second+Cost(rest)*Second/Cost(time.Second))
}

// In is the cost in units of Chunk or Second.
func (c Cost) In(unit Cost) float64 { return float64(c) / float64(unit) }

// Weight is a tenant's claim relative to those of others, in thousandths.
type Weight uint32

const (
	MinWeight     Weight = 1         // the least weight, 0.001
	DefaultWeight Weight = 1000      // the weight of a tenant that was given none, 1
	MaxWeight     Weight = 1_000_000 // the greatest weight, 1000
)

// WeightOf is w rounded to thousandths, at least MinWeight and at most MaxWeight. NaN gives MinWeight.
func WeightOf(w float64) Weight {
	switch thousandths := math.Round(w * 1000); {
	case thousandths >= float64(MaxWeight):
		return MaxWeight
	case thousandths >= float64(MinWeight):
		return Weight(thousandths)
	default:
		return MinWeight
	}
}
