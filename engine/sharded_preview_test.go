package engine

import (
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// picksBy makes what a shard would hand out: a pick for each id, by one branch of a plan.
func picksBy(branch int, ids ...queue.SubmissionID) (list []Previewed) {
	for _, id := range ids {
		list = append(list, Previewed{Submission: id, Leaf: branch})
	}
	return list
}

// The previews of shards are merged branch by branch, in the order of each branch. Behind the end of a list that had no room for more, no
// one knows what comes first.
func TestForeseenIsMerged(t *testing.T) {
	t.Parallel()
	parsed, err := strategy.Parse(`OrElse(SelectOnly("a", 1, OldestFirst), NewestFirst)`)
	if err != nil {
		t.Fatal(err)
	}
	first := ForeseenIn{Picks: append(picksBy(0, 7, 9), picksBy(1, 30)...)}
	second := ForeseenIn{Picks: append(picksBy(0, 8, 8), picksBy(1, 40, 20)...)}
	cut := second
	cut.Cut = true
	later := ForeseenIn{Picks: picksBy(5, 1)} // a node that knows other branches
	for name, c := range map[string]struct {
		shards []ForeseenIn
		most   int
		want   []int
	}{
		"all":           {[]ForeseenIn{first, second}, 100, []int{0, 1, 1, 0, 1, 0, 1}},
		"few":           {[]ForeseenIn{first, second}, 3, []int{0, 1, 1}},
		"cut":           {[]ForeseenIn{first, cut}, 100, []int{0, 1, 1, 0, 1, 0, 1}},
		"cut early":     {[]ForeseenIn{first, {Picks: cut.Picks[:1], Cut: true}}, 100, []int{0, 1}},
		"nothing":       {[]ForeseenIn{{}, {}}, 100, nil},
		"other version": {[]ForeseenIn{later, first}, 100, []int{1, 1, 1}},
	} {
		if got := MergeForeseen(parsed.Plan(), c.shards, c.most, 1); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
