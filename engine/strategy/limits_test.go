package strategy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// nest wraps inner into count blocks, outermost first; every %d in block becomes the level, from 0.
func nest(count int, block, inner string) string {
	var open strings.Builder
	for level := range count {
		open.WriteString(strings.ReplaceAll(block, "%d", fmt.Sprint(level)))
	}
	return open.String() + inner + strings.Repeat(")", count)
}

// alternatives is an OrElse of count different branches.
func alternatives(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf(`SelectOnly("a", %d, Random)`, i)
	}
	return "OrElse(" + strings.Join(list, ", ") + ")"
}

func jsonString(text string) string { return string(appendQuoted(nil, text)) }

// The limits are exact: a strategy that reaches one is accepted, and one more is refused.
func TestLimits(t *testing.T) {
	t.Parallel()
	const wrap = `MaxSimultaneous("k%d", 1, `
	many := func(count int) string { // count blocks, two levels
		return "OrElse(" + strings.TrimSuffix(strings.Repeat("Random, ", count-1), ", ") + ")"
	}
	for _, c := range []struct {
		name, good, bad string
		want            errorCase
	}{
		{"depth", nest(MaxDepth-1, wrap, "Random"), nest(MaxDepth, wrap, "Random"), errorCase{"", pointer, "the strategy nests deeper than 32 blocks"}},
		{"depth of more than the input can be parsed", nest(2, wrap, "Random"), nest(2000, "OrElse(", "Random"), errorCase{"", pointer, "the strategy nests deeper than 32 blocks"}},
		{"nodes", many(MaxNodes), many(MaxNodes + 1), errorCase{"", pointer, "the strategy has more than 128 blocks"}},
		{"nodes of alternatives", alternatives(MaxBranches - 1), alternatives(MaxBranches + 1), errorCase{"", pointer, "has more than 128 blocks"}},
		{"doubling", nest(6, `PreferDistinct("k%d", 1, `, "Random"), nest(7, `PreferDistinct("k%d", 1, `, "Random"), errorCase{"", pointer, "normalises to more than 64 branches"}},
		{"doubling to the full depth", nest(MaxDepth-1, `PreferDistinct("k", 1%d, `, "Random"), nest(MaxDepth-1, `PreferDistinct("k%d", 1, `, "Random"), errorCase{"", pointer, "normalises to more than 64 branches"}},
		{"bytes", "Random" + strings.Repeat(" ", MaxBytes-len("Random")), "Random" + strings.Repeat(" ", MaxBytes-len("Random")+1), errorCase{"", pointer, "has 65537 bytes (as it was sent or in canonical form); at most 65536 bytes are allowed: use fewer"}},
		{"key", `SelectOnly("` + longKey[1:] + `", 1, Random)`, `SelectOnly("` + longKey + `", 1, Random)`, errorCase{"", pointer, "has a key of 65 bytes"}},
		{"value", `SelectOnly("k", "` + longValue[1:] + `", Random)`, `SelectOnly("k", "` + longValue + `", Random)`, errorCase{"", pointer, "found 257"}},
		{"max", `MaxSimultaneous("k", 2147483647, Random)`, `MaxSimultaneous("k", 2147483648, Random)`, errorCase{"", pointer, "found 2147483648"}},
		{"integers", `OrElse(SelectOnly("k", 9223372036854775807, Random), SelectOnly("k", -9223372036854775808, Random))`, `SelectOnly("k", 9223372036854775808, Random)`, errorCase{"", pointer, "found 9223372036854775808"}},
	} {
		if _, err := Parse(c.good); err != nil {
			t.Errorf("%s: Parse(%s): %v", c.name, clip(c.good), err)
		}
		_, err := Parse(c.bad)
		c.want.input = c.bad
		c.want.check(t, c.name+": Parse", err)
	}
}

// Pieces in the text form inside JSON count towards the same limits as the JSON around them.
func TestLimitsAcrossForms(t *testing.T) {
	t.Parallel()
	wrapJSON := func(count int, inner string) string {
		return strings.Repeat(`{"type":"max_simultaneous","meta_field":"k","max":1,"underlying":`, count) + inner + strings.Repeat("}", count)
	}
	text := func(count int) string { return jsonString(nest(count, `MaxSimultaneous("k", 1, `, "Random")) }
	good := wrapJSON(20, text(11))
	if _, err := ParseJSON([]byte(good)); err != nil {
		t.Errorf("ParseJSON(%s): %v", good, err)
	}
	pair := func(count int) string {
		return strings.Repeat(`{"type":"or_else","try_first":"random","fallback":`, count) + `"random"` + strings.Repeat("}", count)
	}
	list := func(count int) string {
		return strings.Repeat(`{"type":"or_else","branches":["random",`, count) + `"random"` + strings.Repeat("]}", count)
	}
	for _, good := range []string{pair(MaxDepth - 1), list(MaxDepth - 1)} {
		if _, err := ParseJSON([]byte(good)); err != nil {
			t.Errorf("ParseJSON(%s): %v", good, err)
		}
	}
	deep := strings.Repeat("/underlying", 20)
	for _, c := range []errorCase{
		{wrapJSON(20, text(12)), pointer + deep, "is wrong at line 1, column 289: the strategy nests deeper than 32 blocks"},
		{wrapJSON(32, `"random"`), pointer + strings.Repeat("/underlying", 32), "nests deeper than 32 blocks"},
		{wrapJSON(64, `"random"`), pointer + strings.Repeat("/underlying", 32), "nests deeper than 32 blocks"},
		{wrapJSON(maxJSONNesting+1, `"random"`), pointer + strings.Repeat("/underlying", maxJSONNesting), "nests deeper than 32 blocks"},
		{pair(MaxDepth), pointer + strings.Repeat("/fallback", 31) + "/try_first", "nests deeper than 32 blocks"},
		{list(MaxDepth), pointer + strings.Repeat("/branches/1", 31) + "/branches/0", "nests deeper than 32 blocks"},
		{strings.Repeat(`{"":`, 10000), pointer + strings.Repeat("/", maxJSONNesting), "nests deeper than 32 blocks"},
		{strings.Repeat("[", 60000), pointer + strings.Repeat("/0", maxJSONNesting), "nests deeper than 32 blocks"},
		{`{"type":"or_else","branches":[` + strings.Repeat(`"random",`, 127) + `"random"]}`, pointer + "/branches/127", "has more than 128 blocks"},
		{`{"type":"or_else","branches":[` + strings.Repeat(`"OrElse(Random, Random)",`, 42) + `"Random","Random"]}`, pointer + "/branches/43", "the strategy has more than 128 blocks"},
		{strings.Repeat(" ", MaxBytes+1), pointer, "has 65537 bytes"},
		{jsonString(nest(7, `PreferDistinct("k%d", 1, `, "Random")), pointer, "normalises to more than 64 branches"},
	} {
		_, err := ParseJSON([]byte(c.input))
		c.check(t, "ParseJSON", err)
	}
}

// An accepted strategy is accepted again in canonical form, also where that is much longer than the text that
// was sent.
func TestLimitOfCanonicalForm(t *testing.T) {
	t.Parallel()
	sent := func(count int) string {
		value := strings.Repeat("\x7f", queue.MaxMetaValueBytes) // six bytes each when written canonically
		return "OrElse(" + strings.TrimSuffix(strings.Repeat(`SelectOnly("k", "`+value+`", Random), `, count), ", ") + ")"
	}
	if s, err := Parse(sent(30)); err != nil {
		t.Errorf("30 alternatives: %v", err)
	} else if _, err := Parse(s.String()); err != nil {
		t.Errorf("30 alternatives, canonical: %v", err)
	}
	_, err := Parse(sent(60))
	errorCase{sent(60), pointer, "in canonical form); at most 65536 bytes are allowed"}.check(t, "Parse", err)
}

// The number of branches is exact however large the lists are that a naive normaliser would build on the way.
func TestBranchesWithoutBlowUp(t *testing.T) {
	t.Parallel()
	const pairs = 15
	for _, c := range []struct {
		name, input string
		want        int
	}{
		{"limits outside make all alike", nest(pairs, `MaxSimultaneous("k%d", 1, `, nest(pairs, `PreferDistinct("k%d", 2, `, "Random")), 1},
		{"limits inside make all alike", nest(pairs, `PreferDistinct("k%d", 2, `, nest(pairs, `MaxSimultaneous("k%d", 1, `, "Random")), 1},
		{"one key makes steps", nest(31, `PreferDistinct("k", 1%d, `, "Random"), 32},
		{"a contradiction removes what is inside", `SelectOnly("a", 1, SelectOnly("a", 2, ` + nest(28, `PreferDistinct("k%d", 2, `, "Random") + "))", 0},
		{"a contradiction far outside", `SelectOnly("a", 1, OrElse(Random, ` + nest(25, `PreferDistinct("k%d", 2, `, `SelectOnly("a", 2, Random)`) + "))", 1},
		{"twins in many places", "OrElse(" + strings.TrimSuffix(strings.Repeat(nest(5, `PreferDistinct("k%d", 1, `, "Random")+", ", 20), ", ") + ")", 32},
		{"all alternatives", alternatives(63), 63},
		{"exactly the limit", `PreferDistinct("k", 1, ` + alternatives(32) + ")", 64},
	} {
		s, err := Parse(c.input)
		if err != nil {
			t.Errorf("%s: %v, input %s", c.name, err, c.input)
			continue
		}
		if got := len(s.Plan().Branches); got != c.want {
			t.Errorf("%s: got %d branches, want %d; input %s", c.name, got, c.want, c.input)
		}
	}
	_, err := Parse(`OrElse(PreferDistinct("k", 1, ` + alternatives(32) + "), OldestFirst)")
	errorCase{"one branch too many", pointer, "normalises to more than 64 branches"}.check(t, "Parse", err)
}
