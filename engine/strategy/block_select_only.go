package strategy

var selectOnlyDefinition = definition{
	name:  "SelectOnly",
	snake: "select_only",
	parameters: []parameter{
		{kind: keyParameter, caption: "key", field: "meta_field"},
		{kind: valueParameter, caption: "value", field: "value"},
		underlying,
	},
	build: func(a []argument) block {
		return &selectOnly{Filter{Key: a[0].key, Value: a[1].value}, a[2].blocks[0]}
	},
}

// selectOnly offers what underlying offers and whose meta has the filter's key with the filter's value.
type selectOnly struct {
	filter     Filter
	underlying block
}

func (b *selectOnly) definition() *definition { return &selectOnlyDefinition }

func (b *selectOnly) arguments() []argument {
	return []argument{{key: b.filter.Key}, {value: b.filter.Value}, {blocks: []block{b.underlying}}}
}

// branches is empty when a block around this one asks for another value of the same key: a submission has one value.
func (b *selectOnly) branches(within scope) ([]Branch, error) {
	inner, possible := within.filtered(b.filter)
	if !possible {
		return nil, nil
	}
	branches, err := b.underlying.branches(inner)
	return through(0, branches), err
}
