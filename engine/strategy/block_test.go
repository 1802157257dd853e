package strategy

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/quern-queue/quern/engine/queue"
)

// Every block of the map can be spelled in both forms from its definition alone, and gives back the arguments that it
// was built from.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	sample := map[parameterKind]argument{
		keyParameter:      {key: "company"},
		tenantParameter:   {key: SubmissionKey},
		maxParameter:      {max: 300},
		durationParameter: {per: time.Minute},
		costParameter:     {cost: ByTime},
		blockParameter:    {blocks: []block{orderBlock{OldestFirst}}},
		pluginParameter:   {name: "deadline-first", version: "1.2.0"},
		configParameter:   {config: `{"weight":3}`},
		settingParameter:  {max: 64, given: true},
		valuesParameter:   {values: []queue.MetaValue{queue.IntValue(7), queue.StringValue("x")}},
		formulaParameter:  {formula: formula(t, "priority*10 - attempts*5")},
		blocksParameter:   {blocks: []block{orderBlock{OldestFirst}, orderBlock{Random}, orderBlock{NewestFirst}}},
	}
	snakes := map[string]string{}
	for name, d := range known {
		if d.name != name {
			t.Errorf("the block %s stands in the map as %s", d.name, name)
		}
		if want := snakeCase(name); d.snake != want {
			t.Errorf("%s is %q in JSON, want %q", name, d.snake, want)
		}
		if other, twice := snakes[d.snake]; twice {
			t.Errorf("%s and %s are both %q in JSON", name, other, d.snake)
		}
		snakes[d.snake] = name
		var args []argument
		for i, p := range d.parameters {
			if p.kind == blocksParameter && i != len(d.parameters)-1 {
				t.Errorf("%s: parameter %d takes many blocks and is not the last", name, i)
			}
			args = append(args, sample[p.kind])
		}
		b := d.build(args)
		if b.definition() != d {
			t.Errorf("%s builds a block that calls itself %s", name, b.definition().name)
		}
		s, err := Parse(string(appendText(nil, b)))
		if err != nil {
			t.Errorf("Parse(%s): %v", appendText(nil, b), err)
			continue
		}
		checkCanonical(t, s)
	}
}

func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
