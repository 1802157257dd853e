package simtest

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
)

// askAll asks every question about a strategy and one chunk. A refusal for lack of room, or because something is gone, is no
// mistake.
func askAll(s *shard.Shard, p *strategy.Plan, id queue.SubmissionID, seed uint64) error {
	const most = inspect.MaxPreview
	both, _, err := s.Inspect.Preview(ctx, []*strategy.Plan{p, p}, &inspect.Question{Max: most, Seed: seed})
	if err != nil {
		return fmt.Errorf("preview: %w", err)
	}
	x, err := s.Inspect.Explain(ctx, p, &inspect.Question{Max: most, Seed: seed})
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if max(len(both[0].Picks), len(both[1].Picks), len(x.Picks)) > most {
		return fmt.Errorf("%d, %d and %d picks, want at most %d", len(both[0].Picks), len(both[1].Picks), len(x.Picks), most)
	}
	for i, n := range x.Tree {
		if n.Passed.Chunks > n.Entered.Chunks || n.Refused.Chunks > n.Entered.Chunks {
			return fmt.Errorf("block %d passes or refuses more than enters: %+v", i, n)
		}
	}
	if d, err := s.Inspect.Diagnose(ctx, number("site", 3), inspect.Asked{Plans: []*strategy.Plan{p}}); err != nil || d.HoldsMet > d.InFlight {
		return fmt.Errorf("diagnose: %d reservations of %d: %w", d.HoldsMet, d.InFlight, err)
	}
	if _, err := s.Inspect.Why(ctx, id, 0, p); err != nil {
		return fmt.Errorf("why: %w", err)
	}
	return nil
}

// For any question and any backlog, one hold of the mutex looks at no more than a bound, so a reserve waits no longer than that.
func TestQuestionsAreSliced(t *testing.T) {
	t.Parallel()
	const submissions, bound = 6000, 1000
	b := openBox(t, relaxed())
	var last queue.SubmissionID
	for i := range submissions {
		last = mustInsert(t, b, prefixed(2, number("company", i), number("site", i%7))).ID
	}
	wide := "OrElse(Random"
	for i := range 40 {
		wide += fmt.Sprintf(`, SelectOnly("site", %d, OldestFirst)`, i)
	}
	wide += ")"
	for _, text := range []string{
		"Random", "OldestFirst",
		`PreferDistinct("company", 1, MaxSimultaneous("site", 3, NewestFirst))`,
		`OrElse(SelectOnly("site", 3, Random), MaxSimultaneous("company", 1, OldestFirst))`,
		`Fair("company", OldestFirst)`, `Fair("$submission", Random)`, wide,
		`Fair("site", OrElse(MaxSimultaneous("company", 1, OldestFirst), Fair("company", time, NewestFirst)))`,
		`Fair("company", Fair("site", Fair("$submission", OldestFirst)))`, `OrElse(Fair("company", Fair("site", OldestFirst)), Random)`,
	} {
		mustReserve(t, b, text, 3)
		if err := askAll(b.shard, plan(t, text), last, 1); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if most := b.shard.Inspect.MostLooks(); most > bound || most < 100 {
			t.Errorf("after questions about %s the longest hold of the mutex looked at %d things, want 100 to %d", text, most, bound)
		}
	}
	for site := range 7 {
		d, err := b.shard.Inspect.Diagnose(ctx, number("site", site), inspect.Asked{Plans: []*strategy.Plan{plan(t, "Random")}})
		if err != nil || d.Met != d.Present || d.Present < submissions/7 {
			t.Errorf("a diagnosis of site=%d looked at %d of %d submissions: %v", site, d.Met, d.Present, err)
		}
	}
	var many []*strategy.Plan // so much that it is about a part, and says so
	for range 10 {
		many = append(many, plan(t, wide))
	}
	d, err := b.shard.Inspect.Diagnose(ctx, number("site", 3), inspect.Asked{Plans: many})
	if most := b.shard.Inspect.MostLooks(); err != nil || d.Met == 0 || d.Met >= d.Present || most > bound {
		t.Errorf("a diagnosis by 410 branches looked at %d of %d submissions, and %d things at once: %v", d.Met, d.Present, most, err)
	}
	x := mustExplain(t, b, "Random", 1)
	if x.Met != x.Shown || x.Shown != submissions {
		t.Errorf("%d of %d submissions were looked at, want all %d", x.Met, x.Shown, submissions)
	}
}

// Of two shards with the same calls, the one that gets questions all the time hands out the same chunks as the other, wherever
// the order decides which: questions take nothing, owe nothing, and move no one in a queue.
func TestQuestionsChangeNothing(t *testing.T) {
	t.Parallel()
	texts := []string{
		"OldestFirst", "NewestFirst", "CustomPriority", `PreferDistinct("company", 2, OldestFirst)`,
		`MaxSimultaneous("company", 3, MaxSimultaneous("site", 4, NewestFirst))`,
		`Fair("company", OldestFirst)`, `Fair("site", MaxSimultaneous("company", 4, NewestFirst))`,
		`OrElse(SelectOnly("site", 1, Fair("$submission", CustomPriority)), OldestFirst)`,
		`Fair("site", OrElse(MaxSimultaneous("company", 1, MaxSimultaneous("site", 2, OldestFirst)), Fair("company", NewestFirst)))`,
		`Fair("company", time, PreferDistinct("site", 1, Fair("$submission", OldestFirst)))`,
	}
	for seed := range uint64(12) {
		r := newRand(seed, 5)
		asked, left := openBox(t, relaxed()), openBox(t, relaxed())
		for _, text := range texts { // so that both have the same books from the start
			mustReserve(t, asked, text, 1)
			mustReserve(t, left, text, 1)
		}
		held := [2][]queue.Reservation{}
		for step := range 120 {
			switch choice := r.IntN(10); {
			case choice < 3:
				n := prefixed(1+r.Uint32N(6), number("company", r.IntN(5)), number("site", r.IntN(3)))
				n.Priority = int64(r.IntN(3))
				mustInsert(t, asked, n)
				mustInsert(t, left, n)
			case choice < 7:
				text, most := texts[r.IntN(len(texts))], 1+r.IntN(4)
				one, other := mustReserve(t, asked, text, most), mustReserve(t, left, text, most)
				if got, want := tokensOf(one), tokensOf(other); got != want {
					t.Fatalf("seed %d, step %d: %s gives %s where questions were asked, %s where none were", seed, step, text, got, want)
				}
				held[0], held[1] = append(held[0], one...), append(held[1], other...)
			case len(held[0]) > 0:
				at, release := r.IntN(len(held[0])), r.IntN(2) == 0
				for i, b := range []*box{asked, left} {
					finishOne(t, b, held[i][at].Token, release)
					held[i] = append(held[i][:at:at], held[i][at+1:]...)
				}
			}
			list, _, err := asked.shard.Submissions.List(ctx, everything, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) > 0 {
				if err := askAll(asked.shard, plan(t, texts[r.IntN(len(texts))]), list[0].ID, uint64(step)); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
		}
		if one, other := asked.shard.Stats(), left.shard.Stats(); one.Ready != other.Ready || one.Reserved != other.Reserved || one.ReservedTotal != other.ReservedTotal {
			t.Errorf("seed %d: the numbers are %+v and %+v", seed, one, other)
		}
	}
}

func tokensOf(list []queue.Reservation) (text string) {
	for i := range list {
		text += fmt.Sprint(" ", list[i].Token.Submission, "/", list[i].Token.Index)
	}
	return text
}

func finishOne(t testing.TB, b *box, token queue.Token, release bool) {
	t.Helper()
	var err error
	if release {
		_, err = b.shard.Release(ctx, []queue.ReleaseItem{{Token: token}}, nil)
	} else {
		_, err = b.shard.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
