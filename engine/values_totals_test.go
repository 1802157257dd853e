package engine

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// sums are the numbers of each value as the list of submissions has them.
func sums(t *testing.T, q *Queue, key string) map[queue.MetaValue]api.ValueCount {
	t.Helper()
	all := map[queue.MetaValue]api.ValueCount{}
	page, err := q.Submissions.List(context.Background(), ListRequest{States: []queue.SubmissionState{queue.Open}, Limit: queue.MaxListLimit})
	if fatal(t, err); page.Next != "" {
		t.Fatal("not all submissions are on one page")
	}
	for _, s := range page.Items {
		for _, entry := range s.Meta {
			if entry.Key != key {
				continue
			}
			v := all[entry.Value]
			v.Value, v.Submissions = entry.Value, v.Submissions+1
			v.Ready += uint64(s.Ready)
			v.Waiting += uint64(s.Waiting)
			v.InFlight += uint64(s.Reserved)
			v.Dead += uint64(s.Dead)
			v.Done += uint64(s.Done)
			v.Paused += uint64(s.Paused)
			v.Blocked += uint64(s.Blocked)
			if created := s.Created.API(); s.Ready > 0 && (v.OldestReadyAt.IsZero() || created.Before(v.OldestReadyAt.Time)) {
				v.OldestReadyAt = created
			}
			all[entry.Value] = v
		}
	}
	return all
}

// The numbers of a value are the sums over its open submissions, in the list and alone, under rules, with submissions that wait for
// their time, that lost chunks or had them completed, and after a restart.
func TestNumbersOfAValueAreThoseOfItsSubmissions(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd, ctx, dir := rand.New(rand.NewPCG(seed, 0)), context.Background(), t.TempDir()
	e := openAt(t, dir)
	settings := queue.DefaultSettings()
	settings.MaxAttempts, settings.OnExhausted = 2, queue.DeadLetter
	_, _, err := e.PutQueue(ctx, DefaultQueue, settings)
	fatal(t, err)
	check := func() {
		t.Helper()
		q := queueAt(e, DefaultQueue)
		want := sums(t, q, "company")
		list, err := q.Values.List(ctx, "company", ValueSorts[rnd.IntN(len(ValueSorts))], queue.MaxListLimit)
		if fatal(t, err); len(list) != len(want) {
			t.Fatalf("%d values, want %d", len(list), len(want))
		}
		for _, v := range list {
			one, err := q.Values.Get(ctx, queue.MetaEntry{Key: "company", Value: v.Value})
			if fatal(t, err); one != want[v.Value] || v != want[v.Value] {
				t.Fatalf("seed %d: the list has %+v, and alone it is %+v; want %+v", seed, v, one, want[v.Value])
			}
		}
	}
	for step := range 400 {
		q := queueAt(e, DefaultQueue)
		switch rnd.IntN(6) {
		case 0, 1:
			n := queue.NewSubmission{Chunks: queue.Chunks{Count: 1 + rnd.Uint32N(9), Prefix: "x"}, OperationsPerChunk: 1,
				Meta: queue.Meta{number("company", rnd.Int64N(7)), number("user", rnd.Int64N(3))}}
			if rnd.IntN(4) == 0 {
				n.RunAt = queue.At(time.Now().Add(time.Hour))
			}
			_, _, err := q.Insert(ctx, n)
			fatal(t, err)
		case 2, 3:
			plan, err := q.Plan([]byte(`"Random"`))
			fatal(t, err)
			got, err := q.Reserve(ctx, ReserveRequest{Max: 1 + rnd.IntN(6), Plan: plan}, nil)
			fatal(t, err)
			for _, r := range got.Reservations {
				switch rnd.IntN(4) {
				case 0:
					_, err = q.Complete(ctx, []queue.CompleteItem{{Token: r.Token}}, nil)
				case 1:
					_, err = q.Fail(ctx, []queue.FailItem{{Token: r.Token, Error: "no", Fatal: rnd.IntN(2) == 0}}, nil)
				case 2:
					_, err = q.Release(ctx, []queue.ReleaseItem{{Token: r.Token}}, nil)
				}
				fatal(t, err)
			}
		case 4:
			action := []queue.RuleAction{queue.Pause, queue.Block}[rnd.IntN(2)]
			_, _, err := q.Rules.Set(ctx, queue.Rule{Action: action, Match: queue.RuleMatch{Entry: number("company", rnd.Int64N(7))}, Reason: "a test"}, nil)
			fatal(t, err)
		case 5:
			for _, rule := range q.shard.Rules.List() {
				_, _, err := q.Rules.Lift(ctx, rule.ID, "")
				fatal(t, err)
			}
		}
		if step%10 == 0 {
			check()
		}
	}
	check()
	closed(t, e)
	e = openAt(t, dir)
	defer closed(t, e)
	check()
}
