package simtest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

func mustPreview(t testing.TB, b *box, text string, most int, seed uint64) []inspect.Previewed {
	t.Helper()
	all, _, err := b.shard.Inspect.Preview(ctx, []*strategy.Plan{plan(t, text)}, &inspect.Question{Max: most, Seed: seed})
	if err != nil {
		t.Fatalf("preview: %v", err)
	}
	return all[0].Picks
}

func mustWhy(t testing.TB, b *box, id queue.SubmissionID, index uint32, text string) inspect.Why {
	t.Helper()
	why, err := b.shard.Inspect.Why(ctx, id, index, plan(t, text))
	if err != nil {
		t.Fatalf("why %s/%d by %s: %v", id, index, text, err)
	}
	return why
}

func mustExplain(t testing.TB, b *box, text string, most int) inspect.Explained {
	t.Helper()
	x, err := b.shard.Inspect.Explain(ctx, plan(t, text), &inspect.Question{Max: most, Seed: 1})
	if err != nil {
		t.Fatalf("explain %s: %v", text, err)
	}
	return x
}

// A preview foresees the chunks that the next reserve gives by an order, is the same for the same seed, and changes no
// numbers.
func TestPreview(t *testing.T) {
	t.Parallel()
	twins := [2]*box{openBox(t, relaxed()), openBox(t, relaxed())}
	for _, b := range twins {
		for i := range 40 {
			mustInsert(t, b, prefixed(uint32(1+i%5), number("company", i%4)))
		}
		mustReserve(t, b, "Random", 20)
	}
	const once = `SelectOnly("company", 1, Random)`
	if one, other := mustPreview(t, twins[0], once, 50, 9), mustPreview(t, twins[1], once, 50, 9); fmt.Sprint(one) != fmt.Sprint(other) || len(one) == 0 {
		t.Errorf("the same seed on the same state gives\n%v and\n%v", one, other)
	}
	b := twins[0]
	before := b.shard.Stats()
	const text = `PreferDistinct("company", 3, NewestFirst)`
	foreseen := mustPreview(t, b, text, 100, 1)
	random := mustPreview(t, b, "Random", 50, 99)
	if other := mustPreview(t, b, "Random", 50, 98); fmt.Sprint(other) == fmt.Sprint(random) {
		t.Errorf("another seed gives the same: %v", other)
	}
	after := b.shard.Stats()
	if before.QuestionViewBytes = after.QuestionViewBytes; after != before {
		t.Errorf("stats after previews: %+v, want %+v", after, before)
	}
	for i, r := range mustReserve(t, b, text, 100) {
		if p := foreseen[i]; r.Token.Submission != p.Submission || r.Token.Index != p.Index || fmt.Sprint(r.Meta) != fmt.Sprint(p.Meta) {
			t.Fatalf("reservation %d is %s/%d, foreseen was %s/%d", i, r.Token.Submission, r.Token.Index, p.Submission, p.Index)
		}
	}
}

// Each obstacle between a chunk and a branch is named.
func TestWhy(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(6, number("company", 7)))
	later := prefixed(2, number("company", 8))
	later.RunAt = b.clock.now().Add(time.Hour)
	parked := mustInsert(t, b, later)
	behind := prefixed(2, number("company", 9))
	behind.After = &queue.After{IDs: []queue.SubmissionID{sub.ID}}
	waits := mustInsert(t, b, behind)
	held := mustReserve(t, b, "OldestFirst", 3)
	if _, err := b.shard.Complete(ctx, completions(held[:1]), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[1].Token, RetryAfter: 60_000, HasRetry: true}}, nil); err != nil {
		t.Fatal(err)
	}
	const limited = `OrElse(MaxSimultaneous("company", 1, OldestFirst), OrElse(SelectOnly("mode", "x", Random), OrElse(OldestFirst, Random)))`
	company := number("company", 7)
	for _, c := range []struct {
		id       queue.SubmissionID
		index    uint32
		text     string
		want     []inspect.BranchWhy
		standing *api.WhyStanding
	}{
		{sub.ID, 0, "Random", []inspect.BranchWhy{{Obstacle: queue.ObstacleDone}}, nil},
		{sub.ID, 1, "Random", []inspect.BranchWhy{{Obstacle: queue.ObstacleWaiting, Until: b.clock.now().Add(time.Minute)}}, nil},
		{sub.ID, 2, "Random", []inspect.BranchWhy{{Obstacle: queue.ObstacleReserved, Until: held[2].Deadline}}, nil},
		{parked.ID, 1, "Random", []inspect.BranchWhy{{Obstacle: queue.ObstacleNotDue, Until: later.RunAt}}, nil},
		{waits.ID, 1, "Random", []inspect.BranchWhy{{Obstacle: queue.ObstacleAfter, Awaits: behind.After.IDs}}, nil},
		{sub.ID, 5, limited, []inspect.BranchWhy{
			{Obstacle: queue.ObstacleLimit, Limit: strategy.Limit{Key: "company", Max: 1}, Value: company.Value, HasValue: true, InFlight: 1},
			{Obstacle: queue.ObstacleFilter, Filter: strategy.Select("mode", queue.StringValue("x"))},
			{},
			{Obstacle: queue.ObstacleHidden, HiddenBy: 2},
		}, &api.WhyStanding{Branch: 3, Ahead: 2}},
		{sub.ID, 5, "Random", []inspect.BranchWhy{{}}, &api.WhyStanding{Branch: 1, Ahead: 1, Among: 3}},
		{sub.ID, 3, `MaxSimultaneous("company", 1, Random)`, []inspect.BranchWhy{
			{Obstacle: queue.ObstacleLimit, Limit: strategy.Limit{Key: "company", Max: 1}, Value: company.Value, HasValue: true, InFlight: 1},
		}, nil},
	} {
		got := mustWhy(t, b, c.id, c.index, c.text)
		if fmt.Sprint(got.Leaves) != fmt.Sprint(c.want) {
			t.Errorf("why %s/%d by %s:\ngot  %+v\nwant %+v", c.id, c.index, c.text, got.Leaves, c.want)
		}
		if (got.Standing == nil) != (c.standing == nil) || got.Standing != nil && *got.Standing != *c.standing {
			t.Errorf("%s/%d by %s stands at %+v, want %+v", c.id, c.index, c.text, got.Standing, c.standing)
		}
	}
	if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	if got := mustWhy(t, b, sub.ID, 5, "OldestFirst"); got.Leaves[0].Obstacle != queue.ObstacleSkipped || got.State != queue.ChunkSkipped || got.Standing != nil {
		t.Errorf("after the end: got %+v, want skipped", got)
	}
	var failure *queue.Error
	if _, err := b.shard.Inspect.Why(ctx, sub.ID, 6, plan(t, "Random")); !errors.As(err, &failure) || failure.Code != queue.CodeInvalid {
		t.Errorf("a chunk that is not there: got %v, want %s", err, queue.CodeInvalid)
	}
}

// A chunk's standing agrees with its place in a preview: exactly by an order, within a round of the tenants under Fair.
func TestWhyStanding(t *testing.T) {
	t.Parallel()
	const companies = 5
	b := openBox(t, relaxed())
	for i := range 60 {
		mustInsert(t, b, prefixed(1+uint32(i%3), number("company", i%companies), number("mode", i%2)))
	}
	mustInsert(t, b, prefixed(4, number("mode", 1)))
	for text, off := range map[string]float64{
		"OldestFirst":    0,
		"NewestFirst":    0,
		"CustomPriority": 0,
		`OrElse(SelectOnly("mode", 0, NewestFirst), OldestFirst)`:                                                          0,
		`OrElse(SelectOnly("company", 2, Fair("mode", OldestFirst)), SelectOnly("mode", 1, Fair("company", OldestFirst)))`: companies,
		`Fair("company", NewestFirst)`:                                             companies,
		`Fair("mode", Fair("company", OldestFirst))`:                               2 * companies,
		`Fair("mode", OrElse(SelectOnly("company", 2, NewestFirst), OldestFirst))`: 2,
		`Fair("company", time, OldestFirst)`:                                       companies,
		`OrElse(SelectOnly("company", 1, Random), Fair("mode", Fair("company", OrElse(SelectOnly("company", 2, NewestFirst), OldestFirst))))`: 2 * companies,
	} {
		mustReserve(t, b, text, 3) // so that someone is ahead
		for place, p := range mustPreview(t, b, text, 100, 1) {
			why := mustWhy(t, b, p.Submission, p.Index, text)
			if why.Standing == nil || math.Abs(float64(why.Standing.Ahead)-float64(place)) > off || why.Standing.Branch != p.Leaf+1 || why.Standing.AtLeast {
				t.Errorf("%s: %s/%d stands at %+v, want %d ±%v by leaf %d", text, p.Submission, p.Index, why.Standing, place, off, p.Leaf)
			}
			w := why.Leaves[p.Leaf]
			if place == 0 && w.Obstacle != queue.NoObstacle {
				t.Errorf("%s: the first chunk %s/%d meets %+v, want no obstacle", text, p.Submission, p.Index, w)
			}
			before := 0
			for _, seat := range w.Seats {
				before += seat.Before
			}
			if w.Obstacle == queue.ObstacleTurn && (before < 1 || before > companies*len(w.Seats)) {
				t.Errorf("%s: %s/%d waits for %d tenants, want 1 to %d", text, p.Submission, p.Index, before, companies*len(w.Seats))
			}
		}
	}
}

// An explanation counts the chunks that reach each block and those that it refuses, names the values that refuse most, and
// says why earlier branches did not give a pick.
func TestExplain(t *testing.T) {
	t.Parallel()
	const values, full = 2500, 15
	b := openBox(t, relaxed())
	for i := range values {
		mustInsert(t, b, prefixed(2+uint32(i/2499), number("company", i)))
	}
	mustInsert(t, b, prefixed(1))
	mustReserve(t, b, `MaxSimultaneous("company", 1, OldestFirst)`, full)
	const text = `OrElse(SelectOnly("company", 2499, Random), MaxSimultaneous("company", 1, PreferDistinct("company", 1, OldestFirst)))`
	got := mustExplain(t, b, text, 5)
	want := []struct{ entered, passed, refused, values int }{
		{values + 1, values + 1 - full, 0, 0}, {values + 1, 1, values, values}, {1, 1, 0, 0}, {values + 1, values + 1 - full, full, full}, {values + 1 - full, values + 1 - full, 0, 0}, {values + 1 - full, values + 1 - full, 0, 0},
	}
	if got.Met != values+1 || got.Shown != values+1 || len(got.Tree) != len(want) {
		t.Fatalf("%d of %d submissions and %d blocks, want all of %d and %d", got.Met, got.Shown, len(got.Tree), values+1, len(want))
	}
	for i, n := range got.Tree {
		w := want[i]
		if i == 1 {
			w.values = values // the others and none
		}
		if n.Entered.Submissions != w.entered || n.Passed.Submissions != w.passed || n.Refused.Submissions != w.refused || n.RefusedValues != w.values || len(n.Top) != min(10, w.values) {
			t.Errorf("block %d is %+v, want %+v", i, n, w)
		}
	}
	if top := got.Tree[3].Top[0]; top.InFlight != 1 || top.Refused != (api.Amount{Submissions: 1, Chunks: 1}) {
		t.Errorf("the first of the full values is %+v, want one with 1 in flight that keeps 1 chunk back", top)
	}
	if chunks := got.Tree[0].Entered.Chunks; chunks != 2*values+1+1-full {
		t.Errorf("%d chunks reach the root, want %d", chunks, 2*values+2-full)
	}
	last := got.Picks[4]
	if got.Picks[0].Leaf != 0 || len(got.Picks[0].Skipped) != 0 || last.Leaf != 1 || len(last.Skipped) != 1 || last.Skipped[0].Obstacle != queue.ObstacleFilter {
		t.Errorf("the picks are %+v, want three by the first branch and then the second, as the filter is in the way", got.Picks)
	}
	if got.Branches[0].Built || !mustExplain(t, b, text, 1).Branches[0].Built {
		t.Error("the view of the first branch stands before it was asked for, or not after")
	}
	soft := mustExplain(t, b, `PreferDistinct("company", 1, OldestFirst)`, 1)
	if n := soft.Tree[0]; n.Refused.Submissions != full || n.Passed.Submissions != values+1 {
		t.Errorf("PreferDistinct is %+v, want %d put last, and all passed", n, full)
	}
	for range 3 { // until one value is left below the limit
		mustReserve(t, b, `MaxSimultaneous("company", 1, OldestFirst)`, 1000)
	}
	soft = mustExplain(t, b, `PreferDistinct("company", 1, OldestFirst)`, 3)
	for _, pick := range soft.Picks {
		if pick.Leaf != 1 || len(pick.Skipped) != 1 || pick.Skipped[0].Obstacle != queue.ObstacleLimit || pick.Skipped[0].InFlight != 1 {
			t.Errorf("got %+v, want the second branch, as the first is limited", pick)
		}
	}
}

// Of a fair branch an explanation says which tenants compete, which are blocked, and whose each pick is.
func TestExplainFair(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for i := range 12 {
		mustInsert(t, b, prefixed(9, number("company", i)))
	}
	const text = `Fair("company", MaxSimultaneous("company", 1, OldestFirst))`
	held := mustReserve(t, b, text, 5)
	got := mustExplain(t, b, text, 7).Branches[0].Fair
	if len(got) != 1 || got[0].Ledgers != 1 || got[0].Active != 7 || got[0].Blocked != 5 || got[0].Owing != 0 || len(got[0].Owed) != 7 {
		t.Fatalf("the leaf is %+v, want 7 active and 5 blocked tenants", got)
	}
	for i := 1; i < len(got[0].Owed); i++ {
		if got[0].Owed[i].Lag > got[0].Owed[i-1].Lag {
			t.Errorf("the tenants %+v are not in the order of what they are owed", got[0].Owed)
		}
	}
	mustReserve(t, b, text, 7)
	if _, err := b.shard.Complete(ctx, completions(held[:2]), nil); err != nil {
		t.Fatal(err)
	}
	x := mustExplain(t, b, text, 7)
	f := x.Branches[0].Fair[0]
	if f.Active != 2 || f.Blocked != 10 || f.Next == nil {
		t.Errorf("the block is %+v, want 2 active and 10 blocked", f)
	}
	for i, pick := range x.Picks {
		value, _ := pick.Meta.Find("company")
		if len(pick.Tenants) != 1 || pick.Tenants[0].Value != value || i == 0 && pick.Tenants[0].Value != *f.Next.Value {
			t.Errorf("pick %d of company %v is said to be of %+v", i, value, pick.Tenants)
		}
	}
	if len(x.Picks) != 2 {
		t.Errorf("%d picks, want 2", len(x.Picks))
	}
}

// With Fair in Fair the inner counts cover all outer tenants, and the inner turn is that of the outer tenant whose turn it
// is. The explanation says per leaf why an alternative inside of Fair had nothing to give.
func TestExplainNested(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for i := range 12 {
		mustInsert(t, b, prefixed(9, number("company", i%3), number("user", i/3)))
	}
	b.setValue(number("company", 1), queue.ValueSettings{Limit: queue.NoLimit, Weight: 2500})
	const text = `Fair("company", OrElse(MaxSimultaneous("company", 1, NewestFirst), Fair("user", OldestFirst)))`
	x := mustExplain(t, b, text, 5)
	outer, inner := x.Branches[1].Fair[0], x.Branches[1].Fair[1]
	stands := func(f *api.ExplainFair) [4]int { return [...]int{f.Ledgers, f.Active, f.Owing, f.Blocked} }
	if len(x.Branches) != 2 || len(x.Branches[0].Fair) != 1 || stands(&outer) != [...]int{1, 3, 0, 0} || stands(&inner) != [...]int{3, 12, 0, 0} {
		t.Fatalf("the leaves are %+v, want 3 tenants of one block around the first, and 12 of three more around the second", x.Branches)
	}
	if outer.Next == nil || *outer.Next.Value != number("company", 1).Value || outer.Next.Weight != 2.5 || inner.Next == nil || len(inner.Owed) != 4 {
		t.Errorf("next are %+v and %+v, want company 1 with its weight of 2.5, and one of four users", outer.Next, inner)
	}
	company := func(i int) int64 { value, _ := x.Picks[i].Meta.Find("company"); return value.Int() }
	firsts := map[int64]bool{}
	for i, pick := range x.Picks {
		again := firsts[company(i)]
		firsts[company(i)] = true
		if !again && (pick.Leaf != 0 || len(pick.Tenants) != 1) || again && (pick.Leaf != 1 || len(pick.Tenants) != 2 || pick.Skipped[0].Obstacle != queue.ObstacleLimit) {
			t.Errorf("pick %d is %+v; want the first leaf until a company has one, then the second", i, pick)
		}
	}
	if len(firsts) != 3 || len(x.Picks) != 5 {
		t.Errorf("%d picks of %d companies, want 5 of 3", len(x.Picks), len(firsts))
	}
}

// Why, under Fair: an earlier alternative of the tenant, and how many tenants come before at each level.
func TestWhyNested(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	var subs []queue.SubmissionID
	for i := range 6 {
		subs = append(subs, mustInsert(t, b, prefixed(9, number("company", i%2), number("user", i/2))).ID)
	}
	const text = `Fair("company", OrElse(MaxSimultaneous("company", 1, OldestFirst), Fair("user", OldestFirst)))`
	why := mustWhy(t, b, subs[0], 5, text)
	if w := why.Leaves[1]; w.Obstacle != queue.ObstacleAlternative || w.HiddenBy != 0 || len(w.Seats) != 2 {
		t.Errorf("with nothing in flight: the second leaf has %+v, want the first to come before it", w)
	}
	mustReserve(t, b, text, 3) // of each company one by the first leaf, and of one of them one by the second
	var turns [2][2]int        // by level and whether it waits there
	for _, id := range subs {
		w := mustWhy(t, b, id, 8, text).Leaves
		if w[0].Obstacle != queue.ObstacleLimit || len(w[1].Seats) != 2 {
			t.Fatalf("%s meets %+v, want a limit and two seats", id, w)
		}
		for level, seat := range w[1].Seats {
			turns[level][min(seat.Before, 1)]++
			if most := 1 + level; seat.Before > most {
				t.Errorf("%d tenants come before at level %d, want at most %d", seat.Before, level, most)
			}
		}
		waits := w[1].Seats[0].Before+w[1].Seats[1].Before > 0
		if waits != (w[1].Obstacle == queue.ObstacleTurn) {
			t.Errorf("%s meets %+v, want a wait for its turn only with tenants before", id, w[1])
		}
	}
	if turns != [2][2]int{{3, 3}, {5, 1}} {
		t.Errorf("by level (it is its turn, it waits): %v, want one company to wait, and the one user that was served", turns)
	}
}

// Answers distinguish chunks that an operator's limit withholds from those that the strategy limits: why does, and an
// explanation does by value.
func TestWithheldByOperator(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(5, number("company", 7)))
	mustInsert(t, b, prefixed(4, number("company", 8)))
	entry := number("company", 7)
	b.setValue(entry, queue.ValueSettings{Limit: 1})
	mustReserve(t, b, "OldestFirst", 1)
	const text = `OrElse(MaxSimultaneous("company", 1, OldestFirst), OldestFirst)`
	want := []inspect.BranchWhy{
		{Obstacle: queue.ObstacleLimit, Limit: strategy.Limit{Key: "company", Max: 1}, Value: entry.Value, HasValue: true, InFlight: 1},
		{Obstacle: queue.ObstacleValueLimit, Limit: strategy.Limit{Key: "company", Max: 1}, Value: entry.Value, HasValue: true, InFlight: 1},
	}
	if got := mustWhy(t, b, sub.ID, 3, text); fmt.Sprint(got.Leaves) != fmt.Sprint(want) || got.Standing != nil {
		t.Errorf("got  %+v at %+v\nwant %+v, standing nowhere", got.Leaves, got.Standing, want)
	}
	x := mustExplain(t, b, text, 10)
	held := api.RefusedValue{Key: "company", Value: &entry.Value, InFlight: 1, Max: new(uint32(1)), Refused: api.Amount{Submissions: 1, Chunks: 4}}
	if x.Withheld.Refused != held.Refused || x.Withheld.RefusedValues != 1 || len(x.Withheld.Top) != 1 || !reflect.DeepEqual(x.Withheld.Top[0], held) {
		t.Errorf("withheld is %+v, want %+v", x.Withheld, held)
	}
	if n := x.Tree[0]; n.Entered != (api.Amount{Submissions: 1, Chunks: 4}) || len(x.Picks) != 4 {
		t.Errorf("%+v reach the root and %d chunks are picked, want only the other company's 4", n.Entered, len(x.Picks))
	}
	b.setValue(entry, queue.ValueSettings{Limit: 0})
	if w := mustWhy(t, b, sub.ID, 3, "Random").Leaves[0]; w.Obstacle != queue.ObstacleValueLimit || w.Limit.Max != 0 {
		t.Errorf("with a limit of 0: got %+v", w)
	}
}
