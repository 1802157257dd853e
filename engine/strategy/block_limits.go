package strategy

import "slices"

var (
	maxSimultaneousDefinition = definition{
		name:  "MaxSimultaneous",
		snake: "max_simultaneous",
		parameters: []parameter{
			ofKey, {kind: maxParameter, caption: "max", field: "max", percents: true}, ofMissing, underlying,
		},
		build: func(a []argument) block { return &hardLimit{limiting(a), "MaxSimultaneous"} },
	}
	preferDistinctDefinition = definition{
		name:       "PreferDistinct",
		snake:      "prefer_distinct",
		parameters: []parameter{ofKey, {kind: maxParameter, caption: "max", field: "max", optional: true}, ofMissing, underlying},
		build: func(a []argument) block {
			if a[1].max == 0 {
				return &preferFewest{a[0].key, a[2].missing, a[3].blocks[0]}
			}
			return &preferDistinct{limiting(a)}
		},
	}
)

// limited is the common part of these blocks.
type limited struct {
	limit      Limit
	missing    Missing
	underlying block
}

func limiting(a []argument) limited {
	return limited{Limit{Key: a[0].key, Max: a[1].max, Percent: a[1].percent, Of: Simultaneous}, a[2].missing, a[3].blocks[0]}
}

func (l *limited) arguments() []argument {
	most := argument{max: l.limit.Max, percent: l.limit.Percent}
	return []argument{{key: l.limit.Key}, most, {missing: l.missing}, {blocks: []block{l.underlying}}}
}

func (l *limited) note(n *Node) {
	n.Limits = l.missing.limits(l.limit)
	if l.missing == MissingNever {
		n.Filter = With(l.limit.Key)
	}
	n.Text += "(" + string(l.missing.appendText(l.limit.appendText(nil))) + ")"
}

// hardLimit offers what underlying offers, but nothing of a value that is at the limit.
type hardLimit struct {
	limited
	name string
}

func (h *hardLimit) definition() *definition { return known[h.name] }

func (h *hardLimit) arguments() []argument {
	if h.limit.Of == Rate {
		return h.rateArguments()
	}
	return h.limited.arguments()
}

func (h *hardLimit) branches(within demands) ([]Branch, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	inner, err := h.underlying.branches(h.missing.demand(within, h.limit))
	return through(0, inner), err
}

func (h *hardLimit) warn(f *finder, path string, within demands, before []Branch) error {
	key, most, unit := named(h.limit.Key), h.limit.most(), h.limit.unit()
	outer, inner := h.missing.bounds(within, h.limit, h.underlying)
	if outer <= most {
		f.add(WarnLimitNeverBind, path, "never binds: a %s of %d%s around it holds %s back first", h.name, outer, unit, key)
	} else if inner < most {
		f.add(WarnLimitNeverBind, path, "never binds: a %s of at most %d%s inside of it holds %s back first", h.name, inner, unit, key)
	}
	return f.underlying(h.underlying, path, h.missing.demand(within, h.limit), before)
}

// boundInside is the loosest number of the hard limits inside a block that count the same as this one. Of each leaf the tightest
// limit counts.
func (l Limit) boundInside(b block) uint64 {
	loosest, leaf := uint64(0), true
	for _, inner := range insideOf(b) {
		loosest, leaf = max(loosest, l.boundInside(inner)), false
	}
	if leaf {
		return unbound
	}
	if h, ok := b.(*hardLimit); ok && slices.ContainsFunc(h.missing.limits(h.limit), l.same) {
		return min(loosest, h.limit.most())
	}
	return loosest
}

// preferDistinct offers what underlying offers, but values that are at the limit come last.
type preferDistinct struct{ limited }

func (p *preferDistinct) definition() *definition { return &preferDistinctDefinition }

func (p *preferDistinct) note(n *Node) {
	p.limited.note(n)
	n.Soft = true
}

// branches asks underlying once and limits the copies, rather than asking twice: nested blocks would ask 2^depth times.
func (p *preferDistinct) branches(within demands) ([]Branch, error) {
	all, err := p.underlying.branches(p.missing.filtered(within, p.limit.Key))
	if err != nil {
		return nil, err
	}
	var list branchList
	preferred := make([]Branch, len(all))
	for i := range all {
		preferred[i] = all[i].limited(p.missing.limits(p.limit)...)
	}
	for _, branches := range [][]Branch{through(withinSoftLimit, preferred), through(beyondSoftLimit, all)} {
		for i := range branches {
			if err := list.add(branches[i]); err != nil {
				return nil, err
			}
		}
	}
	return list.branches, nil
}

func (p *preferDistinct) warn(f *finder, path string, within demands, before []Branch) error {
	key := p.limit.Key
	outer, inner := p.missing.bounds(within, p.limit, p.underlying)
	within = p.missing.filtered(within, key)
	if hard := min(outer, inner); hard <= uint64(p.limit.Max) {
		f.add(WarnNoPreference, path, "prefers nothing: a MaxSimultaneous of %d holds every value of %s back that it "+
			"would put last", hard, named(key))
	} else if err := f.oneValue(p.underlying, key, within, WarnNoPreference, path, "prefers nothing"); err != nil {
		return err
	}
	return f.underlying(p.underlying, path, within, before)
}
