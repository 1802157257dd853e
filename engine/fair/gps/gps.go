// Package gps computes exact generalised processor sharing: how much service each tenant would get if service were a fluid.
// Tests and benchmarks compare a fair.Ledger with it; the server does not use it.
//
//quern:tests pure
package gps

import "math/big"

// System is the ideal that a ledger is measured against. It serves all tenants with fluid at the same time, in proportion to their weights,
// one chunk in all per step. It knows the true backlogs and computes with 160 bits. It shares nothing with a ledger: it goes from one event
// (a tenant's fluid ends) to the next, and looks at all tenants.
type System struct {
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

// New is a system of tenants with these weights, in thousandths, at least 1. No tenant has anything to be served.
func New(weights []int64) *System {
	g := &System{now: newFloat(), spare: newFloat(), a: newFloat(), b: newFloat()}
	for _, w := range weights {
		g.tenants = append(g.tenants, fluid{w, newFloat(), newFloat(), newFloat(), false})
	}
	return g
}

// Add gives a tenant this many chunks more.
func (g *System) Add(i int, chunks float64) {
	f := &g.tenants[i]
	if !f.isActive {
		g.enter(i)
		f.end.Set(g.now)
	}
	g.a.SetFloat64(chunks)
	f.end.Add(f.end, g.a.Quo(g.a, g.b.SetInt64(f.weight)))
}

func (g *System) enter(i int) {
	f := &g.tenants[i]
	f.isActive = true
	f.since.Set(g.now)
	g.sum += f.weight
	g.active = append(g.active, i)
}

// exit stops serving a tenant; its `end` says what is left.
func (g *System) exit(i int) {
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

func (g *System) account(f *fluid) {
	g.a.Sub(g.now, f.since)
	f.served.Add(f.served, g.a.Mul(g.a, g.b.SetInt64(f.weight)))
	f.since.Set(g.now)
}

// Suspend takes a tenant's fluid away, to be given back by Resume.
func (g *System) Suspend(i int) (left *big.Float) {
	f := &g.tenants[i]
	left = newFloat()
	if f.isActive {
		left.Sub(f.end, g.now)
		left.Mul(left, g.b.SetInt64(f.weight))
		g.exit(i)
	}
	return left
}

// Resume gives a tenant the fluid that Suspend took.
func (g *System) Resume(i int, left *big.Float) {
	if left.Sign() <= 0 {
		return
	}
	f := &g.tenants[i]
	g.enter(i)
	g.a.Quo(left, g.b.SetInt64(f.weight))
	f.end.Add(g.now, g.a)
}

// SetWeight changes a weight, of a suspended tenant too, from now on.
func (g *System) SetWeight(i int, weight int64) {
	left := g.Suspend(i)
	g.tenants[i].weight = weight
	g.Resume(i, left)
}

// Step serves one chunk. If no tenant is left to serve, later steps serve the rest: the real chunk went to a tenant that was behind while
// those ahead were blocked, so its service is due to them.
func (g *System) Step() {
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

// Lag is the service that the ideal has given the tenant beyond what it received.
func (g *System) Lag(i int, received int64) float64 {
	f := &g.tenants[i]
	sum := newFloat().Set(f.served)
	if f.isActive {
		g.a.Sub(g.now, f.since)
		sum.Add(sum, g.a.Mul(g.a, g.b.SetInt64(f.weight)))
	}
	lag, _ := sum.Sub(sum, g.a.SetInt64(received)).Float64()
	return lag
}
