package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// take reserves up to most chunks by a strategy and says of which values of "company" they are, sorted, or why there are none.
func take(t *testing.T, e *Engine, strategy string, most int) (got []queue.Reservation, values string) {
	t.Helper()
	plan, err := queueAt(e, DefaultQueue).Plan(fmt.Appendf(nil, "%q", strategy))
	if err != nil {
		t.Fatal(err)
	}
	result, err := queueAt(e, DefaultQueue).Reserve(context.Background(), ReserveRequest{Max: most, Plan: plan, Limited: queue.MaxLimited}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Reservations, said(result)
}

func said(result ReserveResult) string {
	var parts []string
	for _, r := range result.Reservations {
		value, _ := r.Meta.Find("company")
		parts = append(parts, value.Quoted())
	}
	if len(parts) == 0 {
		parts = append(parts, result.Reason.String())
		for _, v := range result.Limited {
			parts = append(parts, fmt.Sprintf("%s=%s:%d/%d", v.Key, v.Value.Quoted(), v.InFlight, v.Limit))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func finishAll(t *testing.T, e *Engine, held []queue.Reservation) {
	t.Helper()
	for _, r := range held {
		got, err := queueAt(e, DefaultQueue).Complete(context.Background(), []queue.CompleteItem{{Token: r.Token}}, nil)
		if err != nil || got[0].Outcome != queue.OutcomeOK {
			t.Fatalf("complete: %v, %v", got, err)
		}
	}
}

// A limit that is set while work runs is obeyed by the next reservation, whatever its strategy. Chunks in flight stay. The smaller one of
// the strategy's limit and this limit holds.
func TestSetLimitHoldsFromTheNextReservation(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority", `Fair("company", Random)`, `Fair("$submission", OldestFirst)`, `PreferDistinct("company", 1, Random)`, `MaxSimultaneous("company", 100, OldestFirst)`, `MaxSimultaneous("other", 1, OldestFirst)`, `SelectOnly("all", 1, Random)`} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			e := openAt(t, t.TempDir())
			defer closed(t, e)
			expect := func(most int, want string) []queue.Reservation {
				t.Helper()
				got, values := take(t, e, strategy, most)
				if values != want {
					t.Errorf("%s: got %s, want %s", strategy, values, want)
				}
				return got
			}
			acme := text("company", "acme")
			setValue(t, e, DefaultQueue, acme, limited(2)) // no submission has it yet
			insert(t, e, 20, acme, number("all", 1))
			insert(t, e, 2, number("company", 5), number("all", 1))
			held := expect(10, `"acme" "acme" 5 5`)
			expect(10, `all_limited company="acme":2/2`)
			setValue(t, e, DefaultQueue, acme, limited(1))
			expect(10, `all_limited company="acme":2/1`)
			at := slices.IndexFunc(held, func(r queue.Reservation) bool { v, _ := r.Meta.Find("company"); return v == acme.Value })
			finishAll(t, e, held[at:at+1])
			expect(10, `all_limited company="acme":1/1`)
			held = slices.Delete(held, at, at+1)
			finishAll(t, e, held)
			held = expect(10, `"acme"`)
			setValue(t, e, DefaultQueue, acme, limited(3))
			held = append(held, expect(10, `"acme" "acme"`)...)
			setValue(t, e, DefaultQueue, acme, limited(0))
			finishAll(t, e, held)
			expect(10, `all_limited company="acme":0/0`)
			setValue(t, e, DefaultQueue, acme, queue.ValueSettings{Limit: queue.NoLimit, Weight: 2000})
			expect(3, `"acme" "acme" "acme"`)
			setValue(t, e, DefaultQueue, acme, limited(0))
			expect(3, `all_limited company="acme":3/0`)
			if err := queueAt(e, DefaultQueue).Values.Delete(context.Background(), acme, nil); err != nil {
				t.Fatal(err)
			}
			expect(3, `"acme" "acme" "acme"`)
		})
	}
}

// The smaller of the two limits holds, whichever it is.
func TestSmallerLimitHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		strategy string
		set      uint32
		want     string
	}{
		{`MaxSimultaneous("company", 1, Random)`, 3, `"acme"`},
		{`MaxSimultaneous("company", 3, Random)`, 1, `"acme"`},
		{`MaxSimultaneous("company", 3, OldestFirst)`, 3, `"acme" "acme" "acme"`},
		{`MaxSimultaneous("company", 3, OldestFirst)`, 0, `all_limited company="acme":0/0`},
		{`OrElse(MaxSimultaneous("company", 1, OldestFirst), Random)`, 2, `"acme" "acme"`},
		{`Fair("company", Fair("$submission", Random))`, 0, `all_limited company="acme":0/0`},
		{`Fair("company", MaxSimultaneous("company", 2, OldestFirst))`, 5, `"acme" "acme"`},
	} {
		e := openAt(t, t.TempDir())
		insert(t, e, 9, text("company", "acme"))
		setValue(t, e, DefaultQueue, text("company", "acme"), limited(c.set))
		if _, got := take(t, e, c.strategy, 9); got != c.want {
			t.Errorf("%s with a limit of %d: got %s, want %s", c.strategy, c.set, got, c.want)
		}
		closed(t, e)
	}
}

// A limit that is set holds for the first reservation after a restart too.
func TestSetLimitHoldsAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openAt(t, dir)
	insert(t, e, 9, text("company", "acme"))
	setValue(t, e, DefaultQueue, text("company", "acme"), limited(2))
	for _, want := range []string{`"acme" "acme"`, `all_limited company="acme":2/2`} {
		closed(t, e)
		e = openAt(t, dir)
		if _, got := take(t, e, "Random", 9); got != want {
			t.Errorf("after a restart: got %s, want %s", got, want)
		}
	}
	closed(t, e)
}

// A consumer that waits is served when a limit is raised, and when it is removed; nothing else wakes it.
func TestRaisedLimitServesWhoWaits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	acme := text("company", "acme")
	insert(t, e, 9, acme)
	for _, change := range []func(){
		func() { setValue(t, e, DefaultQueue, acme, limited(1)) },
		func() { setValue(t, e, DefaultQueue, acme, queue.ValueSettings{Limit: queue.NoLimit, Weight: 5}) },
		func() {
			if err := queueAt(e, DefaultQueue).Values.Delete(ctx, acme, nil); err != nil {
				t.Error(err)
			}
		},
	} {
		setValue(t, e, DefaultQueue, acme, limited(0))
		plan, err := queueAt(e, DefaultQueue).Plan([]byte(`"Random"`))
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan string, 1)
		go func() {
			result, err := queueAt(e, DefaultQueue).Reserve(ctx, ReserveRequest{Max: 1, Plan: plan, Wait: time.Minute}, nil)
			if err != nil {
				answer <- err.Error()
				return
			}
			finishAll(t, e, result.Reservations)
			answer <- said(result)
		}()
		for waiting := uint64(0); waiting == 0; {
			stats := queueAt(e, DefaultQueue).Stats()
			waiting = stats.ConsumersWaiting
			select {
			case got := <-answer:
				t.Fatalf("a consumer that should wait got %s", got)
			default:
			}
		}
		change()
		if got := <-answer; got != `"acme"` {
			t.Errorf("who waited got %s, want a chunk", got)
		}
	}
}

// A weight that is set while there is work is the value's share under Fair from the next pick on.
func TestSetWeightIsTheShare(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	insert(t, e, 1000, text("company", "acme"))
	insert(t, e, 1000, text("company", "other"))
	for _, c := range []struct{ weight, acme, other int }{{0, 50, 50}, {3000, 75, 25}, {1000, 50, 50}, {250, 20, 80}} {
		if c.weight > 0 {
			setValue(t, e, DefaultQueue, text("company", "acme"), queue.ValueSettings{Limit: queue.NoLimit, Weight: uint32(c.weight)})
		}
		held, got := take(t, e, `Fair("company", OldestFirst)`, 100)
		acme, other := strings.Count(got, "acme"), strings.Count(got, "other")
		if acme < c.acme-3 || acme > c.acme+3 || acme+other != 100 {
			t.Errorf("with a weight of %d thousandths acme got %d and the other %d of 100, want %d and %d, give or take three", c.weight, acme, other, c.acme, c.other)
		}
		finishAll(t, e, held)
	}
}
