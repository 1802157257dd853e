package simtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// scorer scores with a Go function, as the shard treats scores alike wherever they come from.
type scorer struct {
	reads  []strategy.Column
	spread bool
	most   int // rows; 0: 4096
	absent bool
	score  func(w *strategy.Window, scores []float64) error
}

func (s *scorer) Check(context.Context, *strategy.Scored) (*strategy.Unavailable, error) {
	return nil, nil
}

func (s *scorer) Scorer(*strategy.Scored) (strategy.Scorer, bool) { return s, !s.absent }

func (s *scorer) Dry(*strategy.Scored) (strategy.Scorer, error) {
	if s.absent {
		return nil, &strategy.Unavailable{Detail: "is absent"}
	}
	return s, nil
}

func (s *scorer) Reads() []strategy.Column { return s.reads }

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

// byRank scores by the integer meta "rank".
func byRank(score func(rank int64) float64) *scorer {
	return &scorer{reads: []strategy.Column{{Property: strategy.MetaInt, Key: "rank"}}, score: func(w *strategy.Window, scores []float64) error {
		for i := range scores {
			scores[i] = score(w.Columns[0].Numbers[i])
		}
		return nil
	}}
}

func openScored(t *testing.T, s *scorer) *box {
	b := newBox(t, relaxed())
	b.scorers = s
	b.open()
	return b
}

func (b *box) insertRanked(rank int64, chunks uint32, more ...queue.MetaEntry) queue.Submission {
	b.t.Helper()
	meta := append(queue.Meta{{Key: "rank", Value: queue.IntValue(rank)}}, more...)
	slices.SortFunc(meta, func(x, y queue.MetaEntry) int { return cmp.Compare(x.Key, y.Key) })
	s, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Meta: meta, Chunks: queue.Chunks{Count: chunks, Prefix: "x/"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *box) reserveBy(text string, most int) []queue.Reservation {
	b.t.Helper()
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(b.t, text), Max: most, Consumer: "c"}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return got.Reservations
}

func ranks(list []queue.Reservation) (got []int64) {
	for i := range list {
		rank, _ := list[i].Meta.Find("rank")
		got = append(got, rank.Int())
	}
	return got
}

// Larger scores go first, equal ones in the inner order, infinities are scores like others, and NaN is left out: for an explicit
// fallback, not for the implicit one.
func TestScoredOrder(t *testing.T) {
	t.Parallel()
	score := byRank(func(rank int64) float64 {
		return map[int64]float64{0: 5, 1: math.Inf(-1), 2: math.NaN(), 3: 5, 4: math.Inf(1), 5: -7}[rank]
	})
	for text, want := range map[string][]int64{
		`Plugin("p", OldestFirst)`:                      {4, 0, 3, 5, 1},
		`Plugin("p", NewestFirst)`:                      {4, 3, 0, 5, 1},
		`OrElse(Plugin("p", OldestFirst), NewestFirst)`: {4, 0, 3, 5, 1, 2},
		`SelectOnly("rank", 2, Plugin("p", Random))`:    nil,
	} {
		b := openScored(t, score)
		for rank := range int64(6) {
			b.insertRanked(rank, 1)
		}
		if got := ranks(b.reserveBy(text, 10)); !slices.Equal(got, want) {
			t.Errorf("%s gave %v, want %v", text, got, want)
		}
	}
}

// After a fault, or without a scorer, the same request goes to the inner order, or to the next alternative.
func TestScoredFault(t *testing.T) {
	t.Parallel()
	fault := &scorer{score: func(*strategy.Window, []float64) error { return errors.New("a trap") }}
	for name, s := range map[string]*scorer{"fault": fault, "absent": {absent: true}} {
		for text, want := range map[string][]int64{
			`Plugin("p", OldestFirst)`:                                             {0, 1, 2, 3},
			`OrElse(Plugin("p", OldestFirst), NewestFirst)`:                        {3, 2, 1, 0},
			`OrElse(SelectOnly("rank", 2, Plugin("p", OldestFirst)), NewestFirst)`: {3, 2, 1, 0},
		} {
			b := openScored(t, s)
			for rank := range int64(4) {
				b.insertRanked(rank, 1)
			}
			if got := ranks(b.reserveBy(text, 10)); !slices.Equal(got, want) {
				t.Errorf("%s: %s gave %v, want %v", name, text, got, want)
			}
		}
	}
}

// An empty answer distinguishes a scorer that skips all candidates from a queue without any.
func TestScoredEmpty(t *testing.T) {
	t.Parallel()
	b := openScored(t, byRank(func(int64) float64 { return math.NaN() }))
	request := machine.Request{Plan: plan(t, `Plugin("p", OldestFirst)`), Max: 1}
	for _, want := range []queue.EmptyReason{queue.Nothing, queue.AllSkipped} {
		got, err := b.shard.Reserve(ctx, request, nil)
		if err != nil || got.Reason != want {
			t.Errorf("got %v, %v, want %v", got.Reason, err, want)
		}
		b.insertRanked(1, 3)
	}
}

// Candidates beyond a window are asked when those in it are skipped, up to four windows.
func TestScoredWindows(t *testing.T) {
	t.Parallel()
	s := byRank(func(rank int64) float64 {
		if rank < 40 {
			return math.NaN()
		}
		return float64(rank)
	})
	b := openScored(t, s)
	for rank := range int64(100) {
		b.insertRanked(rank, 1)
	}
	if got := ranks(b.reserveBy(`Plugin("p", window=16, explore=0, OldestFirst)`, 3)); !slices.Equal(got, []int64{47, 46, 45}) {
		t.Errorf("got %v, want the best three of the third window", got)
	}
	s.score = func(_ *strategy.Window, scores []float64) error {
		for i := range scores {
			scores[i] = math.NaN()
		}
		return nil
	}
	if got := b.reserveBy(`Plugin("p", window=16, explore=0, OldestFirst)`, 3); len(got) != 0 {
		t.Errorf("got %v, though all was skipped", ranks(got))
	}
}

// The oldest candidate is served within 16 emissions however low its score, and none goes further ahead than its window.
func TestScoredStarvation(t *testing.T) {
	t.Parallel()
	b := openScored(t, byRank(func(rank int64) float64 { return float64(rank) }))
	for rank := range int64(400) {
		b.insertRanked(rank, 1)
	}
	const window = 32
	gone := map[int64]bool{}
	waited := 0
	for range 300 {
		rank := ranks(b.reserveBy(`Plugin("p", window=32, OldestFirst)`, 1))[0]
		oldest, ahead := int64(0), 0
		for gone[oldest] {
			oldest++
		}
		for r := range rank {
			if !gone[r] {
				ahead++
			}
		}
		if ahead >= window {
			t.Fatalf("%d was served before %d older ones, want fewer than %d", rank, ahead, window)
		}
		if waited++; rank == oldest {
			waited = 0
		}
		if waited >= strategy.DefaultExplore {
			t.Fatalf("the oldest, %d, waits for %d emissions", oldest, waited)
		}
		gone[rank] = true
	}
}

// spread takes one chunk of each candidate and pass; otherwise the best one fills the request.
func TestScoredSpread(t *testing.T) {
	t.Parallel()
	for spread, want := range map[bool][]int64{false: {2, 2, 2, 2, 1, 1, 1}, true: {2, 1, 0, 2, 1, 0, 2}} {
		s := byRank(func(rank int64) float64 { return float64(rank) })
		s.spread = spread
		b := openScored(t, s)
		for rank := range int64(3) {
			b.insertRanked(rank, 4)
		}
		if got := ranks(b.reserveBy(`Plugin("p", explore=0, OldestFirst)`, 7)); !slices.Equal(got, want) {
			t.Errorf("spread %v: got %v, want %v", spread, got, want)
		}
	}
}

// Every column has the values of this moment.
func TestScoredColumns(t *testing.T) {
	t.Parallel()
	var seen string
	s := &scorer{}
	s.reads = []strategy.Column{
		{Property: strategy.ID}, {Property: strategy.Index}, {Property: strategy.Priority}, {Property: strategy.Age}, {Property: strategy.Attempts},
		{Property: strategy.MaxAttempts}, {Property: strategy.Available}, {Property: strategy.Total}, {Property: strategy.Skipped},
		{Property: strategy.InFlightSubmission}, {Property: strategy.MetaInt, Key: "rank"}, {Property: strategy.MetaString, Key: "company"},
		{Property: strategy.InFlight, Key: "company"}, {Property: strategy.LimitOf, Key: "company"},
		{Property: strategy.ContextInt, Key: "zone"}, {Property: strategy.ContextString, Key: "warm"}, {Property: strategy.ContextString, Key: "cold"},
	}
	s.score = func(w *strategy.Window, scores []float64) error {
		seen = ""
		for row := range w.Rows {
			for i := range w.Columns {
				v, at := &w.Columns[i], row
				if s.reads[i].Single() {
					at = 0
				}
				switch {
				case v.Words != nil && v.Words[at] == 0, v.Present != nil && !v.Present[at]:
					seen += "- "
				case v.Words != nil:
					seen += w.Dictionary[v.Words[at]-1] + " "
				default:
					seen += fmt.Sprint(v.Number(at), " ")
				}
			}
			seen += "; "
			scores[row] = float64(row)
		}
		return nil
	}
	b := openScored(t, s)
	acme := queue.MetaEntry{Key: "company", Value: queue.StringValue("acme")}
	first := b.insertRanked(10, 5, acme)
	b.clock.pass(2500 * time.Millisecond)
	second := b.insertRanked(20, 3)
	b.setValue(acme, queue.ValueSettings{Limit: 4})
	context := queue.Meta{{Key: "warm", Value: queue.StringValue("acme")}, {Key: "zone", Value: queue.IntValue(3)}}
	ask := func() {
		t.Helper()
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, `MaxSimultaneous("company", 6, Plugin("p", explore=0, OldestFirst))`), Max: 1, Context: context}, nil)
		if err != nil || len(got.Reservations) != 1 || got.Reservations[0].Token.Submission != second.ID {
			t.Fatalf("got %+v, %v, want a chunk of the second submission", got.Reservations, err)
		}
	}
	ask()
	want := fmt.Sprintf("%d 0 0 2500 0 10 5 5 0 0 10 acme 0 4 3 acme - ; %d 0 0 0 0 10 3 3 0 0 20 - 0 6 3 acme - ; ", first.ID, second.ID)
	if seen != want {
		t.Errorf("the window was\n%s\nwant\n%s", seen, want)
	}
	held := b.reserveBy(`SelectOnly("rank", 10, OldestFirst)`, 2)
	if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[0].Token, HasRetry: true}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.Submissions.SetPriority(ctx, first.ID, 7, nil); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(500 * time.Millisecond)
	ask()
	want = fmt.Sprintf("%d 0 7 3000 1 10 4 5 1 1 10 acme 1 4 3 acme - ; %d 1 0 500 0 10 2 3 0 1 20 - 0 6 3 acme - ; ", first.ID, second.ID)
	if seen != want {
		t.Errorf("the second window was\n%s\nwant\n%s", seen, want)
	}
}

// Of many reserves that wait for the same scorer, sixteen are woken at once when there is something; the others ask again by
// themselves.
//
//quern:overlapping
func TestScoredWaitOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openScored(t, byRank(func(int64) float64 { return 1 }))
		waiters := make([]*waiter, 20)
		for i := range waiters {
			waiters[i] = await(t, b, `Plugin("p", OldestFirst)`, 1)
		}
		served := func() (n int) {
			synctest.Wait()
			for _, w := range waiters {
				if w.served(1) {
					n++
				}
			}
			return n
		}
		b.insertRanked(1, 20)
		if n := served(); n != 16 {
			t.Errorf("at once %d of 20 were served, want 16", n)
		}
		time.Sleep(2 * time.Second) // of the bubble
		if n := served(); n != 20 {
			t.Errorf("a moment later %d of 20 were served, want all", n)
		}
		b.close()
	})
}

// A waiting reserve gets work that comes, and work that its scorer wants only after a while.
//
//quern:overlapping
func TestScoredWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Bool
		open.Store(true)
		b := openScored(t, byRank(func(int64) float64 {
			if open.Load() {
				return 1
			}
			return math.NaN()
		}))
		w := await(t, b, `Plugin("p", OldestFirst)`, 1)
		b.insertRanked(1, 1)
		synctest.Wait()
		if !w.served(1) {
			t.Fatalf("got %v, want a chunk", w)
		}
		open.Store(false)
		b.insertRanked(2, 1)
		if w = await(t, b, `Plugin("p", OldestFirst)`, 1); w.done.Load() {
			t.Fatalf("got %v, though the scorer wants nothing", w)
		}
		open.Store(true)
		time.Sleep(2 * time.Second) // of the bubble
		synctest.Wait()
		if !w.served(1) {
			t.Fatalf("got %v, want a chunk once the scorer wants it", w)
		}
		open.Store(false)
		b.insertRanked(3, 1)
		w = await(t, b, `Plugin("p", OldestFirst)`, 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !w.done.Load() || w.got.Reason != queue.AllSkipped {
			t.Fatalf("got %v, want that all is skipped when the wait is over", w)
		}
		b.close()
	})
}

// Many reserve by scores and without at once, under a limit: no chunk goes twice, none is lost, the limit holds.
//
//quern:overlapping
func TestScoredCrowd(t *testing.T) {
	t.Parallel()
	b := openScored(t, byRank(func(rank int64) float64 { return float64(rank % 3) }))
	const submissions, chunks, limit = 60, 20, 3
	for rank := range int64(submissions) {
		b.insertRanked(rank, chunks, queue.MetaEntry{Key: "company", Value: queue.IntValue(rank % 4)})
	}
	texts := []string{
		`MaxSimultaneous("company", 3, Plugin("p", window=16, OldestFirst))`, `MaxSimultaneous("company", 3, Plugin("p", Random))`,
		`MaxSimultaneous("company", 3, Plugin("p", Fair("company", OldestFirst)))`, `MaxSimultaneous("company", 3, NewestFirst)`,
	}
	var flying [4]atomic.Int32
	var done sync.Map
	var count atomic.Int32
	var all sync.WaitGroup
	for worker := range 8 {
		plan := plan(t, texts[worker%len(texts)])
		all.Go(func() {
			for count.Load() < submissions*chunks {
				got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan, Max: 1 + worker%3}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range got.Reservations {
					token := got.Reservations[i].Token
					company, _ := got.Reservations[i].Meta.Find("company")
					if n := flying[company.Int()].Add(1); n > limit {
						t.Errorf("%d of company %v in flight, want at most %d", n, company, limit)
					}
					if _, twice := done.LoadOrStore(queue.ChunkID{Submission: token.Submission, Index: token.Index}, true); twice {
						t.Errorf("chunk %v/%d went twice", token.Submission, token.Index)
					}
					flying[company.Int()].Add(-1)
					results, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil)
					if err != nil || results[0].Outcome != queue.OutcomeOK {
						t.Errorf("complete: %v, %v", results, err)
						return
					}
					count.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// Candidates of a dry run are those of the inner order, for every kind of inner strategy, each once, and nothing is taken.
func TestCandidates(t *testing.T) {
	t.Parallel()
	b := openScored(t, nil)
	for rank := range int64(30) {
		b.insertRanked(rank, 2, queue.MetaEntry{Key: "company", Value: queue.IntValue(rank % 3)})
	}
	reads := []strategy.Column{{Property: strategy.MetaInt, Key: "rank"}, {Property: strategy.InFlightSubmission}}
	for text, want := range map[string][]int64{
		"OldestFirst": {0, 1, 2, 3, 4}, "NewestFirst": {29, 28, 27, 26, 25},
		`OrElse(SelectOnly("rank", 17, Random), OldestFirst)`:                    {17, 0, 1, 2, 3},
		`PreferDistinct("company", 1, NewestFirst)`:                              {29, 28, 27, 26, 25},
		`MaxSimultaneous("company", 1, MaxSimultaneous("rank", 3, OldestFirst))`: {0, 1, 2, 3, 4},
	} {
		w, err := b.shard.Scoring.Candidates(ctx, plan(t, text), nil, reads, 5)
		if err != nil || w.Rows != 5 {
			t.Fatalf("%s: %v, %+v", text, err, w)
		}
		got := slices.Clone(w.Columns[0].Numbers)
		if !slices.Equal(got, want) {
			t.Errorf("%s: candidates %v, want %v", text, got, want)
		}
		if n := b.shard.Stats().Reserved; n != 0 || slices.Max(w.Columns[1].Counts) != 0 {
			t.Errorf("%s: %d chunks reserved", text, n)
		}
	}
	w, err := b.shard.Scoring.Candidates(ctx, plan(t, `Fair("company", NewestFirst)`), nil, reads, 5)
	if got := w.Columns[0].Numbers; err != nil || len(got) != 5 || slices.Min(got) < 24 || slices.Min(got[:3]) < 27 {
		t.Errorf("Fair: candidates %v, %v, want the newest of each company, then the next ones", got, err)
	}
	w, err = b.shard.Scoring.Candidates(ctx, plan(t, "Random"), nil, reads, 100)
	seen := map[int64]bool{}
	for _, rank := range w.Columns[0].Numbers {
		seen[rank] = true
	}
	if err != nil || w.Rows != 30 || len(seen) != 30 {
		t.Errorf("Random: %d candidates, %d different, %v, want 30", w.Rows, len(seen), err)
	}
}

// Chunks that a scorer takes out of a fair inner order are charged to their tenants: with equal scores two tenants of equal weight get
// the same number of chunks, one call at a time or several, of one submission each or of many.
func TestScoredFairIsCharged(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`Score(priority, Fair("t", OldestFirst))`, `Score(priority, Fair("t", Random))`, `Plugin("p", Fair("t", OldestFirst))`,
		`Plugin("p", Fair("t", Fair("rank", NewestFirst)))`,
	} {
		for _, most := range []int{1, 3} {
			b := openScored(t, byRank(func(int64) float64 { return 1 }))
			for i := range int64(8) {
				b.insertRanked(i/2, 50, queue.MetaEntry{Key: "t", Value: queue.IntValue(i % 2)})
			}
			count := map[int64]int{}
			for range 60 / most {
				for _, r := range b.reserveBy(text, most) {
					tenant, _ := r.Meta.Find("t")
					count[tenant.Int()]++
				}
			}
			if count[0]+count[1] != 60 || count[0] < 28 || count[0] > 32 {
				t.Errorf("%s, %d at a time: two equal tenants got %d and %d of 60 chunks, want about 30 each", text, most, count[0], count[1])
			}
		}
	}
}
