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
	WarnHidden         = "hidden"                   // the branches before it offer everything that it could
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

// Warnings finds the parts of the strategy that have no effect, in the order of the text. Each warning is true by itself:
// without the block that it points at (for a hidden one: without that alternative) the same chunks would be offered in the
// same order. An error is a broken invariant.
func (s *Strategy) Warnings() ([]Warning, error) {
	var f finder
	if len(s.plan.Branches) == 0 {
		f.add(WarnOffersNothing, pointer, "offers nothing: every branch asks for two values of one key at once")
	}
	if err := s.root.warn(&f, pointer, demands{}, nil); err != nil {
		return nil, fmt.Errorf("strategy: warnings: %w", err)
	}
	if !slices.ContainsFunc(f.found, func(w Warning) bool { return w.Kind == WarnHidden }) {
		f.branches(s.plan)
	}
	return f.found, nil
}

// finder collects the warnings of a walk through a tree.
type finder struct{ found []Warning }

func (f *finder) add(kind, path, format string, args ...any) {
	f.found = append(f.found, Warning{Kind: kind, Pointer: path, Detail: fmt.Sprintf(format, args...)})
}

// underlying goes on with the one block inside of another.
func (f *finder) underlying(b block, path string, within demands, before []Branch) error {
	return b.warn(f, path+"/"+underlying.field, within, before)
}

// oneValue warns of a block that has no effect because all chunks of another one have the same value of the key.
func (f *finder) oneValue(b block, key queue.MetaKey, within demands, kind, path, nothing string) error {
	branches, err := b.branches(within)
	if err == nil && len(branches) == 1 && branches[0].oneValue(key) {
		f.add(kind, path, "%s: the filters leave only one value of %s", nothing, named(key))
	}
	return err
}

// oneValue says whether all submissions of the branch have the same value of the key.
func (b *Branch) oneValue(key queue.MetaKey) bool {
	var value *queue.MetaValue
	return b.Leaves(func(leaf *Branch) bool {
		at := slices.IndexFunc(leaf.Filters, func(f Filter) bool { return f.Key == key })
		if at < 0 {
			return false
		}
		only, one := leaf.Filters[at].only()
		if !one || value != nil && *value != only {
			return false
		}
		value = &only
		return true
	})
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

// covers says whether b, asked before c, leaves c nothing: it offers everything that c admits. A scored branch may skip some
// of that, or fail.
func (b *Branch) covers(c *Branch) bool { return b.Scored == nil && !b.OnFault && b.admits(c) }

// admits says whether b admits everything that c admits: each of its filters and limits is also one of c's, or is looser. The
// order does not matter.
//
// A branch that holds others admits everything that one of its leaves admits.
func (b *Branch) admits(c *Branch) bool {
	return c.Leaves(func(wanted *Branch) bool {
		return !b.Leaves(func(leaf *Branch) bool { return !leaf.Loosens(wanted) })
	})
}

// unbound is the bound without a limit: above every Max.
const unbound = math.MaxUint64

func named(key queue.MetaKey) string {
	if key == "" {
		return "everything"
	}
	return strconv.Quote(key)
}
