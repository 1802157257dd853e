package strategy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// Each kind of warning, at the block that has no effect and at no other.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		input string
		want  []string // kind, pointer, and the beginning of the detail
	}{
		{`OrElse(SelectOnly("mode", "preview", Random), OldestFirst)`, nil},
		{`MaxSimultaneous("company", 5, OrElse(SelectOnly("mode", "preview", OldestFirst), PreferDistinct("company", 1, Random)))`, nil},
		{`PreferDistinct("k", 1, PreferDistinct("k", 2, Random))`, nil},
		{`OrElse(MaxSimultaneous("k", 1, Random), MaxSimultaneous("k", 2, Random))`, nil},
		{`OrElse(SelectOnly("k", 1, Random), SelectOnly("k", "1", Random))`, nil},
		{`SelectOnly("k", 1, SelectOnly("k", 2, Random))`, []string{"offers_nothing /strategy offers nothing", "contradiction /strategy/underlying can never yield"}},
		{`SelectOnly("k", 1, OrElse(SelectOnly("k", "1", Random), Random))`, []string{"contradiction /strategy/underlying/try_first can never yield"}},
		{`SelectOnly("k", 1, MaxSimultaneous("k", 2, SelectOnly("k", 1, Random)))`, []string{"repeated_filter /strategy/underlying/underlying changes nothing"}},
		{`MaxSimultaneous("k", 2, SelectOnly("a", 1, MaxSimultaneous("k", 3, Random)))`, []string{"limit_never_binds /strategy/underlying/underlying never binds: a MaxSimultaneous of 2 around"}},
		{`MaxSimultaneous("k", 2, MaxSimultaneous("k", 2, Random))`, []string{"limit_never_binds /strategy/underlying never binds: a MaxSimultaneous of 2 around"}},
		{`MaxSimultaneous("k", 9, OrElse(MaxSimultaneous("k", 2, Random), MaxSimultaneous("k", 3, Random)))`, []string{"limit_never_binds /strategy never binds: a MaxSimultaneous of at most 3 inside"}},
		{`MaxSimultaneous("k", 9, OrElse(MaxSimultaneous("k", 2, Random), Random))`, nil},
		{`MaxSimultaneous("k", "20%", MaxSimultaneous("k", "20%", Random))`, []string{"limit_never_binds /strategy/underlying never binds: a MaxSimultaneous of 20% around"}},
		{`MaxSimultaneous("k", "20%", MaxSimultaneous("k", "9%", Random))`, []string{"limit_never_binds /strategy never binds: a MaxSimultaneous of at most 9% inside"}},
		{`MaxSimultaneous("k", "20%", MaxSimultaneous("k", 30, Random))`, nil},
		{`MaxSimultaneous("k", 2, PreferDistinct("k", 2, Random))`, []string{"preference_has_no_effect /strategy/underlying prefers nothing: a MaxSimultaneous of 2"}},
		{`PreferDistinct("k", 5, MaxSimultaneous("k", 3, Random))`, []string{"preference_has_no_effect /strategy prefers nothing: a MaxSimultaneous of 3"}},
		{`PreferDistinct("k", 5, SelectOnly("k", 3, Random))`, []string{"preference_has_no_effect /strategy prefers nothing: the filters leave"}},
		{`PreferDistinct("k", 5, SelectOnly("k", 3, OrElse(SelectOnly("a", 1, Random), Random)))`, nil},
		{`OrElse(Random, OldestFirst)`, []string{"hidden /strategy/fallback can never yield: all that it could offer is offered before it, by Random"}},
		{`OrElse(SelectOnly("a", 1, Random), SelectOnly("a", 1, OldestFirst), Random)`, []string{"hidden /strategy/branches/1 can never yield: all that it could offer is offered before it, by Random where a=1"}},
		{`OrElse(MaxSimultaneous("k", 3, Random), SelectOnly("a", 1, MaxSimultaneous("k", 2, Random)))`, []string{"hidden /strategy/fallback can never yield"}},
		{`OrElse(SelectOnly("a", 1, Random), MaxSimultaneous("k", 2, OrElse(SelectOnly("a", 1, Random), Random)))`, []string{"hidden /strategy/fallback/underlying/try_first can never yield"}},
		{`OrElse(MaxSimultaneous("k", 1, Random), PreferDistinct("k", 1, OldestFirst))`, []string{"hidden /strategy has a branch that can never yield, number 2 (OldestFirst while k<1)"}},
		{`OrElse(Plugin("p", Random), Random)`, nil},
		{`OrElse(Plugin("p", Random), Score(id, Random), Random)`, nil},
		{`Plugin("p", OldestFirst)`, nil},
		{`OrElse(Random, Plugin("p", OldestFirst))`, []string{"hidden /strategy/fallback can never yield: all that it could offer is offered before it, by Random"}},
		{`Plugin("p", SelectOnly("k", 1, SelectOnly("k", 1, Random)))`, []string{"repeated_filter /strategy/underlying/underlying changes nothing"}},
		{`Score(5m - 1, OldestFirst)`, []string{"same_scores /strategy changes nothing: its expression reads no column"}},
		{`OrElse(Score(0/0, OldestFirst), Random)`, []string{"contradiction /strategy/try_first can never yield: its score is never a number"}},
		{`PreferDistinct("k", 5, Plugin("p", SelectOnly("k", 3, Random)))`, []string{"preference_has_no_effect /strategy prefers nothing: the filters leave"}},
		{`MaxSimultaneous("k", 2, Score(id, MaxSimultaneous("k", 2, Random)))`, []string{"limit_never_binds /strategy/underlying/underlying never binds"}},
	} {
		s, err := Parse(c.input)
		if err != nil {
			t.Fatalf("%s: %v", c.input, err)
		}
		got, err := s.Warnings()
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: got %v, %v; want %q", c.input, got, err, c.want)
			continue
		}
		for i, w := range got {
			if text := w.Kind + " " + w.Pointer + " " + w.Detail; !strings.HasPrefix(text, c.want[i]) {
				t.Errorf("%s: got %q, want %q", c.input, text, c.want[i])
			}
		}
	}
}

// without is the tree without the block at the path, a list of fields of the canonical JSON: it gives way to the block that it
// wraps, or goes as a whole where it is an alternative that is to go.
func without(b block, path []string, alternative bool) block {
	if len(path) == 0 {
		return b.arguments()[len(b.arguments())-1].blocks[0]
	}
	args := slices.Clone(b.arguments())
	last := len(args) - 1
	at := 0
	switch path[0] {
	case "fallback":
		at = 1
	case "branches":
		path = path[1:]
		at, _ = strconv.Atoi(path[0])
	}
	args[last].blocks = slices.Clone(args[last].blocks)
	if _, isOrElse := b.(*orElse); isOrElse && len(path) == 1 && alternative {
		rest := slices.Delete(args[last].blocks, at, at+1)
		if len(rest) == 1 {
			return rest[0]
		}
		return &orElse{rest}
	}
	args[last].blocks[at] = without(args[last].blocks[at], path[1:], alternative)
	return b.definition().build(args)
}

// tamed is the tree with one of two values in every filter and small limits, so that its blocks get into each other's way.
func tamed(b block) block {
	args := slices.Clone(b.arguments())
	for i := range args {
		args[i].value = queue.IntValue(1 + args[i].value.Int()&1)
		if !args[i].given {
			args[i].max = 1 + args[i].max%4
		}
		args[i].blocks = slices.Clone(args[i].blocks)
		for j := range args[i].blocks {
			args[i].blocks[j] = tamed(args[i].blocks[j])
		}
	}
	return b.definition().build(args)
}

// warned turn any tree into one that certainly has a warning: among those drawn some kinds are so rare that a short run may not meet
// them.
var warned = [...]string{
	`SelectOnly("a", 1, SelectOnly("a", 2, %s))`, `SelectOnly("a", 1, SelectOnly("a", 1, %s))`, `MaxSimultaneous("a", 2, MaxSimultaneous("a", 3, %s))`,
}

// The part that a warning calls without effect has none: without it, any world is offered in the same order.
func TestWarningsAreTrue(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		for i, drawn := range rapid.SliceOfN(anyBlock(6), 100, 100).Draw(t, "trees") {
			s, err := finish(tamed(drawn))
			if err == nil && i < len(warned) {
				s, err = Parse(fmt.Sprintf(warned[i], s))
			} else if err == nil {
				s, err = Parse(s.String())
			}
			if err != nil {
				continue // too many branches, or a burst that is more than the max is now
			}
			warnings, err := s.Warnings()
			if err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			for _, warning := range warnings {
				seen[warning.Kind]++
				if got, want := firstOffers(followed(w, s, warning)), firstOffers(w.offers(s.root)); !slices.Equal(got, want) {
					t.Fatalf("%s: %+v\ngot %v without it, want %v", s, warning, got, want)
				}
			}
		}
	})
	for _, kind := range []string{WarnOffersNothing, WarnContradiction, WarnRepeatedFilter, WarnLimitNeverBind, WarnNoPreference, WarnHidden, WarnSameScores} {
		if seen[kind] == 0 {
			t.Errorf("no tree had a warning of the kind %s: the generator is too tame", kind)
		}
	}
}

// followed is the candidates that are offered without the part that the warning points at.
func followed(w world, s *Strategy, warning Warning) []candidate {
	path := strings.FieldsFunc(strings.TrimPrefix(warning.Pointer, pointer), func(r rune) bool { return r == '/' })
	switch {
	case warning.Kind == WarnOffersNothing:
		return nil
	case warning.Kind == WarnHidden && len(path) == 0:
		return w.offers(s.root) // about one branch of the plan: TestHiddenBranches
	case warning.Kind == WarnContradiction:
		// The innermost alternative around it offers nothing because of it.
		for len(path) > 0 && path[len(path)-1] == "underlying" {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return nil
		}
	}
	return w.offers(without(s.root, path, warning.Kind == WarnHidden || warning.Kind == WarnContradiction))
}

// A branch of the plan that is called hidden is not missed; and when nothing is warned of, no branch covers a later one.
func TestHiddenBranches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := tamed(anyBlock(6).Draw(t, "tree"))
		w := anyWorld.Draw(t, "world")
		s, err := finish(tree)
		if err != nil {
			t.Skip("too many branches")
		}
		warnings, err := s.Warnings()
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		want := firstOffers(w.planned(s.plan))
		for i := range s.plan.Branches {
			if _, hidden := hiddenBy(s.plan.Branches[i:i+1], s.plan.Branches[:i]); !hidden {
				continue
			}
			if len(warnings) == 0 {
				t.Fatalf("%s: branch %d is hidden and no warning says so\n%s", s, i+1, s.plan)
			}
			rest := Plan{Branches: slices.Delete(slices.Clone(s.plan.Branches), i, i+1)}
			if got := firstOffers(w.planned(&rest)); !slices.Equal(got, want) {
				t.Fatalf("%s: got %v without branch %d, want %v\n%s", s, got, i+1, want, s.plan)
			}
		}
	})
}

// A name is an object of one field; everything else is left to ParseJSON, or refused where it is meant as a name.
func TestParseName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		input, name string
		ok          bool
		pointer     string // of the refusal
	}{
		{`{"name":"nightly"}`, "nightly", true, ""},
		{` { "name" : "" } `, "", true, ""},
		{`"Random"`, "", false, ""},
		{`{"type":"random"}`, "", false, ""},
		{`{"type":"random","name":"x"}`, "", false, ""},
		{`{"name":`, "", false, ""},
		{``, "", false, ""},
		{`["name"]`, "", false, ""},
		{`{"name":5}`, "", true, "/strategy/name"},
		{`{"name":null}`, "", true, "/strategy/name"},
		{`{"name":"a","version":1}`, "", true, "/strategy/version"},
	} {
		name, ok, err := ParseName([]byte(c.input))
		if name != c.name || ok != c.ok || (err != nil) != (c.pointer != "") {
			t.Errorf("ParseName(%s) = %q, %v, %v; want %q, %v and a refusal of %q", c.input, name, ok, err, c.name, c.ok, c.pointer)
		}
		if c.pointer != "" {
			errorCase{c.input, c.pointer, ""}.check(t, "ParseName", err)
		}
	}
}
