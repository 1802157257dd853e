package strategy

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// Measure is the quantity that a limit counts for a value. To add one, give it a name here and change its counters in backlog/counter.go:
// texts, plans, picks and explanations go by Limit alone.
type Measure uint8

// The measures.
const (
	Simultaneous Measure = iota // chunks that are in flight
	Measures                    // the number of measures that count for every value

	// Rate is reservations per time. There is a counter for each rate that a strategy asks for, and none
	// for values otherwise.
	Rate = Measures
)

// Limit admits the submissions whose value of Key has a count below Max; a value with Max or more is gated. Submissions without Key are
// always admitted; where Key is queue.Without of another key, those without that other key are counted. Max is 1 to MaxLimit.
//
// A Rate admits at most Max reservations of a value in any interval of Per, at equal distances. With a Burst above 1, this many may come at
// once after a pause, and an interval may have up to Max + Burst - 1. Its Key may be "": then it is about all chunks together.
//
// With Percent, Max is 0, so that the limit admits nothing: Plan.Now puts a number in its place.
type Limit struct {
	Key     queue.MetaKey
	Max     uint32
	Percent uint8 // of the chunks in flight, 1 to MaxPercent; 0: Max is the limit
	Of      Measure
	Per     time.Duration // of a Rate: MinPer to MaxPer
	Burst   uint32        // of a Rate: 1 to Max
}

// Pace is what a Rate means for two reservations of a value: how far apart they are at a steady rate, and how much earlier than that one
// may come to make up for others that came late. Both are such that rounding never admits more.
//
// Without a burst the slack is a hundredth of Per, because a consumer that waits for the moment is always a little late, and would lose
// that each time. GCRA admits (Per + slack) / apart reservations in an interval of Per; so apart is a hundredth longer, too, and the rate
// is kept exactly, at 99 % of its number.
func (l Limit) Pace() (apart, slack time.Duration) {
	most := time.Duration(l.Max)
	if l.Burst <= 1 {
		slack = l.Per / 100
		return (l.Per + slack + most - 1) / most, slack
	}
	apart = (l.Per + most - 1) / most
	return apart, time.Duration(l.Burst-1) * apart
}

// Gate is the count at which the limit is reached. That of a rate is 1: its counter is 1 from a reservation on until the next one may come.
func (l Limit) Gate() uint32 {
	if l.Of == Rate {
		return min(l.Max, 1)
	}
	return l.Max
}

// Shape is the limit without the fields in which limits of one counter differ. A rate has no such fields, as each has a counter of its own.
func (l Limit) Shape() Limit {
	if l.Of != Rate {
		l.Max = 0
	}
	return l
}

// Reached says whether a count is at its limit: nothing more may be taken. It is the one place that compares the two.
func Reached(count, max uint32) bool { return count >= max }

// Reached says whether a value with this count is at the limit.
func (l Limit) Reached(count uint32) bool { return Reached(count, l.Gate()) }

// implies says that the other limit is kept where this one is.
func (l Limit) implies(other Limit) bool { return l.same(other) && l.most() <= other.most() }

// most is the number that was asked for, in the limit's unit.
func (l Limit) most() uint64 {
	if l.Percent > 0 {
		return uint64(l.Percent)
	}
	return uint64(l.Max)
}

// unit is the text behind the number.
func (l Limit) unit() string {
	if l.Percent > 0 {
		return "%"
	}
	return ""
}

// same says that both count the same.
func (l Limit) same(other Limit) bool { return compareLimits(l, other) == 0 }

// compareLimits sorts by the counted quantity: key and measure, of rates also time and burst, and whether it is in percent.
func compareLimits(a, b Limit) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Per, b.Per), cmp.Compare(a.Burst, b.Burst),
		cmp.Compare(a.unit(), b.unit()))
}

// appendText writes company<5, and rates as company 100/1m burst 10, or without a key as 100/1m; of submissions without the key
// it writes without company<5.
func (l Limit) appendText(dst []byte) []byte {
	if of, without := queue.LackedBy(l.Key); without {
		dst = append(append(dst, "without "...), of...)
	} else {
		dst = append(dst, l.Key...)
	}
	if l.Of != Rate {
		return append(strconv.AppendUint(append(dst, '<'), l.most(), 10), l.unit()...)
	}
	if l.Key != "" {
		dst = append(dst, ' ')
	}
	return l.appendRate(dst)
}

// Rate is the rate alone, as in 100/1m burst 10.
func (l Limit) Rate() string { return string(l.appendRate(nil)) }

func (l Limit) appendRate(dst []byte) []byte {
	dst = appendDuration(append(strconv.AppendUint(dst, uint64(l.Max), 10), '/'), l.Per)
	if l.Burst > 1 {
		dst = strconv.AppendUint(append(dst, " burst "...), uint64(l.Burst), 10)
	}
	return dst
}

// String is the limit as plans show it.
func (l Limit) String() string { return string(l.appendText(nil)) }

// withLimit adds a limit to a sorted list without changing that list; of two that count the same the smaller max holds.
func withLimit(limits []Limit, l Limit) []Limit {
	at, found := slices.BinarySearchFunc(limits, l, compareLimits)
	switch {
	case !found:
		return slices.Insert(slices.Clone(limits), at, l)
	case limits[at].implies(l):
		return limits
	}
	tighter := slices.Clone(limits)
	tighter[at] = l
	return tighter
}

// bound is the number of the limit in a list that counts the same as this one.
func (l Limit) bound(limits []Limit) uint64 {
	if at := slices.IndexFunc(limits, l.same); at >= 0 {
		return limits[at].most()
	}
	return unbound
}

// Restrained is the plan with every limit at 0: it offers nothing of the values that a limit counts, and goes on with all else. Its chunks
// can be handed out while the counts are not known, as after a restart. For a plan without limits it is the plan itself. Rates stay as they
// are: their counters begin a restart as if all had just been used.
func (p *Plan) Restrained() *Plan {
	limited := slices.ContainsFunc(p.Branches, func(b Branch) bool {
		return !b.Leaves(func(leaf *Branch) bool { return !slices.ContainsFunc(leaf.Limits, Limit.unknown) })
	})
	if !limited {
		return p
	}
	var list branchList
	for i := range p.Branches {
		if !p.Branches[i].OnFault {
			list.keep(p.Branches[i].restrained())
		}
	}
	branches, err := withFallbacks(list.branches)
	if err != nil {
		branches = list.branches // candidates that a fault leaves over wait until the counts are known
	}
	return &Plan{Branches: branches, root: p.root}
}

// LeavesIn maps each of the plan's leaves to the index of its leaf in of.Leaves. The plan is `of` itself, or was restrained from it.
func (p *Plan) LeavesIn(of *Plan) []int {
	own, theirs := p.Leaves(), of.Leaves()
	list := make([]int, len(own))
	for i := range own {
		list[i] = max(0, slices.IndexFunc(theirs, func(l Leaf) bool { return slices.Equal(l.ways, own[i].ways) }))
	}
	return list
}

// unknown says that the limit's counts are not known after a restart.
func (l Limit) unknown() bool { return l.Of != Rate }

func (b *Branch) restrained() Branch {
	if !b.holds() {
		within := b.demands()
		within.limits = nil
		for _, l := range b.Limits {
			if l.unknown() {
				l.Max, l.Percent = 0, 0
			}
			within = within.limited(l)
		}
		tighter := within.branch(b.Order)
		tighter.ways = b.ways
		return tighter
	}
	var inner branchList
	for i := range b.Inner {
		inner.keep(b.Inner[i].restrained())
	}
	if b.Scored != nil {
		return scoredBranch(b.Scored, inner.branches)
	}
	return fairBranch(b.Fair, b.Cost, inner.branches)
}
