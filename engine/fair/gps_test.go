package fair

import (
	"math"
	"math/big"
	"testing"
)

// gps is the ideal that the ledger is measured against: a fluid that is served to all tenants with fluid at the same time, in
// proportion to their weights, one chunk in all per step. It knows the true backlogs and computes with 160 bits. Nothing of it
// is the ledger's: it goes from one event (a tenant's fluid ends) to the next, looking at all tenants.
type gps struct {
	now     *big.Float // virtual time: chunks per thousandth of weight
	tenants []fluid
	active  []int
	sum     int64      // of the weights of the active
	spare   *big.Float // chunks that were to be served when no tenant had fluid
	a, b    *big.Float // scratch
}

type fluid struct {
	weight   int64
	served   *big.Float // before since
	since    *big.Float // virtual
	end      *big.Float // virtual
	isActive bool
}

func newFloat() *big.Float { return new(big.Float).SetPrec(160) }

func newGPS(weights []Weight) *gps {
	g := &gps{now: newFloat(), spare: newFloat(), a: newFloat(), b: newFloat()}
	for _, w := range weights {
		g.tenants = append(g.tenants, fluid{int64(w), newFloat(), newFloat(), newFloat(), false})
	}
	return g
}

func (g *gps) add(i int, chunks float64) {
	f := &g.tenants[i]
	if !f.isActive {
		g.enter(i)
		f.end.Set(g.now)
	}
	g.a.SetFloat64(chunks)
	f.end.Add(f.end, g.a.Quo(g.a, g.b.SetInt64(f.weight)))
}

func (g *gps) enter(i int) {
	f := &g.tenants[i]
	f.isActive = true
	f.since.Set(g.now)
	g.sum += f.weight
	g.active = append(g.active, i)
}

// exit stops serving a tenant; its `end` says what is left.
func (g *gps) exit(i int) {
	f := &g.tenants[i]
	if !f.isActive {
		return
	}
	g.account(f)
	f.isActive = false
	g.sum -= f.weight
	for at, other := range g.active {
		if other == i {
			g.active[at] = g.active[len(g.active)-1]
			g.active = g.active[:len(g.active)-1]
			return
		}
	}
}

func (g *gps) account(f *fluid) {
	g.a.Sub(g.now, f.since)
	f.served.Add(f.served, g.a.Mul(g.a, g.b.SetInt64(f.weight)))
	f.since.Set(g.now)
}

// suspend takes a tenant's fluid away, to be given back by resume.
func (g *gps) suspend(i int) (left *big.Float) {
	f := &g.tenants[i]
	left = newFloat()
	if f.isActive {
		left.Sub(f.end, g.now)
		left.Mul(left, g.b.SetInt64(f.weight))
		g.exit(i)
	}
	return left
}

func (g *gps) resume(i int, left *big.Float) {
	if left.Sign() <= 0 {
		return
	}
	f := &g.tenants[i]
	g.enter(i)
	g.a.Quo(left, g.b.SetInt64(f.weight))
	f.end.Add(g.now, g.a)
}

func (g *gps) setWeight(i int, w Weight) {
	left := g.suspend(i)
	g.tenants[i].weight = int64(w)
	g.resume(i, left)
}

// step serves one chunk. What it has no fluid for it serves later: a chunk that was really handed out meanwhile (to a tenant
// that was behind, while those that are ahead were blocked) is theirs.
func (g *gps) step() {
	rest := newFloat().SetInt64(1)
	rest.Add(rest, g.spare)
	g.spare.SetInt64(0)
	for len(g.active) > 0 && rest.Sign() > 0 {
		first := g.active[0]
		for _, i := range g.active[1:] {
			if g.tenants[i].end.Cmp(g.tenants[first].end) < 0 {
				first = i
			}
		}
		f := &g.tenants[first]
		g.a.Sub(f.end, g.now)
		g.a.Mul(g.a, g.b.SetInt64(g.sum))
		if g.a.Cmp(rest) > 0 {
			g.now.Add(g.now, rest.Quo(rest, g.b))
			return
		}
		rest.Sub(rest, g.a)
		g.now.Set(f.end)
		g.exit(first)
	}
	g.spare.Set(rest)
}

// lag is what the ideal has served the tenant beyond what it received.
func (g *gps) lag(i int, received int64) float64 {
	f := &g.tenants[i]
	sum := newFloat().Set(f.served)
	if f.isActive {
		g.a.Sub(g.now, f.since)
		sum.Add(sum, g.a.Mul(g.a, g.b.SetInt64(f.weight)))
	}
	lag, _ := sum.Sub(sum, g.a.SetInt64(received)).Float64()
	return lag
}

// The oracle itself: shares by hand.
func TestGPS(t *testing.T) {
	t.Parallel()
	g := newGPS([]Weight{1000, 3000, 4000})
	expect := func(step string, want ...float64) {
		t.Helper()
		for i, w := range want {
			if got := g.lag(i, 0); math.Abs(got-w) > 1e-12 {
				t.Errorf("%s: tenant %d was served %v, want %v", step, i, got, w)
			}
		}
	}
	g.add(0, 10)
	g.add(1, 1.5)
	g.step()
	expect("weights 1 and 3", 0.25, 0.75, 0)
	g.step() // 1 runs dry after exactly one more
	expect("weights 1 and 3", 0.5, 1.5, 0)
	g.add(2, 10)
	g.step()
	expect("1 is dry, 2 is new", 0.7, 1.5, 0.8)
	left := g.suspend(2)
	g.step()
	expect("2 is suspended", 1.7, 1.5, 0.8)
	g.resume(2, left)
	g.setWeight(2, 1000)
	g.step()
	g.step()
	expect("2 is back with weight 1", 2.7, 1.5, 1.8)
	for range 16 {
		g.step()
	}
	expect("everything is served", 10, 1.5, 10)
	g.step()
	expect("nothing is left", 10, 1.5, 10)
	g.add(1, 5)
	g.step()
	expect("what could not be served is served later", 10, 4, 10)
}
