package strategy

import (
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

var (
	selectOnlyDefinition = definition{
		name:       "SelectOnly",
		snake:      "select_only",
		parameters: []parameter{ofKey, {kind: valueParameter, caption: "value", field: "value"}, underlying},
		build: func(a []argument) block {
			return &selects{"SelectOnly", Select(a[0].key, a[1].value), a[2].blocks[0]}
		},
	}
	selectAnyDefinition = selectsDefinition("SelectAny", "select_any", false)
	exceptDefinition    = selectsDefinition("Except", "except", true)
)

// selectsDefinition is the definition of a block that filters by a list of values.
func selectsDefinition(name, snake string, except bool) definition {
	return definition{
		name: name, snake: snake,
		parameters: []parameter{ofKey, {kind: valuesParameter, caption: "values", field: "values"}, underlying},
		build: func(a []argument) block {
			return &selects{name, Filter{Key: a[0].key, Values: a[1].values, Except: except}, a[2].blocks[0]}
		},
	}
}

// selects offers what underlying offers and the filter admits.
type selects struct {
	name       string
	filter     Filter
	underlying block
}

func (s *selects) definition() *definition { return known[s.name] }

func (s *selects) arguments() []argument {
	return []argument{{key: s.filter.Key}, {value: s.filter.Values[0], values: s.filter.Values}, {blocks: []block{s.underlying}}}
}

// branches is empty when the blocks around this one leave none of its values: a submission has one value of a key.
func (s *selects) branches(within demands) ([]Branch, error) {
	inner, possible := within.filtered(s.filter)
	if !possible {
		return nil, nil
	}
	branches, err := s.underlying.branches(inner)
	return through(0, branches), err
}

func (s *selects) note(n *Node) {
	n.Filter = s.filter
	n.Text += "(" + s.filter.String() + ")"
}

func (s *selects) warn(f *finder, path string, within demands, before []Branch) error {
	inner, possible := within.filtered(s.filter)
	if !possible {
		f.add(WarnContradiction, path,
			"can never yield: a block around it asks for another value of %s, and a submission has one", named(s.filter.Key))
		return nil
	}
	if within.implies(&s.filter) {
		f.add(WarnRepeatedFilter, path, "changes nothing: a block around it leaves no other value of %s already", named(s.filter.Key))
	}
	return f.underlying(s.underlying, path, inner, before)
}

// readValues reads the values of a list, which are kept sorted and each once.
func readValues(v jsonValue) (values []queue.MetaValue, wrong string) {
	if !v.isArray() {
		return nil, `must be a list of values in brackets, as in ["a", "b"]; found ` + v.describe()
	}
	for i, item := range v.items {
		value, wrong := readValue(item.token)
		if wrong != "" {
			return nil, fmt.Sprintf("must be strings and whole numbers; number %d %s", i+1, wrong)
		}
		values = append(values, value)
	}
	if values = distinct(values); len(values) == 0 || len(values) > MaxSelected {
		return nil, fmt.Sprintf("must have 1 to %d different values; found %d", MaxSelected, len(values))
	}
	return values, ""
}
