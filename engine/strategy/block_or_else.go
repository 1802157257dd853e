package strategy

var orElseDefinition = definition{
	name:  "OrElse",
	snake: "or_else",
	parameters: []parameter{
		{kind: blocksParameter, caption: "first, second, ...", field: "branches", pair: [2]string{"try_first", "fallback"}},
	},
	build: func(a []argument) block { return &orElse{a[0].blocks} },
}

// orElse offers what its first alternative offers, then what the second does, and so on.
type orElse struct{ alternatives []block }

func (b *orElse) definition() *definition { return &orElseDefinition }

func (b *orElse) arguments() []argument { return []argument{{blocks: b.alternatives}} }

func (b *orElse) branches(within scope) ([]Branch, error) {
	var list branchList
	for place, alternative := range b.alternatives {
		branches, err := alternative.branches(within)
		if err != nil {
			return nil, err
		}
		for i := range through(place, branches) {
			if err := list.add(branches[i]); err != nil {
				return nil, err
			}
		}
	}
	return list.branches, nil
}
