package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A fleet grows and shrinks, and asks for a fifth for each company. No call brings a company above the call's number. A call gets less than
// it asked for only when each company with work has that number in flight.
//
//quern:sequential
func TestLimitInPercent(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	const companies, percent = 8, 20
	for i := range companies {
		insert(t, e, 2000, number("company", int64(i)))
	}
	var held []queue.Reservation
	inFlight := map[string]int{}
	count := func(list []queue.Reservation, by int) {
		for _, r := range list {
			value, _ := r.Meta.Find("company")
			inFlight[value.Quoted()] += by
		}
	}
	most := 0
	for step := range 120 {
		asked := 1 + step*7%40
		limit := max(1, percent*(len(held)+asked)/100)
		for unit := 1; ; unit *= 2 { // five binary digits
			if limit/unit < 32 {
				limit = limit / unit * unit
				break
			}
		}
		most = max(most, limit)
		before := map[string]int{}
		for company, n := range inFlight {
			before[company] = n
		}
		got, values := take(t, e, `MaxSimultaneous("company", "20%", OldestFirst)`, asked)
		held = append(held, got...)
		count(got, 1)
		for company, n := range inFlight {
			if n > max(limit, before[company]) {
				t.Fatalf("step %d: company %s has %d in flight after %d, want at most %d: %s", step, company, n, before[company], limit, values)
			}
			if len(got) < asked && n < limit {
				t.Fatalf("step %d: got %d of %d, but company %s has %d in flight of %d", step, len(got), asked, company, n, limit)
			}
		}
		if len(got) < asked && len(inFlight) < companies {
			t.Fatalf("step %d: got %d of %d from %d companies of %d", step, len(got), asked, len(inFlight), companies)
		}
		if step > 60 { // the fleet shrinks
			gone := min(len(held), 60)
			finishAll(t, e, held[:gone])
			count(held[:gone], -1)
			held = held[gone:]
		}
	}
	if most < 100 {
		t.Errorf("the largest number was %d, want 100 or more: the fleet did not grow", most)
	}
}

// A call that waits for a company at its share gets a chunk when others begin work, because the share grows.
func TestWaitForAGrowingShare(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := queueAt(e, DefaultQueue)
	insert(t, e, 10, text("company", "acme"))
	if _, got := take(t, e, "Random", 1); got != `"acme"` {
		t.Fatalf("got %s, want one of acme", got)
	}
	const half = `SelectOnly("company", "acme", MaxSimultaneous("company", "50%", Random))`
	if _, got := take(t, e, half, 1); got != `all_limited company="acme":1/1` {
		t.Fatalf("got %s, want acme to be at its limit of half of two", got)
	}
	plan, err := q.Plan(fmt.Appendf(nil, "%q", half))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string)
	go func() {
		result, err := q.Reserve(context.Background(), ReserveRequest{Max: 1, Plan: plan, Wait: time.Minute}, nil)
		served <- fmt.Sprint(said(result), err)
	}()
	insert(t, e, 2, text("company", "other"))
	if _, got := take(t, e, `SelectOnly("company", "other", Random)`, 2); got != `"other" "other"` {
		t.Fatalf("got %s, want the two others", got)
	}
	if got := <-served; got != `"acme"<nil>` {
		t.Errorf("the waiting call got %s, want acme, as half of four are two", got)
	}
}

// A waiting fleet gives the only company with work a fifth of the fleet, and not a fifth of the few chunks in flight.
func TestWaitingCallsCountForAShare(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	q := queueAt(e, DefaultQueue)
	const fleet, fifth = 50, 10
	plan, err := q.Plan([]byte(`"MaxSimultaneous(\"company\", \"20%\", OldestFirst)"`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan int, fleet)
	var group sync.WaitGroup
	for range fleet {
		group.Go(func() {
			got, _ := q.Reserve(ctx, ReserveRequest{Max: 1, Plan: plan, Wait: time.Minute}, nil)
			served <- len(got.Reservations)
		})
	}
	insert(t, e, 100, text("company", "acme"))
	for range fifth {
		if n := <-served; n != 1 {
			t.Fatalf("a waiting call got %d chunks, want 1", n)
		}
	}
	if got := q.Stats().Reserved; got != fifth {
		t.Errorf("%d are in flight, want a fifth of %d", got, fleet)
	}
	stop()
	group.Wait()
	closed(t, e)
}

// Questions show the number of the moment.
func TestQuestionsShowTheNumber(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := queueAt(e, DefaultQueue)
	insert(t, e, 100, text("company", "acme"))
	take(t, e, "Random", 39)
	plan, err := q.Plan([]byte(`"MaxSimultaneous(\"company\", \"50%\", Random)"`))
	if err != nil {
		t.Fatal(err)
	}
	now := q.Questions.PlanNow(plan, 1)
	if got := now.Text(); got != `MaxSimultaneous("company", 20, Random)` {
		t.Errorf("got %s, want half of 40", got)
	}
	found, err := q.Questions.Preview(context.Background(), PreviewRequest{Plan: q.Questions.PlanNow(plan, 90), Max: 90})
	if want := 64 - 39; err != nil || len(found.Picks) != want { // half of 39 and 90
		t.Errorf("the preview has %d picks, %v, want %d", len(found.Picks), err, want)
	}
}
