package strategy

var preferDistinctDefinition = definition{
	name:       "PreferDistinct",
	snake:      "prefer_distinct",
	parameters: limitParameters,
	build:      func(a []argument) block { return &preferDistinct{limiting(a)} },
}

// preferDistinct offers what underlying offers, but values with limit.Max chunks or more in flight come last.
type preferDistinct struct{ limited }

func (b *preferDistinct) definition() *definition { return &preferDistinctDefinition }

// branches asks underlying once and limits the copies, rather than asking twice: nested blocks would ask 2^depth times.
func (b *preferDistinct) branches(within scope) ([]Branch, error) {
	all, err := b.underlying.branches(within)
	if err != nil {
		return nil, err
	}
	var list branchList
	preferred := make([]Branch, len(all))
	for i := range all {
		preferred[i] = all[i].limited(b.limit)
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
