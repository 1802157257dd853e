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

// selectOnly offers what underlying offers and the filter admits.
type selectOnly struct {
	filter     Filter
	underlying block
}

func (s *selectOnly) definition() *definition { return &selectOnlyDefinition }

func (s *selectOnly) arguments() []argument {
	return []argument{{key: s.filter.Key}, {value: s.filter.Value}, {blocks: []block{s.underlying}}}
}

// branches is empty when a block around this one asks for another value of the same key: a submission has one value.
func (s *selectOnly) branches(within demands) ([]Branch, error) {
	inner, possible := within.filtered(s.filter)
	if !possible {
		return nil, nil
	}
	branches, err := s.underlying.branches(inner)
	return through(0, branches), err
}

func (s *selectOnly) note(n *Node) {
	n.Filter = s.filter
	n.Text += "(" + string(s.filter.appendText(nil)) + ")"
}

func (s *selectOnly) warn(f *finder, path string, within demands, before []Branch) error {
	inner, possible := within.filtered(s.filter)
	if !possible {
		f.add(WarnContradiction, path,
			"can never yield: a block around it asks for another value of %s, and a submission has one", named(s.filter.Key))
		return nil
	}
	if len(inner.filters) == len(within.filters) {
		f.add(WarnRepeatedFilter, path, "changes nothing: a block around it asks for the same value of %s already", named(s.filter.Key))
	}
	return f.underlying(s.underlying, path, inner, before)
}
