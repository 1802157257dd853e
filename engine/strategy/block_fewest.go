package strategy

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// preferFewest is PreferDistinct without a number: it offers the chunks of underlying, the values of the key with the fewest chunks in
// flight first. It equals PreferDistinct(key, 1, PreferDistinct(key, 2, PreferDistinct(key, 3, ...))) with all numbers, in one branch.
// Submissions without the key count as a value with nothing in flight, as they do there, unless missing says otherwise.
type preferFewest struct {
	key        queue.MetaKey
	missing    Missing
	underlying block
}

func (p *preferFewest) definition() *definition { return &preferDistinctDefinition }

func (p *preferFewest) arguments() []argument {
	return []argument{{key: p.key}, {}, {missing: p.missing}, {blocks: []block{p.underlying}}}
}

// branches hands the key down to the order, as limits are. There has to be one order: of several, the first would have to give its chunks
// of a value before the second is asked, but only until the value has more in flight than another one.
func (p *preferFewest) branches(within demands) ([]Branch, error) {
	if within.fewest != "" {
		return nil, invalid(pointer, "has a PreferDistinct without a number inside of another one, which is not supported; "+
			"give the outer one a number, as in PreferDistinct(%q, 1, ...)", within.fewest)
	}
	within = p.missing.filtered(within, p.key)
	within.fewest, within.missing = p.key, p.missing
	inner, err := p.underlying.branches(within)
	switch {
	case err != nil:
		return nil, err
	case len(inner) > 1:
		return nil, invalid(pointer, "has a PreferDistinct without a number around several alternatives, which is not supported; "+
			"put OrElse, and PreferDistinct with a number, around it")
	case len(inner) == 1 && inner[0].holds():
		return nil, invalid(pointer, "has a PreferDistinct without a number around a block that has an order of its own, which is "+
			"not supported; put Score and Plugin around it, and instead of Fair use one of the two")
	}
	return through(0, inner), nil
}

func (p *preferFewest) note(n *Node) {
	if p.missing == MissingNever {
		n.Filter = With(p.key)
	}
	n.Text += string(append(p.missing.appendText(append([]byte("("), p.key...)), ')'))
}

func (p *preferFewest) warn(f *finder, path string, within demands, before []Branch) error {
	outer, inner := p.missing.bounds(within, Limit{Key: p.key, Max: 1}, p.underlying)
	within = p.missing.filtered(within, p.key)
	if min(outer, inner) <= 1 {
		f.add(WarnNoPreference, path, "prefers nothing: a MaxSimultaneous of 1 holds every value of %s back that has more in flight "+
			"than another", named(p.key))
	} else if err := f.oneValue(p.underlying, p.key, within, WarnNoPreference, path, "prefers nothing"); err != nil {
		return err
	}
	return f.underlying(p.underlying, path, within, before)
}

// checkFewest refuses a PreferDistinct without a number inside of Fair, or around Random under several limits: picks find the chunks that
// these limits hold back one by one, so draws from the rest could not be even.
func checkFewest(branches []Branch) (err error) {
	for i := range branches {
		b := &branches[i]
		b.Leaves(func(leaf *Branch) bool {
			switch {
			case leaf.Fewest == "":
			case b.Fair != "" || slices.ContainsFunc(b.Inner, func(inner Branch) bool { return inner.Fair != "" }):
				err = invalid(pointer, "has a PreferDistinct without a number inside of Fair, which is not supported; use one of the two")
			case leaf.Order == Random && len(leaf.Limits) > 1:
				err = invalid(pointer, "has Random inside of a PreferDistinct without a number and of %d limits (missing=one makes "+
					"two of one); at most one is supported there. Use another order, such as OldestFirst", len(leaf.Limits))
			}
			return err == nil
		})
	}
	return err
}
