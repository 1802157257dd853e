package simtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
)

// During the restart grace a preview and an explain foresee the chunks that a reserve hands out, why names the grace as the reason
// that keeps the rest back, and all three say until when. Nothing of it is left when the grace is over.
func TestQuestionsDuringGrace(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.RestartGrace = 30 * time.Second
	b := openBox(t, settings)
	limited := mustInsert(t, b, prefixed(4, number("company", 1)))
	free := mustInsert(t, b, prefixed(3))
	withheld := mustInsert(t, b, prefixed(2, number("owner", 9)))
	one := queue.NoSettings()
	one.Limit = 1
	b.setValue(number("owner", 9), one)
	b.crashed(time.Hour)
	until := b.clock.now().Add(30 * time.Second)
	const (
		simple  = `MaxSimultaneous("company", 2, OldestFirst)`
		orElse  = `OrElse(MaxSimultaneous("company", 2, OldestFirst), MaxSimultaneous("company", 3, OldestFirst), NewestFirst)`
		prefers = `PreferDistinct("company", 1, OldestFirst)`
		nested  = `Fair("company", OrElse(MaxSimultaneous("company", 1, OldestFirst), OldestFirst))`
	)
	all := []string{simple, orElse, prefers, nested, "OldestFirst"}
	for _, text := range all {
		p := plan(t, text)
		found, grace, err := b.shard.Inspect.Preview(ctx, []*strategy.Plan{p}, &inspect.Question{Max: 5, Seed: 1})
		if err != nil || grace != until {
			t.Fatalf("%s: the preview says until %d, %v; want %d", text, grace, err, until)
		}
		x, err := b.shard.Inspect.Explain(ctx, p, &inspect.Question{Max: 5, Seed: 1})
		if err != nil || x.Grace != until {
			t.Fatalf("%s: the explanation says until %d, %v; want %d", text, x.Grace, err, until)
		}
		if len(x.Picks) != len(found[0].Picks) {
			t.Fatalf("%s: %d chunks are explained, %d foreseen", text, len(x.Picks), len(found[0].Picks))
		}
		var foreseen, explained, got []string
		leaves := p.Leaves()
		for i, pick := range found[0].Picks {
			foreseen = append(foreseen, fmt.Sprint(pick.Submission, "/", pick.Index))
			explained = append(explained, fmt.Sprint(x.Picks[i].Submission, "/", x.Picks[i].Index))
			if x.Picks[i].Leaf != pick.Leaf || pick.Submission == limited.ID && len(leaves[pick.Leaf].Limits) > 0 {
				t.Errorf("%s: chunk %s is foreseen by leaf %d, explained by %d, which has the limits %v", text, foreseen[i], pick.Leaf, x.Picks[i].Leaf, leaves[pick.Leaf].Limits)
			}
			for j, w := range x.Picks[i].Skipped {
				if pick.Submission == limited.ID && w.Obstacle != queue.ObstacleGrace {
					t.Errorf("%s: leaf %d did not give %s for obstacle %d, want the grace", text, j, foreseen[i], w.Obstacle)
				}
			}
		}
		held := mustReserve(t, b, text, 5)
		var items []queue.ReleaseItem
		for _, r := range held {
			got = append(got, fmt.Sprint(r.Token.Submission, "/", r.Token.Index))
			items = append(items, queue.ReleaseItem{Token: r.Token})
		}
		if !slices.Equal(foreseen, got) || !slices.Equal(explained, got) || len(got) == 0 {
			t.Errorf("%s: a reserve hands out %v, foreseen are %v and explained %v", text, got, foreseen, explained)
		}
		if _, err := b.shard.Release(ctx, items, nil); err != nil {
			t.Fatal(err)
		}
	}
	why := func(text string, id queue.SubmissionID) inspect.Why {
		t.Helper()
		w, err := b.shard.Inspect.Why(ctx, id, 0, plan(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := why(`OrElse(SelectOnly("company", 1, MaxSimultaneous("company", 2, OldestFirst)), NewestFirst)`, limited.ID)
	if w.Grace != until || w.Leaves[0].Obstacle != queue.ObstacleGrace || w.Leaves[0].Until != until || w.Leaves[0].Limit.Max != 2 || w.Leaves[1].Obstacle != queue.NoObstacle {
		t.Errorf("why not chunk 0 under a limit: got %+v, want the grace until %d in branch 1, and nothing in 2, as 1 gives nothing", w, until)
	}
	if w := why(simple, free.ID); w.Leaves[0].Obstacle != queue.NoObstacle || w.Grace != until {
		t.Errorf("why not what no limit counts: got %+v, want no obstacle", w)
	}
	if w := why("OldestFirst", withheld.ID); w.Leaves[0].Obstacle != queue.ObstacleGrace || w.Leaves[0].Until != until || w.Leaves[0].Limit.Key != "owner" || w.Leaves[0].Limit.Max != 1 {
		t.Errorf("why not a value with an operator's limit: got %+v, want the grace", w)
	}
	x, err := b.shard.Inspect.Explain(ctx, plan(t, simple), &inspect.Question{Max: 5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := x.Tree[0]; n.Refused.Chunks != 4 || n.Passed.Chunks != 3 || x.Withheld.Refused.Chunks != 2 || *x.Withheld.Top[0].Max != 1 {
		t.Errorf("explained: got %+v withheld %+v, want 4 chunks refused, 3 passed, 2 withheld by a limit of 1", n, x.Withheld)
	}
	b.tickAfter(30 * time.Second)
	for _, text := range all {
		x, err := b.shard.Inspect.Explain(ctx, plan(t, text), &inspect.Question{Max: 5, Seed: 1})
		if w := why(text, limited.ID); err != nil || x.Grace != 0 || w.Grace != 0 || w.Leaves[0].Obstacle == queue.ObstacleGrace {
			t.Errorf("%s, when it is over: got %+v, explained until %d %v; want nothing of a grace", text, w, x.Grace, err)
		}
	}
}
