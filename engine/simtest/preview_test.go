package simtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/strategy"
)

func mustPreview(t testing.TB, b *box, text string, most int, seed uint64) []shard.Previewed {
	t.Helper()
	all, err := b.shard.Preview(ctx, []*strategy.Plan{plan(t, text)}, most, seed)
	if err != nil {
		t.Fatalf("preview: %v", err)
	}
	return all[0]
}

// A preview says what the next reserve gives by an order, the same for the same seed, and leaves the numbers alone.
func TestPreview(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for i := range 40 {
		mustInsert(t, b, prefixed(uint32(1+i%5), number("company", i%4)))
	}
	mustReserve(t, b, "Random", 20)
	before := b.shard.Stats()
	const text = `PreferDistinct("company", 3, NewestFirst)`
	foreseen := mustPreview(t, b, text, 100, 1)
	random := mustPreview(t, b, "Random", 50, 99)
	if again := mustPreview(t, b, "Random", 50, 99); fmt.Sprint(again) != fmt.Sprint(random) || len(random) != 50 {
		t.Errorf("the same seed gives %v, want %v", again, random)
	}
	if other := mustPreview(t, b, "Random", 50, 98); fmt.Sprint(other) == fmt.Sprint(random) {
		t.Errorf("another seed gives the same: %v", other)
	}
	if after := b.shard.Stats(); after != before {
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
	held := mustReserve(t, b, "OldestFirst", 3)
	if _, err := b.shard.Complete(ctx, completions(held[:1]), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[1].Token, RetryAfter: 60_000, HasRetry: true}}, nil); err != nil {
		t.Fatal(err)
	}
	why := func(id queue.SubmissionID, index uint32, text string) (list []shard.BranchWhy) {
		t.Helper()
		_, list, err := b.shard.Why(ctx, id, index, plan(t, text))
		if err != nil {
			t.Fatalf("why %s/%d by %s: %v", id, index, text, err)
		}
		return list
	}
	const limited = `OrElse(MaxSimultaneous("company", 1, OldestFirst), OrElse(SelectOnly("mode", "x", Random), OrElse(OldestFirst, Random)))`
	company := number("company", 7)
	for _, c := range []struct {
		id    queue.SubmissionID
		index uint32
		text  string
		want  []shard.BranchWhy
	}{
		{sub.ID, 0, "Random", []shard.BranchWhy{{Obstacle: shard.IsDone}}},
		{sub.ID, 1, "Random", []shard.BranchWhy{{Obstacle: shard.IsWaiting, Until: b.clock.now().Add(time.Minute)}}},
		{sub.ID, 2, "Random", []shard.BranchWhy{{Obstacle: shard.IsReserved, Until: held[2].Deadline}}},
		{parked.ID, 1, "Random", []shard.BranchWhy{{Obstacle: shard.NotYetDue, Until: later.RunAt}}},
		{sub.ID, 5, limited, []shard.BranchWhy{
			{Obstacle: shard.IsLimited, Limit: strategy.Limit{Key: "company", Max: 1}, Value: company.Value, HasValue: true, InFlight: 1},
			{Obstacle: shard.NotAdmitted, Filter: strategy.Filter{Key: "mode", Value: queue.StringValue("x")}},
			{Counted: true, Standing: 2},
			{Obstacle: shard.IsHidden, HiddenBy: 2},
		}},
		{sub.ID, 5, "Random", []shard.BranchWhy{{Counted: true, Standing: 3}}},
	} {
		if got := why(c.id, c.index, c.text); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("why %s/%d by %s:\ngot  %+v\nwant %+v", c.id, c.index, c.text, got, c.want)
		}
	}
	if _, err := b.shard.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	if got := why(sub.ID, 5, "OldestFirst"); got[0].Obstacle != shard.IsSkipped {
		t.Errorf("after the end: got %+v, want skipped", got)
	}
	var failure *queue.Error
	if _, _, err := b.shard.Why(ctx, sub.ID, 6, plan(t, "Random")); !errors.As(err, &failure) || failure.Code != queue.CodeInvalid {
		t.Errorf("a chunk that is not there: got %v, want %s", err, queue.CodeInvalid)
	}
}

// An explanation counts the gates, names the full values, and says why earlier branches did not give a pick.
func TestExplain(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	const values = 2500 // more than one slice of gates
	for i := range values {
		mustInsert(t, b, prefixed(2, number("company", i)))
	}
	mustReserve(t, b, `MaxSimultaneous("company", 1, OldestFirst)`, 15)
	p := plan(t, `PreferDistinct("company", 1, OldestFirst)`)
	got, err := b.shard.Explain(ctx, p, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, second := got.Branches[0], got.Branches[1]
	if first.Submissions != values || first.Open != values-15 || first.Shut != 15 || first.Empty != 0 || len(first.Saturated) != 10 || !first.Built {
		t.Errorf("the first branch is %+v, want %d submissions, 15 shut, 10 named, built", first, values)
	}
	if second.Submissions != values || second.Open+second.Shut+second.Empty != 0 || second.Built {
		t.Errorf("the second branch is %+v, want %d submissions, no gates, not built", second, values)
	}
	mustReserve(t, b, `MaxSimultaneous("company", 1, OldestFirst)`, 1000)
	mustReserve(t, b, `MaxSimultaneous("company", 1, OldestFirst)`, 1000)
	mustReserve(t, b, `MaxSimultaneous("company", 1, OldestFirst)`, values-15-2000-1)
	if got, err = b.shard.Explain(ctx, p, 3, 1); err != nil {
		t.Fatal(err)
	}
	if len(got.Picks) != 3 || got.Picks[0].Branch != 0 || len(got.Picks[0].Skipped) != 0 {
		t.Fatalf("got %+v, want three picks, the first by the first branch", got.Picks)
	}
	for _, pick := range got.Picks[1:] {
		if pick.Branch != 1 || len(pick.Skipped) != 1 || pick.Skipped[0].Obstacle != shard.IsLimited || pick.Skipped[0].InFlight != 1 {
			t.Errorf("got %+v, want the second branch, as the first is limited", pick)
		}
	}
}
