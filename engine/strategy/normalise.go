package strategy

import (
	"cmp"
	"errors"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Normalising turns the tree into a flat list of branches. Conceptually SelectOnly and MaxSimultaneous distribute over
// OrElse, OrElse concatenates, and PreferDistinct(k, m, X) is [X with the limit, X]. PreferDistinct doubles, so thirty of
// them inside each other would be a thousand million branches, most of them alike: the naive way is not an option.
//
// Here filters and hard limits are handed *down* (scope) and lists without duplicates come back *up*. So every
// list, of any block, is part of the final plan: a contradiction or a tighter limit further out has already been taken
// into account, and no block removes what an inner one returned. So the work is at most MaxNodes lists of MaxBranches,
// and the first list that outgrows MaxBranches proves that the plan does: the limit is exact.

// errTooManyBranches stops the compilation; compile turns it into the caller's error.
var errTooManyBranches = errors.New("strategy: too many branches")

func compile(root block) (*Plan, error) {
	branches, err := root.branches(scope{})
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
	return &Plan{Branches: branches, root: root}, nil
}

// scope is what the blocks around a block demand: filters and limits as a Branch has them. Scopes share memory and are
// never changed.
type scope struct {
	filters []Filter
	limits  []Limit
}

// filtered adds a filter. It is not possible when the scope asks for another value of the same key.
func (s scope) filtered(f Filter) (_ scope, possible bool) {
	at, found := slices.BinarySearchFunc(s.filters, f, func(a, b Filter) int { return cmp.Compare(a.Key, b.Key) })
	if found {
		return s, s.filters[at].Value == f.Value
	}
	return scope{slices.Insert(slices.Clone(s.filters), at, f), s.limits}, true
}

func (s scope) limited(l Limit) scope {
	return scope{s.filters, withLimit(s.limits, l)}
}

func (s scope) branch(order Order) Branch {
	b := Branch{Filters: slices.Clip(s.filters), Limits: slices.Clip(s.limits), Order: order}
	b.key = b.makeKey()
	return b
}

// share makes branches the alternatives of one whose service is shared between the values of a key.
func share(key queue.MetaKey, cost Cost, inner []Branch) Branch {
	b := Branch{Fair: key, Cost: cost, Inner: inner}
	b.key = b.makeKey()
	return b
}

// score makes branches the candidates of one in which they go by their scores.
func score(scored *Scored, inner []Branch) Branch {
	b := Branch{Scored: scored, Inner: inner}
	b.key = b.makeKey()
	return b
}

// limited is the branch with one limit more. Of one that holds others, which may become alike by that, some may go.
func (b *Branch) limited(l Limit) Branch {
	if !b.holds() {
		tighter := scope{b.Filters, withLimit(b.Limits, l)}.branch(b.Order)
		tighter.ways = b.ways
		return tighter
	}
	var inner branchList
	for i := range b.Inner {
		inner.keep(b.Inner[i].limited(l))
	}
	if b.Scored != nil {
		return score(b.Scored, inner.branches)
	}
	return share(b.Fair, b.Cost, inner.branches)
}

// withLimit adds a limit to a sorted list without changing that list; of two for one key the smaller max holds.
func withLimit(limits []Limit, l Limit) []Limit {
	at, found := slices.BinarySearchFunc(limits, l, func(a, b Limit) int { return cmp.Compare(a.Key, b.Key) })
	switch {
	case !found:
		return slices.Insert(slices.Clone(limits), at, l)
	case limits[at].Max <= l.Max:
		return limits
	}
	tighter := slices.Clone(limits)
	tighter[at] = l
	return tighter
}

// branchList gathers branches in order and drops what is already there: a branch is only asked when those before it have
// nothing left, so its twin can yield nothing more.
type branchList struct {
	branches []Branch
	leaves   int
	seen     map[string]struct{}
}

func (l *branchList) add(b Branch) error {
	if l.keep(b); l.leaves > MaxBranches {
		return errTooManyBranches
	}
	return nil
}

func (l *branchList) keep(b Branch) {
	if _, twin := l.seen[b.key]; twin {
		return
	}
	l.leaves += b.size()
	if l.seen == nil {
		l.seen = make(map[string]struct{})
	}
	l.seen[b.key] = struct{}{}
	l.branches = append(l.branches, b)
}
