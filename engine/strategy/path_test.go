package strategy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every branch has a path to it.
func TestPathText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Random": "Random",
		`OrElse(SelectOnly("mode", "preview", Random), MaxSimultaneous("company", 5, OldestFirst))`: `OrElse[0] > SelectOnly(mode="preview") > Random
OrElse[1] > MaxSimultaneous(company<5) > OldestFirst`,
		`PreferDistinct("company", 3, Fair("site", Random))`: `PreferDistinct(company<3, soft limit) > Fair(site) > Random
PreferDistinct(company<3, beyond it) > Fair(site) > Random`,
		// The inner soft limit is beyond the outer one too: equal branches appear once, with the first way to them.
		`PreferDistinct("a", 2, PreferDistinct("a", 1, Random))`: `PreferDistinct(a<2, soft limit) > PreferDistinct(a<1, soft limit) > Random
PreferDistinct(a<2, soft limit) > PreferDistinct(a<1, beyond it) > Random
PreferDistinct(a<2, beyond it) > PreferDistinct(a<1, beyond it) > Random`,
		`OrElse(SelectOnly("a", 1, SelectOnly("a", 2, Random)), Random, OrElse(Random, NewestFirst))`: `OrElse[1] > Random
OrElse[2] > OrElse[1] > NewestFirst`,
		`Fair("a", time, OrElse(SelectOnly("b", 1, Random), Fair("c", PreferDistinct("d", 2, OldestFirst))))`: `Fair(a, time) > OrElse[0] > SelectOnly(b=1) > Random
Fair(a, time) > OrElse[1] > Fair(c) > PreferDistinct(d<2, soft limit) > OldestFirst
Fair(a, time) > OrElse[1] > Fair(c) > PreferDistinct(d<2, beyond it) > OldestFirst`,
		// The preference is for all that is inside of it, and alternatives that it makes alike are one.
		`PreferDistinct("a", 1, Fair("b", PreferDistinct("a", 2, Random)))`: `PreferDistinct(a<1, soft limit) > Fair(b) > PreferDistinct(a<2, soft limit) > Random
PreferDistinct(a<1, beyond it) > Fair(b) > PreferDistinct(a<2, soft limit) > Random
PreferDistinct(a<1, beyond it) > Fair(b) > PreferDistinct(a<2, beyond it) > Random`,
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, leaf := range s.Plan().Leaves() {
			got = append(got, s.Plan().PathText(&leaf))
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s:\ngot:\n%s\nwant:\n%s", text, strings.Join(got, "\n"), want)
		}
	}
}

// The blocks on the way to a branch make it: its order is the last block, its filters and the least of its limits are those of
// the blocks before, and each block stands inside of the one before it.
func TestPathsMakeTheirBranches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		root := anyBlock(5).Draw(t, "strategy")
		plan, err := compile(root)
		if err != nil {
			t.Skip(err)
		}
		plan = plan.Unscored()
		nodes := plan.Nodes()
		if len(nodes) != count(root) || plan.Text() != string(appendText(nil, root)) {
			t.Fatalf("%d nodes of %s, want %d of %s", len(nodes), plan.Text(), count(root), appendText(nil, root))
		}
		leaves := plan.Leaves()
		for i := range leaves {
			leaf := &leaves[i]
			var within demands
			path, parent := plan.Path(leaf), -1
			text := ""
			for _, step := range path {
				n := &nodes[step.Node]
				if n.Parent != parent || parent >= 0 && n.After > nodes[parent].After {
					t.Fatalf("branch %d of %s: the path %v goes from %d to %d, whose parent is %d", i, plan.Text(), path, parent, step.Node, n.Parent)
				}
				parent = step.Node
				if n.Filter.Key != "" {
					within, _ = within.filtered(n.Filter)
				}
				for _, need := range needsOf(t, n) {
					within, _ = within.filtered(need)
				}
				switch {
				case n.Block == preferDistinctDefinition.name && !n.Soft:
					key, missing, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(n.Text, "PreferDistinct("), ")"), ", missing=")
					within.fewest, within.missing = key, Missing(max(0, slices.Index(missings[:], missing)))
				case n.Block != preferDistinctDefinition.name || step.Way == withinSoftLimit:
					for _, l := range n.Limits {
						within = within.limited(l)
					}
				}
				switch {
				case n.Fair != "":
					text += "Fair " + n.Fair + " "
					if n.Cost == ByTime {
						text += "by time "
					}
				}
			}
			last := nodes[parent].Block
			order := Order(slices.Index(orders[:], last))
			made := within.branch(order)
			if text += made.Key(); text != leaf.Text() {
				t.Fatalf("leaf %d of %s is %s, its path %s makes %s", i, plan.Text(), leaf.Text(), plan.PathText(leaf), text)
			}
			br := &plan.Branches[leaf.Of]
			for level, k := range leaf.Arms {
				if br != leaf.Around[level] {
					t.Fatalf("leaf %d of %s is not inside of %s", i, plan.Text(), leaf.Around[level].Key())
				}
				br = &br.Inner[k]
			}
			first := i > 0 && leaves[i-1].Of == leaf.Of
			if br != leaf.Branch || first && leaf.Number != leaves[i-1].Number+1 || !first && leaf.Number != 0 {
				t.Fatalf("leaf %d of %s is number %d of branch %d by %v, which does not lead to it", i, plan.Text(), leaf.Number, leaf.Of, leaf.Arms)
			}
		}
	})
}

// Nodes point into the canonical JSON.
func TestNodes(t *testing.T) {
	t.Parallel()
	s, err := Parse(`OrElse(SelectOnly("mode", "x", Random), Fair("a", MaxSimultaneous("b", 2, OldestFirst)), OrElse(Random, NewestFirst))`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, n := range s.Plan().Nodes() {
		got = append(got, fmt.Sprint(i, " ", n.Parent, " ", n.After, " ", n.Pointer, " ", n.Text))
	}
	want := `0 -1 9 /strategy OrElse
1 0 3 /strategy/branches/0 SelectOnly(mode="x")
2 1 3 /strategy/branches/0/underlying Random
3 0 6 /strategy/branches/1 Fair(a)
4 3 6 /strategy/branches/1/underlying MaxSimultaneous(b<2)
5 4 6 /strategy/branches/1/underlying/underlying OldestFirst
6 0 9 /strategy/branches/2 OrElse
7 6 8 /strategy/branches/2/try_first Random
8 6 9 /strategy/branches/2/fallback NewestFirst`
	if strings.Join(got, "\n") != want {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
}

// needsOf are the filters that the formula of a Score needs: its leaves have them, though no block of the text says them.
func needsOf(t *rapid.T, n *Node) []Filter {
	formula, is := strings.CutSuffix(n.Text, ")")
	if n.Block != "Score" || !is {
		return nil
	}
	s, err := Parse(formula + ", Random)")
	if err != nil {
		t.Fatalf("%s is no formula: %v", n.Text, err)
	}
	return s.root.(*scoredBlock).scored.Expression.Needs()
}
