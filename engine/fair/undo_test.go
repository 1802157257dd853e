package fair

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// Whatever happens between Begin and Rollback, the ledger is as before, and goes on as if nothing had happened.
func TestRollback(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		l, twin := &Ledger{}, &Ledger{}
		n := 1 + r.IntN(40)
		for step := range 300 {
			act(r.Uint64(), n, l, twin)
			if r.IntN(10) > 0 {
				continue
			}
			before := l.Clone()
			l.Begin()
			for range r.IntN(30) {
				act(r.Uint64(), n+5, l)
			}
			touched := l.Rollback()
			if !slices.IsSorted(touched) || l.SumOfLags() != 0 {
				t.Fatalf("seed %d step %d: touched %v, sum of lags %v", seed, step, touched, l.SumOfLags())
			}
			l.slots = l.slots[:len(before.slots)]
			if !reflect.DeepEqual(fmt.Sprintf("%+v", *l), fmt.Sprintf("%+v", *before)) {
				t.Fatalf("seed %d step %d:\n got %+v\nwant %+v", seed, step, *l, *before)
			}
		}
		if a, b := l.Totals(), twin.Totals(); a != b {
			t.Fatalf("seed %d: totals %+v, of one that was never asked %+v", seed, a, b)
		}
	}
}

// act makes the same random call to all of the ledgers.
func act(draw uint64, n int, ledgers ...*Ledger) {
	for _, l := range ledgers {
		r := rand.New(rand.NewPCG(draw, 6))
		tenant := uint32(r.IntN(n))
		switch r.IntN(9) {
		case 0, 1:
			l.Join(tenant)
		case 2:
			l.Leave(tenant)
		case 3:
			l.Block(tenant)
		case 4:
			l.SetWeight(tenant, Weight(1+r.IntN(5000)))
		case 5:
			l.Forget(tenant)
		case 6:
			l.Refund(tenant, Chunk)
		default:
			if picked, ok := l.Pick(); ok {
				l.Charge(picked, Chunk)
			}
		}
	}
}

// A look ahead may renumber, which touches every slot, also of tenants that the look is not about. After Begin and Rollback, or after a
// look by Clone, the ledger is as before, and goes on as if nothing had happened.
func TestLookAheadOverRenumbering(t *testing.T) {
	t.Parallel()
	const tenants = 10
	l, twin := new(Ledger), new(Ledger)
	for _, l := range []*Ledger{l, twin} {
		for tenant := range uint32(tenants) {
			l.SetWeight(tenant, MinWeight)
			l.Join(tenant)
			l.Expect(tenant, MaxCost)
		}
		for range 5 { // one that owes and one that is blocked have numbers too
			picked, _ := l.Pick()
			l.Charge(picked, MaxCost)
		}
		l.Leave(0)
		l.Block(1)
	}
	renumbers := func(l *Ledger) bool {
		before := l.passed
		for range 40 {
			picked, ok := l.Pick()
			if !ok {
				t.Fatal("no one competes")
			}
			l.Charge(picked, MaxCost)
		}
		return l.passed != before
	}
	looks := 0
	for round := range 200 {
		before := l.Clone()
		if round%2 == 0 {
			l.Begin()
			if renumbers(l) {
				looks++
			}
			l.Rollback()
		} else if renumbers(l.Clone()) {
			looks++
		}
		if got, want := fmt.Sprintf("%+v", *l), fmt.Sprintf("%+v", *before); got != want {
			t.Fatalf("round %d:\n got %s\nwant %s", round, got, want)
		}
		for range 7 {
			got, _ := l.Pick()
			if want, _ := twin.Pick(); got != want {
				t.Fatalf("round %d picks tenant %d, the one that was never asked %d", round, got, want)
			}
			l.Charge(got, MaxCost)
			twin.Charge(got, MaxCost)
			audit(t, l)
		}
	}
	if looks < 10 {
		t.Errorf("%d looks ahead took numbers back, want 10 at least", looks)
	}
}
