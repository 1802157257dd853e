package strategy

// A scorer may fault, or not exist at all. Then the request goes on to the next branch. Where the strategy has none for the
// same candidates, normalising puts one there: the inner strategy in its own order. Candidates that the scorer skipped on
// purpose must not come back through it, so such a branch is marked OnFault; an alternative that the strategy names itself is
// asked for everything.

// withFallbacks puts the implicit fallbacks behind the scored branches of a plan.
func withFallbacks(branches []Branch) ([]Branch, error) {
	var list branchList
	for i := range branches {
		b := &branches[i]
		if err := list.add(*b); err != nil {
			return nil, err
		}
		if b.Scored == nil || b.hasFallback(branches[:i], branches[i+1:]) {
			continue
		}
		for j := range b.Inner {
			if err := list.add(b.Inner[j].onFault()); err != nil {
				return nil, err
			}
		}
	}
	return list.branches, nil
}

// hasFallback says that all candidates of a scored branch are offered without its scorer as well: by a branch before it in
// some order, or by one after it that does not depend on the same scorer.
func (b *Branch) hasFallback(before, after []Branch) bool {
	return b.Leaves(func(leaf *Branch) bool {
		for i := range before {
			if before[i].Scored == nil && before[i].admits(leaf) {
				return true
			}
		}
		for i := range after {
			if s := after[i].Scored; (s == nil || s.String() != b.Scored.String()) && after[i].admits(leaf) {
				return true
			}
		}
		return false
	})
}

func (b *Branch) onFault() Branch {
	fallback := *b
	fallback.OnFault, fallback.plain = true, b
	fallback.key = b.Key() + " on fault"
	return fallback
}

// Plain is the branch itself, or without OnFault: the same submissions in the same order, so that both can share a view.
func (b *Branch) Plain() *Branch {
	switch {
	case !b.OnFault:
		return b
	case b.plain != nil:
		return b.plain
	}
	plain := *b // made by hand
	plain.OnFault, plain.key = false, ""
	return &plain
}
