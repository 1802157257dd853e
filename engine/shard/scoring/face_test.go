package scoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/strategy"
)

// scorer scores with a Go function: the use of scores does not depend on their origin.
type scorer struct {
	absent, spread bool
	most           int // rows; 0: as many as the block says
	score          func(w *strategy.Window, scores []float64) error
}

func (s *scorer) Check(context.Context, *strategy.Scored) (*strategy.Unavailable, error) {
	return nil, nil
}
func (s *scorer) Scorer(*strategy.Scored) (strategy.Scorer, bool) { return s, !s.absent }
func (s *scorer) Dry(*strategy.Scored) (strategy.Scorer, error)   { return s, nil }
func (s *scorer) Reads() []strategy.Column {
	return []strategy.Column{{Property: strategy.MetaInt, Key: "rank"}, {Property: strategy.Skipped}}
}
func (s *scorer) Rows() (normal, most int) {
	if s.most > 0 {
		return s.most, s.most
	}
	return strategy.DefaultWindow, strategy.MaxWindow
}
func (s *scorer) Spread() bool { return s.spread }
func (s *scorer) Score(_ context.Context, w *strategy.Window, scores []float64) error {
	return s.score(w, scores)
}

// byRank scores by the integer "rank" of a submission.
func byRank(score func(rank int64) float64) func(*strategy.Window, []float64) error {
	return func(w *strategy.Window, scores []float64) error {
		for i := range scores {
			scores[i] = score(w.Columns[0].Numbers[i])
		}
		return nil
	}
}

func identity(rank int64) float64 { return float64(rank) }

// game is a shell with scoring, and the one scorer.
type game struct {
	*shelltest.Shell
	*Scoring
	part   *Part
	scorer *scorer
	stale  error
}

func open(t *testing.T, score func(*strategy.Window, []float64) error) *game {
	t.Helper()
	s := shelltest.New(t)
	g := &game{Shell: s, part: New(s.Machine), scorer: &scorer{score: score}}
	door := shell.Door[*Part]{Shell: s, Queue: s.Queue(), Part: func() *Part { return g.part }}
	g.Scoring = Face(door, g.scorer, views.New(s, views.NewMemory(1<<30)), func(*machine.Request) error { return g.stale })
	return g
}

// insert inserts submissions of so many chunks, one of each rank, in this order.
func (g *game) insert(chunks uint32, ranks ...int64) {
	g.T.Helper()
	for _, rank := range ranks {
		g.Insert(&queue.NewSubmission{Meta: queue.Meta{{Key: "company", Value: queue.IntValue(rank % 2)}, {Key: "rank", Value: queue.IntValue(rank)}},
			Chunks: queue.Chunks{Count: chunks, Prefix: "p/"}})
	}
}

// pick is the ranks of the chunks that a strategy picks, or the error.
func (g *game) pick(text string, most int) (ranks []int64, err error) {
	g.T.Helper()
	parsed, err := strategy.Parse(text)
	if err != nil {
		g.T.Fatal(err)
	}
	var got []machine.Pick
	err = g.Pick(g.T.Context(), &machine.Request{Plan: parsed.Plan(), Max: most, Consumer: "c"}, &got)
	for i := range got {
		rank, _ := got[i].Meta.Find("rank")
		ranks = append(ranks, rank.Int())
	}
	return ranks, err
}

func (g *game) want(text string, most int, want ...int64) {
	g.T.Helper()
	if got, err := g.pick(text, most); err != nil || !slices.Equal(got, want) {
		g.T.Errorf("%s gives %v, %v; want %v", text, got, err, want)
	}
}

const best = `Plugin("p", OldestFirst)`

// Larger scores go first, equal ones in the inner order, infinities are scores like others. NaN is left out, but an explicit next branch
// may give it.
func TestInOrderOfScores(t *testing.T) {
	t.Parallel()
	scores := map[int64]float64{0: 5, 1: math.Inf(-1), 2: math.NaN(), 3: 5, 4: math.Inf(1), 5: -7}
	for text, want := range map[string][]int64{
		best:                                                 {4, 0, 3, 5, 1},
		`Plugin("p", NewestFirst)`:                           {4, 3, 0, 5, 1},
		`OrElse(` + best + `, NewestFirst)`:                  {4, 0, 3, 5, 1, 2},
		`SelectOnly("rank", 3, ` + best + `)`:                {3},
		`SelectOnly("rank", 2, ` + best + `)`:                nil,
		`OrElse(SelectOnly("rank", 5, Random),` + best + `)`: {5, 4, 0, 3, 1},
	} {
		g := open(t, byRank(func(rank int64) float64 { return scores[rank] }))
		g.insert(1, 0, 1, 2, 3, 4, 5)
		g.want(text, 10, want...)
	}
}

// A scorer that does not spread has all chunks of its best candidate taken, one that does has one chunk of each taken before a second.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		spread bool
		want   []int64
	}{{false, []int64{3, 3, 2, 2, 1}}, {true, []int64{3, 2, 1, 3, 2}}} {
		g := open(t, byRank(identity))
		g.scorer.spread = x.spread
		g.insert(2, 1, 2, 3)
		g.want(best, 5, x.want...)
	}
}

// Of so many chunks one is of the oldest candidate, whatever its score. That counts from one call to the next.
func TestExplore(t *testing.T) {
	t.Parallel()
	g := open(t, byRank(identity))
	g.insert(9, 1, 2, 3)
	for _, want := range []int64{3, 3, 1, 3, 3, 1} {
		g.want(`Plugin("p", explore=3, OldestFirst)`, 1, want)
	}
}

// Without a scorer, or with one that fails, a branch gives the chunks of its inner order, or those of the next branch.
// The caller does not hear of a fault. If its context ends, nothing stays picked.
func TestFaults(t *testing.T) {
	t.Parallel()
	fails := func(*strategy.Window, []float64) error { return errors.New("out of fuel") }
	g := open(t, fails)
	g.insert(1, 1, 2, 3, 4, 5)
	g.want(best, 1, 1)
	g.want(`OrElse(Plugin("p", OldestFirst), NewestFirst)`, 1, 5)
	g.scorer.absent = true
	g.want(best, 1, 2)
	if work := g.Work()[pluginKind]; work.Examined != 0 {
		t.Errorf("windows that were not scored count: %+v", work)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g.scorer.absent, g.scorer.score = false, func(*strategy.Window, []float64) error {
		cancel()
		return ctx.Err()
	}
	parsed, err := strategy.Parse(`OrElse(SelectOnly("rank", 3, Random), Plugin("p", OldestFirst))`)
	if err != nil {
		t.Fatal(err)
	}
	held, woken, got := g.Machine.Holds.Len(), g.Woken, []machine.Pick(nil)
	err = g.Pick(ctx, &machine.Request{Plan: parsed.Plan(), Max: 2, Consumer: "c"}, &got)
	if !errors.Is(err, context.Canceled) || len(got) != 0 || g.Machine.Holds.Len() != held || g.Woken == woken {
		t.Errorf("%v, %d picks, %d held after %d, woken %d times", err, len(got), g.Machine.Holds.Len(), held, g.Woken-woken)
	}
}

// Candidates that are left out make room for the next window, up to a number of windows.
func TestWindowsGoOn(t *testing.T) {
	t.Parallel()
	g := open(t, byRank(func(rank int64) float64 {
		if rank < 6 {
			return math.NaN()
		}
		return float64(rank)
	}))
	g.scorer.most = 2
	g.insert(1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	g.want(best, 9, 7, 6) // of the fourth window; there is no sweep, as something was found
	if work := g.Work()[pluginKind]; work.Examined != 2*MaxWindows || work.Unwanted != 6 {
		t.Errorf("the work: %+v", work)
	}
}

// However many candidates are skipped ahead of the others, calls in turn find those: each looks at further ones.
func TestSkippedDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	const ahead = 5000
	for _, inner := range []string{"OldestFirst", "NewestFirst", "CustomPriority", "Random", `Fair("company", OldestFirst)`, `PreferDistinct("company", OldestFirst)`} {
		g := open(t, byRank(func(rank int64) float64 {
			if rank < 10 || rank >= 12 {
				return math.NaN()
			}
			return float64(rank)
		}))
		for i := range 2*ahead + 2 {
			rank := int64(i%2) + 2
			if i == ahead || i == ahead+1 {
				rank = 10 + int64(i%2)
			}
			g.insert(1, rank)
		}
		text := `Plugin("p", ` + inner + ")"
		for _, want := range []int64{11, 10} {
			var got []int64
			for calls := 0; len(got) == 0; calls++ {
				if calls == (2*ahead+2)/strategy.DefaultWindow+2 {
					t.Fatalf("%s gives nothing in %d calls", text, calls)
				}
				var err error
				if got, err = g.pick(text, 1); err != nil {
					t.Fatal(err)
				}
			}
			if inner != "Random" && !slices.Equal(got, []int64{want}) {
				t.Errorf("%s gives %v, want %d", text, got, want)
			}
		}
	}
}

// A sweep also passes a stretch without submissions of the branch.
func TestSweepPassesWhatIsNotOfTheBranch(t *testing.T) {
	t.Parallel()
	g := open(t, byRank(func(rank int64) float64 {
		if rank == 3 {
			return math.NaN()
		}
		return float64(rank)
	}))
	g.scorer.most = 16
	for range 5 * 16 {
		g.insert(1, 3) // skipped, and more than the windows have
	}
	for range strategy.MaxWindow + 1000 {
		g.insert(1, 2) // of the other company
	}
	g.insert(1, 11)
	for calls := 0; ; calls++ {
		got, err := g.pick(`Plugin("p", SelectOnly("company", 1, OldestFirst))`, 1)
		if err != nil || calls == 10 {
			t.Fatalf("nothing in %d calls, %v", calls, err)
		}
		if len(got) > 0 {
			break
		}
	}
}

// While nothing changes in the views, one table serves many calls, and counts in how many windows a candidate was passed over.
func TestTableStays(t *testing.T) {
	t.Parallel()
	var skipped []uint32 // of the first candidates
	g := open(t, func(w *strategy.Window, scores []float64) error {
		skipped = append(skipped, w.Columns[1].Counts[:2]...)
		return byRank(identity)(w, scores)
	})
	g.insert(9, 1, 2)
	tables := map[*table]bool{}
	note := func(want int64) {
		g.want(best, 1, want)
		for _, kept := range g.part.ByKey {
			tables[kept.Table] = true
		}
	}
	note(2)
	note(2)
	if len(tables) != 1 {
		t.Errorf("%d tables for two calls between which nothing changed", len(tables))
	}
	g.insert(1, 3)
	note(3)
	if len(tables) != 2 || !slices.Equal(skipped, []uint32{0, 0, 1, 0, 2, 0}) {
		t.Errorf("%d tables, want 2; passed over %v times, want 0 and 0, 1 and 0, 2 and 0", len(tables), skipped)
	}
}

// sampler remembers the scores of its notifications.
type sampler struct {
	scores []float64
	taken  []uint32
}

func (s *sampler) Taken(scores []float64, taken []uint32) {
	s.scores, s.taken = slices.Clone(scores), slices.Clone(taken)
}

// A scorer that sets a sampler for a window, as for a canary, is notified of the chunks that were taken by its scores.
// For a window without one it is not.
func TestSampler(t *testing.T) {
	t.Parallel()
	notified := &sampler{}
	g := open(t, func(w *strategy.Window, scores []float64) error {
		w.Sampler = notified
		return byRank(identity)(w, scores)
	})
	g.insert(2, 1, 2, 3)
	g.want(best, 3, 3, 3, 2)
	if !slices.Equal(notified.scores, []float64{1, 2, 3}) || !slices.Equal(notified.taken, []uint32{0, 1, 2}) {
		t.Fatalf("notified of %+v", notified)
	}
	*notified, g.scorer.score = sampler{}, byRank(identity)
	if g.want(best, 1, 2); notified.scores != nil {
		t.Errorf("notified of a window that was not sampled: %+v", notified)
	}
}

// Whatever changes between the look at a window and the pick, a pick passes all filters and limits, and nothing is
// taken from a replaced state.
func TestWhatHappensWhileScoring(t *testing.T) {
	t.Parallel()
	limited := `MaxSimultaneous("company", 1, Plugin("p", OldestFirst))`
	for name, x := range map[string]struct {
		text    string
		happens func(g *game)
		want    []int64
	}{
		"nothing":                {best, func(*game) {}, []int64{4, 3, 2, 1}},
		"a candidate falls away": {best, func(g *game) { g.hold(4) }, []int64{3, 2, 1}},
		"a limit shuts":          {limited, func(g *game) { g.hold(4) }, []int64{3}},
		"a limit of an operator": {best, func(g *game) {
			g.Machine.Backlog.Values.Set("company", queue.IntValue(0), queue.ValueSettings{Limit: 0, Weight: 1})
		}, []int64{3, 1}},
		"the state is made again":    {best, func(g *game) { g.reload(7, 8) }, []int64{8, 7}},
		"it is made again, for good": {best, func(g *game) { g.reload() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, happened := open(t, nil), false
			g.scorer.score = func(w *strategy.Window, scores []float64) error {
				if !happened {
					happened = true
					x.happens(g)
				}
				return byRank(identity)(w, scores)
			}
			g.insert(1, 1, 2, 3, 4)
			before := g.Machine
			held := func() int { return before.Holds.Len() }
			g.want(x.text, 9, x.want...)
			if before != g.Machine && held() != 0 {
				t.Errorf("%d chunks of the old state are held", held())
			}
		})
	}
}

// hold has another consumer take the chunk of a rank.
func (g *game) hold(rank int64) {
	g.T.Helper()
	parsed, err := strategy.Parse(fmt.Sprintf(`SelectOnly("rank", %d, OldestFirst)`, rank))
	if err != nil {
		g.T.Fatal(err)
	}
	q := &machine.Request{Plan: parsed.Plan(), Max: 1, Consumer: "other"}
	views, unbuilt := g.Machine.Views(q.Plan, nil)
	for unbuilt != nil && !unbuilt.Build(100) {
	}
	var got []machine.Pick
	if g.Machine.Reserve(q, views, 1, g.Clock, &got) != 1 {
		g.T.Fatalf("nothing of rank %d", rank)
	}
}

// reload replaces the state, with other submissions.
func (g *game) reload(ranks ...int64) {
	m := machine.New(1, reserver.Key{}, g.Machine.Settings, g.Clock)
	m.Epoch, m.Storage = 2, g.Machine.Storage
	g.Machine, g.part = m, New(m)
	g.insert(1, ranks...)
}

// A shard that cannot work picks nothing. A stale request gives its picks back.
func TestRefusals(t *testing.T) {
	t.Parallel()
	g := open(t, byRank(identity))
	g.insert(1, 1, 2, 3)
	g.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if got, err := g.pick(best, 1); queue.CodeOf(err) != queue.CodeUnavailable || got != nil {
		t.Errorf("while the shard cannot work: %v, %v", got, err)
	}
	g.Refuse = nil
	again := errors.New("again")
	g.scorer.score = func(w *strategy.Window, scores []float64) error {
		g.stale = again
		return byRank(func(rank int64) float64 {
			if rank == 3 {
				return 1
			}
			return math.NaN()
		})(w, scores)
	}
	if got, err := g.pick(`OrElse(`+best+`, NewestFirst)`, 2); err != again || got != nil || g.Machine.Holds.Len() != 0 {
		t.Errorf("a stale request: %v, %v, %d held", got, err, g.Machine.Holds.Len())
	}
}

// A window of candidates for a question has the columns that were asked for, names its submissions, and reserves nothing.
func TestCandidates(t *testing.T) {
	t.Parallel()
	g := open(t, nil)
	g.insert(1, 5, 6, 7)
	parsed, err := strategy.Parse("NewestFirst")
	if err != nil {
		t.Fatal(err)
	}
	w, err := g.Candidates(t.Context(), parsed.Plan(), nil, g.scorer.Reads(), 2)
	if err != nil || !slices.Equal(w.Columns[0].Numbers, []int64{7, 6}) || len(w.Submissions) != 2 || w.Submissions[0] <= w.Submissions[1] || !w.Dry {
		t.Errorf("%v: %+v", err, w)
	}
	if g.Machine.Holds.Len() != 0 || len(g.part.ByKey) != 0 {
		t.Error("a question left traces")
	}
}

// A choice gives the rows in the order of their scores, whether they are found one by one or by an order of all, and none after it is gone.
func TestChoice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Choice{Scores: rapid.SliceOfN(rapid.SampledFrom([]float64{1, 2, 3, math.Inf(-1), math.NaN()}), 0, 12).Draw(t, "scores")}
		left := make([]int, len(c.Scores)) // chunks
		var order []int
		for row, score := range c.Scores {
			left[row] = rapid.IntRange(0, 2).Draw(t, "left")
			if !math.IsNaN(score) {
				order = append(order, row)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.Scores[b], c.Scores[a]) })
		spread := rapid.Bool().Draw(t, "spread")
		var want, got []int
		for pass, taken := slices.Clone(left), true; taken; {
			taken = false
			for _, row := range order {
				for pass[row] > 0 {
					pass[row], want, taken = pass[row]-1, append(want, row), true
					if spread {
						break
					}
				}
			}
		}
		for c.Begin(spread); ; {
			row := c.Next(false)
			if row < 0 {
				break
			}
			if left[row] == 0 {
				c.Gone(row)
				continue
			}
			left[row]--
			got = append(got, row)
			c.Took(row)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("scores %v, spread %v: rows %v, want %v", c.Scores, spread, got, want)
		}
	})
}
