package engine

import (
	"context"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// A ledger's recent service counts from the oldest reading that is kept, up to ten minutes ago.
func TestLedgersLately(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, clock := bulkEngine(t, 0)
	for company := range 3 {
		insert(t, e, 900, number("company", int64(company)))
	}
	plan, err := queueAt(e, DefaultQueue).Plan([]byte(`"Fair(\"company\", OldestFirst)"`))
	if err != nil {
		t.Fatal(err)
	}
	take := func(n int) {
		got, err := queueAt(e, DefaultQueue).Reserve(ctx, ReserveRequest{Plan: plan, Max: n}, nil)
		if err != nil || len(got.Reservations) != n {
			t.Fatalf("reserve: got %d %v, want %d", len(got.Reservations), err, n)
		}
	}
	view := func() api.LedgerTenants {
		list, err := queueAt(e, DefaultQueue).Ledgers(ctx)
		if err != nil || len(list) != 1 {
			t.Fatalf("ledgers: got %d %v, want 1", len(list), err)
		}
		v, found, err := queueAt(e, DefaultQueue).LedgerTenants(ctx, list[0].ID, ByReceived, nil, 0)
		if err != nil || !found || len(v.Items) != 3 {
			t.Fatalf("tenants: got %d %v %v, want 3", len(v.Items), found, err)
		}
		return v
	}
	take(30)
	if v := view(); !v.LatelySince.IsZero() {
		t.Errorf("before the first reading: got %+v, want nothing", v.LatelySince)
	}
	for minute := range 20 {
		readLedgers(ctx, e.all(), queue.Time(clock.Load()))
		take(30)
		clock.Add(time.Minute.Milliseconds())
		v := view()
		minutes := min(minute+1, ledgerKept)
		if age := queue.Time(clock.Load()).Sub(queue.At(v.LatelySince.Time)); age != time.Duration(minutes)*time.Minute {
			t.Fatalf("after minute %d: it counts for %s, want %d minutes", minute, age, minutes)
		}
		for i := range v.Items {
			due := v.Items[i].Lately
			if want := float64(10 * minutes); due == nil || due.Received != want || due.Entitled < want-1.5 || due.Entitled > want+1.5 {
				t.Fatalf("after minute %d: tenant %d got %+v, want %v of each", minute, i, due, want)
			}
		}
	}
}
