package fair

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// Whatever happens between Begin and Rollback, the ledger is as before, and goes on as one that was never asked.
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

// act does the same one thing to all of the ledgers.
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
