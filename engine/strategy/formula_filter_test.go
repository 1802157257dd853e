package strategy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// The needs of formulas, written as filters.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`if(meta.kind == "a", priority, skip)`:                                       `kind="a"`,
		`if("a" == meta.kind, priority, skip) * 2 + age`:                             `kind="a"`,
		`if(meta.kind != "a", skip, 1)`:                                              `kind="a"`,
		`if(meta.kind == "a", skip, 1)`:                                              `kind not in ["a"]`,
		`if(meta.kind == "a" or meta.kind == "b", 1, skip)`:                          `kind in ["a", "b"]`,
		`if(meta.kind == "a", 1, if(meta.kind == "b", 2, skip))`:                     `kind in ["a", "b"]`,
		`if(meta.kind == "a" and not (meta.tier == 2 or meta.tier == 3), 1, skip)`:   `kind="a" tier not in [2, 3]`,
		`if(meta.tier == 7, 1, skip)`:                                                `tier=7`,
		`if(meta.tier == 7.5, 1, skip)`:                                              ``,
		`if(meta("tier", 7) == 7, 1, skip)`:                                          ``,
		`if(meta.tier == 9007199254740993, 1, skip)`:                                 ``,
		`if(context.kind == "a", 1, skip)`:                                           ``,
		`if(meta.kind == context.kind, 1, skip)`:                                     ``,
		`if(meta.kind == "a" or meta.tier == 1, 1, skip)`:                            ``,
		`if(meta.kind == "a", 1, 0)`:                                                 ``,
		`max(if(meta.kind == "a", 1, skip), if(meta.tier == 1, 1, skip))`:            `kind="a" tier=1`,
		`if(meta.kind == "a", 1, skip) + if(meta.kind == "b", 1, skip)`:              `never`,
		`if(meta.kind == "a" and meta.kind == "b", 1, skip)`:                         `never`,
		`skip + priority`:                                                            `never`,
		`if(age > 5m, if(meta.kind == "a", 1, skip), if(meta.kind == "b", 2, skip))`: `kind in ["a", "b"]`,
	} {
		e := formula(t, text)
		var got []string
		for _, f := range e.Needs() {
			got = append(got, f.String())
		}
		if e.root.needs().never {
			got = []string{"never"}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s needs %q, want %s", text, got, want)
		}
	}
}

// For any formula, a submission that has a score passes all filters that the formula needs.
func TestNeedsAdmitWhatIsScored(t *testing.T) {
	t.Parallel()
	values := []queue.MetaValue{{}, queue.StringValue("x"), queue.StringValue("y"), queue.IntValue(1), queue.IntValue(2)} // the first: absent
	needed := 0
	rapid.Check(t, func(t *rapid.T) {
		e, err := ParseExpression(needy(4).Draw(t, "formula"))
		if err != nil {
			t.Fatal(err)
		}
		filters, never := e.Needs(), e.root.needs().never
		needed += len(filters)
		for a := range values {
			for b := range values {
				meta := map[string]queue.MetaValue{}
				if a > 0 {
					meta["a"] = values[a]
				}
				if b > 0 {
					meta["b"] = values[b]
				}
				score := scoreOf(e, meta)
				for i := range filters {
					value, has := meta[string(filters[i].Key)]
					if score == score && !filters[i].Admits(value, has) {
						t.Fatalf("%s scores %v for %v, which %s leaves out", e, score, meta, &filters[i])
					}
				}
				if score == score && never {
					t.Fatalf("%s scores %v for %v, and is said to skip all", e, score, meta)
				}
			}
		}
	})
	if needed == 0 {
		t.Error("no formula needed anything")
	}
}

// needy draws formulas that often skip by a value of the meta.
func needy(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return rapid.SampledFrom([]string{"1", "skip", "meta.a", `meta("b", 3)`, "skip", "2"}).Draw(t, "number")
		}
		inner := func() string { return needy(depth-1).Draw(t, "inner") }
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return inner()
		case 1:
			return "(" + inner() + ")" + rapid.SampledFrom([]string{"+", "*"}).Draw(t, "operator") + "(" + inner() + ")"
		case 2:
			return "min(" + inner() + ", " + inner() + ")"
		default:
			return "if(" + needyCondition(depth-1).Draw(t, "condition") + ", " + inner() + ", " + inner() + ")"
		}
	})
}

func needyCondition(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth <= 0 || rapid.Bool().Draw(t, "leaf") {
			key := rapid.SampledFrom([]string{"meta.a", "meta.b"}).Draw(t, "key")
			constant := rapid.SampledFrom([]string{`"x"`, `"y"`, "1", "2"}).Draw(t, "constant")
			return key + rapid.SampledFrom([]string{" == ", " != "}).Draw(t, "operator") + constant
		}
		one, two := needyCondition(depth-1).Draw(t, "one"), needyCondition(depth-1).Draw(t, "two")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return "not (" + one + ")"
		case 1:
			return "(" + one + ") and (" + two + ")"
		default:
			return "(" + one + ") or (" + two + ")"
		}
	})
}

// scoreOf is the score of a submission with this meta.
func scoreOf(e *Expression, meta map[string]queue.MetaValue) float64 {
	w := &Window{Rows: 1, Dictionary: []string{"x", "y"}}
	for _, c := range e.Columns() {
		value, has := meta[string(c.Key)]
		values := Values{Words: []uint32{0}}
		if c.IsString() && has && !value.IsInt() {
			values.Words[0] = uint32(strings.Index("xy", value.Text())) + 1
		} else if !c.IsString() {
			values = Values{Numbers: []int64{0}, Present: []bool{has && value.IsInt()}}
			if values.Present[0] {
				values.Numbers[0] = value.Int()
			}
		}
		w.Columns = append(w.Columns, values)
	}
	return e.Eval(w, 0)
}
