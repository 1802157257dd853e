package strategy

var maxSimultaneousDefinition = definition{
	name:  "MaxSimultaneous",
	snake: "max_simultaneous",
	parameters: []parameter{
		{kind: keyParameter, caption: "key", field: "meta_field"},
		{kind: maxParameter, caption: "max", field: "max"},
		underlying,
	},
	build: func(a []argument) block {
		return &maxSimultaneous{Limit{Key: a[0].key, Max: a[1].max}, a[2].blocks[0]}
	},
}

// maxSimultaneous offers what underlying offers, but nothing of a value that has limit.Max chunks or more in flight.
type maxSimultaneous struct {
	limit      Limit
	underlying block
}

func (b *maxSimultaneous) definition() *definition { return &maxSimultaneousDefinition }

func (b *maxSimultaneous) arguments() []argument {
	return []argument{{key: b.limit.Key}, {max: b.limit.Max}, {blocks: []block{b.underlying}}}
}

func (b *maxSimultaneous) branches(within scope) ([]Branch, error) {
	inner, err := b.underlying.branches(within.limited(b.limit))
	return through(0, inner), err
}
