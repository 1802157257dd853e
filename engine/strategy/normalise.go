package strategy

import (
	"errors"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Normalising turns the tree into a flat list of branches. Conceptually SelectOnly and MaxSimultaneous distribute over
// OrElse, OrElse concatenates, and PreferDistinct(k, m, X) is [X with the limit, X]. PreferDistinct doubles, so thirty of
// them inside each other would make a thousand million branches, most of them alike.
//
// Here filters and hard limits are handed *down* (demands) and lists without duplicates come back *up*. So every
// list, of any block, is part of the final plan: a contradiction or a tighter limit further out has already been taken
// into account, and no block removes what an inner one returned. So the work is at most MaxNodes lists of MaxBranches,
// and the first list that outgrows MaxBranches proves that the plan does: the limit is exact.

// errTooManyBranches stops the compilation; compile turns it into the caller's error.
var errTooManyBranches = errors.New("strategy: too many branches")

func compile(root block) (*Plan, error) {
	branches, err := root.branches(demands{})
	if err == nil {
		err = checkFewest(branches)
	}
	if err == nil {
		err = checkPercents(branches)
	}
	if err == nil {
		branches, err = withFallbacks(branches)
	}
	if errors.Is(err, errTooManyBranches) {
		return nil, invalid(pointer, "normalises to more than %d branches; nest fewer PreferDistinct blocks (each "+
			"may double the branches below it) or give OrElse fewer alternatives", MaxBranches)
	}
	if err != nil {
		return nil, err
	}
	return &Plan{Branches: branches, root: root, percents: percentsOf(root)}, nil
}

// demands are the filters and limits of the blocks around a block, as a Branch has them. They share memory and are never
// changed.
type demands struct {
	filters []Filter
	limits  []Limit
	fewest  queue.MetaKey
	missing Missing // of fewest
}

// filtered adds a filter. It is not possible when the demands contradict it.
func (d demands) filtered(f Filter) (_ demands, possible bool) {
	filters, possible := withFilter(d.filters, f)
	d.filters = filters
	return d, possible
}

// implies says that the demands leave nothing that the filter would not admit.
func (d demands) implies(f *Filter) bool {
	return slices.ContainsFunc(d.filters, func(outer Filter) bool { return outer.implies(f) })
}

func (d demands) limited(l Limit) demands {
	d.limits = withLimit(d.limits, l)
	return d
}

func (d demands) branch(order Order) Branch {
	b := Branch{Filters: slices.Clip(d.filters), Limits: slices.Clip(d.limits), Order: order,
		Fewest: d.fewest, FewestOne: d.missing == MissingOne}
	b.key = b.makeKey()
	return b
}

// demands are the branch's own, so that it can be made again with more.
func (b *Branch) demands() demands {
	d := demands{filters: b.Filters, limits: b.Limits, fewest: b.Fewest}
	if b.FewestOne {
		d.missing = MissingOne
	}
	return d
}

// fairBranch makes branches the alternatives of one whose service is shared between the values of a key.
func fairBranch(key queue.MetaKey, cost Cost, inner []Branch) Branch {
	b := Branch{Fair: key, Cost: cost, Inner: inner}
	b.key = b.makeKey()
	return b
}

// scoredBranch makes branches the candidates of one in which they go by their scores.
func scoredBranch(scored *Scored, inner []Branch) Branch {
	b := Branch{Scored: scored, Inner: inner}
	b.key = b.makeKey()
	return b
}

// limited is the branch with more limits. If these make inner branches alike, some of them go.
func (b *Branch) limited(limits ...Limit) Branch {
	if !b.holds() {
		within := b.demands()
		for _, l := range limits {
			within = within.limited(l)
		}
		tighter := within.branch(b.Order)
		tighter.ways = b.ways
		return tighter
	}
	var inner branchList
	for i := range b.Inner {
		inner.keep(b.Inner[i].limited(limits...))
	}
	if b.Scored != nil {
		return scoredBranch(b.Scored, inner.branches)
	}
	return fairBranch(b.Fair, b.Cost, inner.branches)
}

// branchList gathers branches in order and drops duplicates: a branch is only asked when those before it have nothing
// left, so its twin can yield nothing more.
type branchList struct {
	branches []Branch
	leaves   int
	seen     map[string]struct{}
}

func (b *branchList) add(br Branch) error {
	if b.keep(br); b.leaves > MaxBranches {
		return errTooManyBranches
	}
	return nil
}

func (b *branchList) keep(br Branch) {
	if _, twin := b.seen[br.key]; twin {
		return
	}
	b.leaves += br.size()
	if b.seen == nil {
		b.seen = make(map[string]struct{})
	}
	b.seen[br.key] = struct{}{}
	b.branches = append(b.branches, br)
}
