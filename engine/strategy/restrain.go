package strategy

import "slices"

// Restrained is the plan with every limit at 0: it offers nothing of the values that a limit counts, and goes on with all else. It
// is what can be handed out while the counts are not known, as after a restart. A plan without limits is its own. Rates stay as they
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
		branches = list.branches // what a fault leaves over waits until the counts are known
	}
	return &Plan{Branches: branches, root: p.root}
}

// LeavesIn is for each of the plan's leaves the index in of.Leaves of the one that it stands for, where this is of, or restrained from it.
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
		limits := slices.Clone(b.Limits)
		for i := range limits {
			if limits[i].unknown() {
				limits[i].Max = 0
			}
		}
		tighter := demands{b.Filters, limits, b.Fewest}.branch(b.Order)
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
