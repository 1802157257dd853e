package fair

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Any calls in any order, sensible or not, of any costs: the books stay in order, and the same calls make the same ledger.
func TestAnything(t *testing.T) {
	t.Parallel()
	s := seed(t)
	for i := range 300 {
		run := func() *Ledger {
			rnd := rand.New(rand.NewPCG(s, uint64(i)))
			l := &Ledger{Prompt: i%2 == 0}
			n := 1 + rnd.IntN(40)
			most := Cost(1) << (20 + rnd.IntN(40))
			for step := range 400 {
				anything(l, rnd, uint32(rnd.IntN(n)), Cost(rnd.Int64N(int64(most))))
				if step%20 == 0 {
					audit(t, l)
				}
			}
			audit(t, l)
			return l
		}
		if once, again := run(), run(); !reflect.DeepEqual(once, again) {
			t.Fatalf("instance %d: the same calls made two ledgers", i)
		}
	}
}

func anything(l *Ledger, rnd *rand.Rand, tenant uint32, cost Cost) {
	switch rnd.IntN(16) {
	case 0, 1, 2:
		l.Join(tenant)
	case 3:
		l.Leave(tenant)
	case 4:
		l.Block(tenant)
	case 5:
		if l.Info(tenant).State == Blocked {
			l.Join(tenant)
		}
	case 6:
		l.SetWeight(tenant, Weight(rnd.Uint32N(1<<rnd.IntN(22))))
	case 7:
		l.Expect(tenant, cost)
	case 8:
		l.Forget(tenant)
	case 9:
		l.Charge(tenant, cost)
	case 10:
		l.Refund(tenant, cost)
	case 11:
		l.Correct(tenant, cost, cost/2)
	default:
		if tenant, ok := l.Pick(); ok {
			l.Charge(tenant, cost)
		}
	}
}

// Ten tenants of the least weight share two hundred thousand charges of the greatest cost, six times what 10^12 picks of chunks at weight 1
// add to their tags. Every pick is the same as with small costs. Then tenants are blocked and unblocked, too. Nothing overflows and nothing
// drifts.
func TestEndurance(t *testing.T) {
	t.Parallel()
	const tenants, picks = 10, 100_000
	large, small := new(Ledger), new(Ledger)
	for tenant := range uint32(tenants) {
		for _, l := range []*Ledger{large, small} {
			l.SetWeight(tenant, MinWeight)
			l.Join(tenant)
		}
		large.Expect(tenant, MaxCost)
	}
	const scale = MaxCost / Chunk
	renumbered, passed := 0, 0.0
	for pick := range picks {
		got, _ := large.Pick()
		want, _ := small.Pick()
		if got != want {
			t.Fatalf("pick %d: large costs pick %d, small ones %d", pick, got, want)
		}
		large.Charge(got, MaxCost)
		small.Charge(want, Chunk)
		if got, want := large.Lag(got), small.Lag(want)*scale; got-want > scale || want-got > scale {
			t.Fatalf("pick %d: lag %d, want %d within rounding", pick, got, want)
		}
		if passed != large.passed {
			renumbered, passed = renumbered+1, large.passed
			audit(t, large)
		}
	}
	if want := picks / 32 / tenants / 2; renumbered < want {
		t.Errorf("the numbers were taken back %d times, want at least %d", renumbered, want)
	}
	for tenant := range uint32(tenants) {
		if got, want := large.Info(tenant).Received, picks/tenants*float64(scale); got != want {
			t.Errorf("tenant %d received %v, want %v", tenant, got, want)
		}
	}

	s := seed(t)
	rnd := rand.New(rand.NewPCG(s, 1))
	for pick := range picks {
		if other := uint32(1 + rnd.IntN(tenants-1)); large.Info(other).State == Blocked {
			large.Join(other)
		} else if rnd.IntN(2) == 0 {
			large.Block(other)
		}
		got, _ := large.Pick()
		large.Charge(got, MaxCost)
		if lag := large.Lag(got); lag > 3*MaxCost || lag < -3*MaxCost {
			t.Fatalf("seed %d, pick %d: tenant %d has lag %v, want 3 times the cost at most", s, pick, got, lag.In(MaxCost))
		}
		if pick%100 == 0 {
			audit(t, large)
		}
	}
}

// A tenant that is charged without being picked, or gets refunds without charges, moves away from the others only up to a limit.
func TestLeadIsLimited(t *testing.T) {
	t.Parallel()
	for _, w := range []Weight{MinWeight, MaxWeight} {
		l := new(Ledger)
		for tenant := range uint32(3) {
			l.SetWeight(tenant, w)
			l.Join(tenant)
		}
		l.Block(2)
		for range 1000 {
			l.Charge(0, MaxCost)
			l.Charge(2, MaxCost)
			l.Refund(1, MaxCost)
		}
		audit(t, l)
		for tenant, want := range []Cost{-1, 1, -1} {
			if got := l.Lag(uint32(tenant)) / MaxCost; got*want < 1 || got*want > 64 {
				t.Errorf("weight %d, tenant %d: lag %d times the greatest cost, want %d times 1 to 64", w, tenant, got, want)
			}
		}
		if tenant, ok := l.Pick(); tenant != 1 || !ok {
			t.Errorf("weight %d: picked %d, %t, want 1", w, tenant, ok)
		}
	}
}
