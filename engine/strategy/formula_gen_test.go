package strategy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

func formula(t testing.TB, text string) *Expression {
	t.Helper()
	e, err := ParseExpression(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// anyScored draws the demand of a Plugin or Score block.
var anyScored = rapid.Custom(func(t *rapid.T) *Scored {
	s := &Scored{Explore: rapid.SampledFrom([]int{DefaultExplore, 0, 1, MaxExplore}).Draw(t, "explore")}
	if rapid.Bool().Draw(t, "plugin") {
		s.Plugin = rapid.SampledFrom([]string{"p", "deadline-first"}).Draw(t, "name")
		s.Version = rapid.SampledFrom([]string{"", "", "1.2.0", "1.0.0-rc.1", "0badcafe"}).Draw(t, "version")
		config := rapid.SampledFrom([]string{"", "", "{}", `{"a":[1,-2.5,true,null],"b":{"":"é\"\\"}}`}).Draw(t, "config")
		if config != "" {
			s.Config = json.RawMessage(config)
		}
		s.Window = rapid.SampledFrom([]int{0, MinWindow, 256, MaxWindow}).Draw(t, "window")
		return s
	}
	s.Window = rapid.SampledFrom([]int{0, MinWindow, MaxWindow}).Draw(t, "window") // the default is said by 0
	text := anyFormula(3).Draw(t, "formula")
	e, err := ParseExpression(text)
	if err != nil {
		t.Fatalf("the generator wrote %s: %v", text, err)
	}
	s.Expression = e
	return s
})

// anyFormula draws the text of a number, depth terms inside each other.
func anyFormula(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		number := func() string { return anyFormula(depth-1).Draw(t, "number") }
		kinds := 8
		if depth == 1 {
			kinds = 3
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind of number") {
		case 0:
			return rapid.SampledFrom([]string{"0", "1", "2", "3.25", "5m", "1e30", "1e-9", "1.5h", "skip"}).Draw(t, "constant")
		case 1:
			return rapid.SampledFrom([]string{"id", "index", "priority", "age", "age_s", "attempts", "max_attempts", "available", "total", "skipped", "inflight_submission"}).Draw(t, "column")
		case 2:
			return rapid.SampledFrom([]string{`inflight("a")`, `limit("b")`, `limit("c-_.9")`}).Draw(t, "count")
		case 3:
			return rapid.SampledFrom([]string{"meta.a", "meta.b", `meta("c-_.9")`, "context.a", `meta("a", 1)`, `context("zone", -2)`, `meta("b", meta.a)`}).Draw(t, "value")
		case 4:
			return "-(" + number() + ")"
		case 5:
			return "if(" + anyCondition(depth-1).Draw(t, "condition") + ", " + number() + ", " + number() + ")"
		case 6:
			name := rapid.SampledFrom([]string{"min", "max"}).Draw(t, "function")
			return name + "(" + strings.Join(rapid.SliceOfN(anyFormula(depth-1), 2, 4).Draw(t, "terms"), ",") + ")"
		case 7:
			switch name := rapid.SampledFrom([]string{"abs", "floor", "ceil", "sqrt", "clamp"}).Draw(t, "function"); name {
			case "clamp":
				return "clamp(" + number() + ", " + number() + ", " + number() + ")"
			default:
				return name + "(" + number() + ")"
			}
		default:
			return "(" + number() + ")" + rapid.SampledFrom([]string{"+", "-", "*", "/", "%"}).Draw(t, "operator") + "(" + number() + ")"
		}
	})
}

// anyCondition draws the text of a truth.
func anyCondition(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		depth := max(depth, 1)
		kinds := 4
		if depth == 1 {
			kinds = 1
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind of truth") {
		case 0:
			return rapid.SampledFrom([]string{
				`meta.a == "x"`, `"y" != meta.b`, `context.mode == meta.a`, `meta.a != meta.b`, `context.mode == ""`, `context.a == context.b`,
			}).Draw(t, "comparison of values")
		case 1:
			number := anyFormula(depth)
			return number.Draw(t, "left") + rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="}).Draw(t, "operator") + coerced(number.Draw(t, "right"))
		case 2:
			return "not (" + anyCondition(depth-1).Draw(t, "truth") + ")"
		case 3:
			return "if(" + strings.Join(rapid.SliceOfN(anyCondition(depth-1), 3, 3).Draw(t, "truths"), ", ") + ")"
		default:
			return "(" + anyCondition(depth-1).Draw(t, "left") + ")" + rapid.SampledFrom([]string{" and ", " or "}).Draw(t, "operator") + "(" + anyCondition(depth-1).Draw(t, "right") + ")"
		}
	})
}

// coerced makes sure that a comparison is one of numbers.
func coerced(text string) string { return "(" + text + ")+0" }

// spellFormula writes a term with white space and parentheses at random.
func spellFormula(t *rapid.T, term *Term, rank int) string {
	space := func() string { return rapid.SampledFrom([]string{"", " ", "\n "}).Draw(t, "space") }
	if term.rank() < rank || rapid.IntRange(0, 7).Draw(t, "parentheses") == 0 {
		return "(" + space() + spellFormula(t, term, term.rank()) + space() + ")"
	}
	var parts []string
	for _, inner := range term.Terms {
		parts = append(parts, space()+spellFormula(t, inner, orRank)+space())
	}
	switch o, joined := operatorOf(term.Op); {
	case joined:
		return spellFormula(t, term.Terms[0], o.rank+1) + " " + o.text + " " + spellFormula(t, term.Terms[1], o.rank+1)
	case term.Op == OpNegate:
		return "-" + space() + spellFormula(t, term.Terms[0], unaryRank)
	case term.Op == OpNot:
		return "not " + spellFormula(t, term.Terms[0], notRank)
	case term.Op == OpText:
		return spellString(t, term.Text)
	case term.key != "" && (term.Op == OpColumn || len(parts) > 0 || rapid.Bool().Draw(t, "call")):
		return term.name + space() + "(" + strings.Join(append([]string{spellString(t, term.key)}, parts...), ",") + ")"
	case len(parts) > 0:
		return term.name + space() + "(" + strings.Join(parts, ",") + ")"
	}
	return string(appendTerm(nil, term, orRank))
}

// spellConfig writes a configuration with its fields in another order and more white space.
func spellConfig(t *rapid.T, config string) string {
	switch {
	case config == "{}" || rapid.Bool().Draw(t, "as it is"):
		return strings.ReplaceAll(config, "{", "{ \n")
	default:
		return `{"b": {"":"\u00e9\"\\"}, "a": [1.0, -25e-1, true , null]}`
	}
}

// score is a scorer's score of a candidate of the world: that of the formula, or for a plugin one that depends on its name.
func (w world) score(s *Scored, c candidate) float64 {
	if s.Expression == nil {
		if n := (c.id*7 + len(s.String())) % 5; n > 0 {
			return float64(n)
		}
		return math.NaN()
	}
	window := &Window{Rows: 1}
	for _, column := range s.Expression.Columns() {
		value, has := c.meta.Find(column.Key)
		values := Values{Numbers: []int64{int64(len(column.Key))}}
		switch column.Property {
		case ID:
			values.Numbers[0] = int64(c.id)
		case Priority:
			values.Numbers[0] = c.priority
		case InFlight:
			values.Numbers[0] = int64(w.inFlight[queue.MetaEntry{Key: column.Key, Value: value}])
		case MetaInt, ContextInt:
			values = Values{Numbers: []int64{value.Int()}, Present: []bool{has}}
		case MetaString, ContextString:
			values = Values{Words: []uint32{0}}
		}
		window.Columns = append(window.Columns, values)
	}
	return s.Expression.Eval(window, 0)
}

// byScore orders a list as one window of it goes.
func (w world) byScore(list []candidate, s *Scored) []candidate {
	var kept []candidate
	for _, c := range list {
		score := w.score(s, c)
		if score == score && !slices.ContainsFunc(kept, func(k candidate) bool { return k.id == c.id }) {
			kept = append(kept, c)
		}
	}
	slices.SortStableFunc(kept, func(a, b candidate) int { return cmp.Compare(w.score(s, b), w.score(s, a)) })
	return kept
}

// guarded adds the implicit fallbacks by their definition: a candidate of a scored branch must be offered by another branch than
// those of the same scorer, before it or after it, where those before it that score count for nothing.
func guarded(list []Branch) (plan []Branch) {
	seen := map[string]bool{}
	keep := func(b Branch) {
		if !seen[b.Key()] {
			seen[b.Key()] = true
			plan = append(plan, b)
		}
	}
	for i, b := range list {
		keep(b)
		if b.Scored == nil {
			continue
		}
		var others []*Branch
		for k := range list {
			if other := &list[k]; other.Scored == nil || k > i && other.Scored.String() != b.Scored.String() {
				other.Leaves(func(leaf *Branch) bool { others = append(others, leaf); return true })
			}
		}
		covered := b.Leaves(func(leaf *Branch) bool {
			return slices.ContainsFunc(others, func(other *Branch) bool { return other.Loosens(leaf) })
		})
		for _, inner := range b.Inner {
			if !covered {
				inner.OnFault, inner.key = true, ""
				keep(inner)
			}
		}
	}
	return plan
}

// When every scorer fails nothing is lost. The plan offers, in some order, exactly the candidates that the strategy would offer
// with the inner strategies in the place of its Plugin and Score blocks, except those that a formula never gives.
func TestFaultsLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		w.faulty = true
		tree := anyBlock(5).Draw(t, "tree")
		plan, err := compile(tree)
		if err != nil {
			t.Skip("too many branches")
		}
		got, want := firstOffers(w.planned(plan)), firstOffers(w.offers(unscored(tree)))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s\nplan:\n%s\ngot %v, want %v; in flight %v", appendText(nil, tree), plan, got, want, w.inFlight)
		}
	})
}

// narrowed is the strategy that a block scores: the inner one, with the filters around it that the block's formula needs.
func narrowed(s *scoredBlock) block {
	inner := s.underlying
	if e := s.scored.Expression; e != nil {
		for _, f := range e.Needs() {
			inner = &selects{"SelectAny", f, inner}
		}
	}
	return inner
}

// unscored is the tree with the inner strategy in the place of each block that scores.
func unscored(b block) block {
	if s, ok := b.(*scoredBlock); ok {
		return narrowed(s)
	}
	args := slices.Clone(b.arguments())
	for i := range args {
		args[i].blocks = slices.Clone(args[i].blocks)
		for j := range args[i].blocks {
			args[i].blocks[j] = unscored(args[i].blocks[j])
		}
	}
	return b.definition().build(args)
}

// The view of an implicit fallback is that of the branch that it repeats.
func TestPlain(t *testing.T) {
	t.Parallel()
	s, err := Parse(`Plugin("p", Fair("k", OldestFirst))`)
	if err != nil {
		t.Fatal(err)
	}
	scored, fallback := &s.Plan().Branches[0], &s.Plan().Branches[1]
	byHand := Branch{Fair: "k", Inner: fallback.Inner, OnFault: true}
	for _, b := range []*Branch{fallback, &byHand} {
		if got := fmt.Sprint(b.Plain().Key(), " ", b.Plain().OnFault, " ", b.Key()); got != "Fair k OldestFirst false Fair k OldestFirst on fault" {
			t.Errorf("got %s", got)
		}
	}
	if fallback.Plain() != &scored.Inner[0] || scored.Plain() != scored {
		t.Errorf("a plain branch is not that which is in the plan")
	}
}
