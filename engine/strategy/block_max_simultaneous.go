package strategy

var maxSimultaneousDefinition = definition{
	name:       "MaxSimultaneous",
	snake:      "max_simultaneous",
	parameters: limitParameters,
	build:      func(a []argument) block { return &maxSimultaneous{limiting(a)} },
}

// limitParameters are those of the blocks that limit what underlying offers.
var limitParameters = []parameter{
	{kind: keyParameter, caption: "key", field: "meta_field"},
	{kind: maxParameter, caption: "max", field: "max"},
	underlying,
}

// limited is what these blocks have in common.
type limited struct {
	limit      Limit
	underlying block
}

func limiting(a []argument) limited {
	return limited{Limit{Key: a[0].key, Max: a[1].max}, a[2].blocks[0]}
}

func (b *limited) arguments() []argument {
	return []argument{{key: b.limit.Key}, {max: b.limit.Max}, {blocks: []block{b.underlying}}}
}

// maxSimultaneous offers what underlying offers, but nothing of a value that has limit.Max chunks or more in flight.
type maxSimultaneous struct{ limited }

func (b *maxSimultaneous) definition() *definition { return &maxSimultaneousDefinition }

func (b *maxSimultaneous) branches(within scope) ([]Branch, error) {
	inner, err := b.underlying.branches(within.limited(b.limit))
	return through(0, inner), err
}
