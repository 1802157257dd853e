package strategy

// maxRateDefinition is MaxRate("company", 100, "1m", burst=10, X), and without a key MaxRate(100, "1s", X) for all chunks together.
var maxRateDefinition = definition{
	name: "MaxRate", snake: "max_rate",
	parameters: []parameter{
		{kind: keyParameter, caption: "key", field: "meta_field", optional: true},
		{kind: maxParameter, caption: "max", field: "max"},
		{kind: durationParameter, caption: "per", field: "per"},
		{kind: settingParameter, caption: "burst", field: "burst", low: 1, high: MaxLimit, usual: 1, optional: true},
		ofMissing,
		underlying,
	},
	build: func(a []argument) block {
		limit := Limit{Key: a[0].key, Max: a[1].max, Of: Rate, Per: a[2].per, Burst: 1}
		if a[3].given {
			limit.Burst = a[3].max
		}
		return &hardLimit{limited{limit, a[4].missing, a[5].blocks[0]}, "MaxRate"}
	},
}

// rateArguments are those of a MaxRate.
func (l *limited) rateArguments() []argument {
	burst := argument{max: l.limit.Burst, given: l.limit.Burst > 1}
	return []argument{
		{key: l.limit.Key}, {max: l.limit.Max}, {per: l.limit.Per}, burst, {missing: l.missing}, {blocks: []block{l.underlying}},
	}
}

// check is the error of a block whose arguments do not go together.
func (l *limited) check() error {
	switch limit := l.limit; {
	case limit.Of == Rate && limit.Burst > limit.Max:
		return invalid(pointer, "has a MaxRate with a burst of %d, which is more than its max of %d; "+
			"lower burst to at most max, or raise max", limit.Burst, limit.Max)
	case limit.Key == "" && l.missing != MissingUnlimited:
		return invalid(pointer, "has a MaxRate with missing=%s, but without a key; give a key, or leave missing out", l.missing)
	}
	return nil
}
