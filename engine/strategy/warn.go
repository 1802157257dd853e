package strategy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// The kinds of warnings. A strategy with any of them is valid; a part of it does nothing.
const (
	WarnOffersNothing  = "offers_nothing"           // every branch contradicts itself
	WarnContradiction  = "contradiction"            // this block can never yield: a block around it asks for another value
	WarnRepeatedFilter = "repeated_filter"          // a block around it asks for the same value
	WarnLimitNeverBind = "limit_never_binds"        // another limit on the same key is reached first
	WarnNoPreference   = "preference_has_no_effect" // there is nothing to prefer among
	WarnHidden         = "hidden"                   // what is asked before it offers all that it could
	WarnSharesNothing  = "shares_nothing"           // there is one value only to share between
	WarnSameScores     = "same_scores"              // every candidate has the same score
	// it names a plugin, a version or a configuration that the server does not have: found by those who hold the plugins
	WarnUnusable = "plugin_unusable"
	// nothing scores for it for now: found by them too
	WarnUnavailable = "plugin_unavailable"
)

// Warning is one part of a strategy that has no effect.
type Warning struct {
	Kind    string // one of the Warn constants
	Pointer string // the block, in the canonical JSON of the strategy under "/strategy"
	Detail  string // the rest of a sentence about it
}

// Warnings finds what in the strategy has no effect, in the order of the text. Each stands for itself: without the block
// that it points at (for a hidden one: without that alternative) the same chunks would be offered in the same order. An
// error is a broken invariant.
func (s *Strategy) Warnings() ([]Warning, error) {
	var f finder
	if len(s.plan.Branches) == 0 {
		f.add(WarnOffersNothing, pointer, "offers nothing: every branch asks for two values of one key at once")
	}
	if err := f.block(s.root, pointer, scope{}, nil); err != nil {
		return nil, fmt.Errorf("strategy: warnings: %w", err)
	}
	if !slices.ContainsFunc(f.found, func(w Warning) bool { return w.Kind == WarnHidden }) {
		f.branches(s.plan)
	}
	return f.found, nil
}

// finder walks a tree. within is what the blocks around a block demand, as in the compilation; before is branches that are
// all asked before any of the block's own.
type finder struct{ found []Warning }

func (f *finder) add(kind, path, format string, args ...any) {
	f.found = append(f.found, Warning{Kind: kind, Pointer: path, Detail: fmt.Sprintf(format, args...)})
}

func (f *finder) block(b block, path string, within scope, before []Branch) error {
	switch b := b.(type) {
	case *selectOnly:
		inner, possible := within.filtered(b.filter)
		if !possible {
			f.add(WarnContradiction, path,
				"can never yield: a block around it asks for another value of %s, and a submission has one", named(b.filter.Key))
			return nil
		}
		if len(inner.filters) == len(within.filters) {
			f.add(WarnRepeatedFilter, path, "changes nothing: a block around it asks for the same value of %s already", named(b.filter.Key))
		}
		return f.block(b.underlying, path+"/underlying", inner, before)
	case *maxSimultaneous:
		f.limit(b, path, within)
		return f.block(b.underlying, path+"/underlying", within.limited(b.limit), before)
	case *preferDistinct:
		if err := f.preference(b, path, within); err != nil {
			return err
		}
		return f.block(b.underlying, path+"/underlying", within, before)
	case *fairShare:
		if err := f.sharing(b, path, within); err != nil {
			return err
		}
		return f.block(b.underlying, path+"/underlying", within, before)
	case *scoredBlock:
		f.scoring(b, path)
		return f.block(b.underlying, path+"/underlying", within, before)
	case *orElse:
		return f.alternatives(b, path, within, before)
	}
	return nil
}

// scoring warns of a formula that reads nothing: one score for all candidates.
func (f *finder) scoring(b *scoredBlock, path string) {
	e := b.scored.Expression
	if e == nil || len(e.Columns()) > 0 {
		return
	}
	if score := e.Eval(&Window{Rows: 1}, 0); score != score {
		f.add(WarnContradiction, path, "can never yield: its score is never a number, which skips every candidate")
	} else {
		f.add(WarnSameScores, path, "changes nothing: its expression reads no column, so that all candidates have the same score")
	}
}

func (f *finder) limit(b *maxSimultaneous, path string, within scope) {
	key, most := b.limit.Key, uint64(b.limit.Max)
	if outer := within.bound(key); outer <= most {
		f.add(WarnLimitNeverBind, path, "never binds: a MaxSimultaneous of %d around it holds %s back first", outer, named(key))
	} else if inner := bound(b.underlying, key); inner < most {
		f.add(WarnLimitNeverBind, path, "never binds: a MaxSimultaneous of at most %d inside of it holds %s back first", inner, named(key))
	}
}

func (f *finder) preference(b *preferDistinct, path string, within scope) error {
	key := b.limit.Key
	if hard := min(within.bound(key), bound(b.underlying, key)); hard <= uint64(b.limit.Max) {
		f.add(WarnNoPreference, path, "prefers nothing: a MaxSimultaneous of %d holds every value of %s back that it "+
			"would put last", hard, named(key))
		return nil
	}
	branches, err := b.underlying.branches(within)
	if err != nil {
		return err
	}
	if len(branches) == 1 && branches[0].oneValue(key) {
		f.add(WarnNoPreference, path, "prefers nothing: SelectOnly leaves only one value of %s", named(key))
	}
	return nil
}

func (f *finder) sharing(b *fairShare, path string, within scope) error {
	branches, err := b.branches(within)
	if err != nil {
		return err
	}
	if len(branches) == 1 && branches[0].oneValue(b.key) {
		f.add(WarnSharesNothing, path, "shares nothing: SelectOnly leaves only one value of %s", named(b.key))
	}
	return nil
}

// oneValue says whether all that the branch offers has the same value of the key.
func (b *Branch) oneValue(key queue.MetaKey) bool {
	var value *queue.MetaValue
	return b.Leaves(func(leaf *Branch) bool {
		at := slices.IndexFunc(leaf.Filters, func(f Filter) bool { return f.Key == key })
		if at < 0 || value != nil && *value != leaf.Filters[at].Value {
			return false
		}
		value = &leaf.Filters[at].Value
		return true
	})
}

func (f *finder) alternatives(b *orElse, path string, within scope, before []Branch) error {
	parameter := orElseDefinition.parameters[0]
	for i, alternative := range b.alternatives {
		at := path + "/" + parameter.field + "/" + strconv.Itoa(i)
		if len(b.alternatives) == len(parameter.pair) {
			at = path + "/" + parameter.pair[i]
		}
		branches, err := alternative.branches(within)
		if err != nil {
			return err
		}
		hider, hidden := hiddenBy(branches, before)
		if hidden {
			f.add(WarnHidden, at, "can never yield: all that it could offer is offered before it, by %s", hider)
			continue
		}
		if err := f.block(alternative, at, within, before); err != nil {
			return err
		}
		before = slices.Concat(before, branches)
	}
	return nil
}

// branches warns of single branches that are hidden though no whole alternative is.
func (f *finder) branches(p *Plan) {
	for i := range p.Branches {
		if p.Branches[i].OnFault {
			continue // not of the strategy's making
		}
		if hider, hidden := hiddenBy(p.Branches[i:i+1], p.Branches[:i]); hidden {
			f.add(WarnHidden, pointer, "has a branch that can never yield, number %d (%s): all that it could offer "+
				"is offered before it, by %s", i+1, p.Branches[i].Key(), hider)
		}
	}
}

// hiddenBy says whether each of the branches is covered by one of those before, and names the first that covers.
func hiddenBy(branches, before []Branch) (hider string, hidden bool) {
	for i := range branches {
		at := slices.IndexFunc(before, func(b Branch) bool { return b.covers(&branches[i]) })
		if at < 0 {
			return "", false
		}
		hider = cmp.Or(hider, before[at].Key())
	}
	return hider, len(branches) > 0
}

// covers says whether b, asked before c, leaves c nothing: it offers whatever c admits. A scored branch may skip some of that,
// or fail.
func (b *Branch) covers(c *Branch) bool { return b.Scored == nil && !b.OnFault && b.admits(c) }

// admits says whether b admits whatever c admits: it asks for nothing that c does not ask for, and limits nothing that c
// does not limit at least as tightly. The order does not matter for that.
//
// A branch that holds others admits what some leaf of it admits.
func (b *Branch) admits(c *Branch) bool {
	return c.Leaves(func(wanted *Branch) bool {
		return !b.Leaves(func(leaf *Branch) bool { return !leaf.coversLeaf(wanted) })
	})
}

func (b *Branch) coversLeaf(c *Branch) bool {
	for _, filter := range b.Filters {
		if !slices.Contains(c.Filters, filter) {
			return false
		}
	}
	for _, limit := range b.Limits {
		if !slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Key == limit.Key && l.Max <= limit.Max }) {
			return false
		}
	}
	return true
}

// unbound is the bound of what no limit holds back: above every Max.
const unbound = math.MaxUint64

// bound is the hard limit that the scope has on the key.
func (s scope) bound(key queue.MetaKey) uint64 {
	for _, l := range s.limits {
		if l.Key == key {
			return uint64(l.Max)
		}
	}
	return unbound
}

// bound is the loosest of the hard limits on the key inside a block, of which each of its leaves has its tightest.
func bound(b block, key queue.MetaKey) uint64 {
	loosest, leaf := uint64(0), true
	for _, arg := range b.arguments() {
		for _, inner := range arg.blocks {
			loosest, leaf = max(loosest, bound(inner, key)), false
		}
	}
	if leaf {
		return unbound
	}
	if b, ok := b.(*maxSimultaneous); ok && b.limit.Key == key {
		return min(loosest, uint64(b.limit.Max))
	}
	return loosest
}

func named(key queue.MetaKey) string { return strconv.Quote(key) }
