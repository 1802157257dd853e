package strategy

import (
	"slices"
	"strconv"
)

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

func (o *orElse) definition() *definition { return &orElseDefinition }

func (o *orElse) arguments() []argument { return []argument{{blocks: o.alternatives}} }

func (o *orElse) branches(within demands) ([]Branch, error) {
	var list branchList
	for place, alternative := range o.alternatives {
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

func (o *orElse) note(*Node) {}

func (o *orElse) warn(f *finder, path string, within demands, before []Branch) error {
	parameter := orElseDefinition.parameters[0]
	for i, alternative := range o.alternatives {
		at := path + "/" + parameter.field + "/" + strconv.Itoa(i)
		if len(o.alternatives) == len(parameter.pair) {
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
		if err := alternative.warn(f, at, within, before); err != nil {
			return err
		}
		before = slices.Concat(before, branches)
	}
	return nil
}
