package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Tenant is the state of a tenant of a fair view. Of the pseudo key, Value is the submission's
// id as a string. Without HasValue it is the one tenant of all submissions that do not have the
// key. Each is the expected cost of one of its chunks: 1, or, where time is shared, this many
// seconds. Lags have the same unit.
type Tenant struct {
	Value    queue.MetaValue
	HasValue bool
	Each     float64
	fair.Info
}

// API is the tenant as JSON carries it, of a Fair block with this key.
func (t *Tenant) API(key queue.MetaKey) api.Tenant {
	out := api.Tenant{Key: key, State: t.State.String(), Weight: float64(t.Weight) / queue.DefaultWeight,
		Share: t.Share, Lag: t.Lag}
	if t.HasValue {
		out.Value = new(t.Value)
	}
	return out
}

// Competes says whether the tenant has something to offer and may.
func (t *Tenant) Competes() bool { return t.State == fair.Active }

// Share is one Fair block at one place: the outermost of a view, or an inner one inside of one
// tenant of the block around it. It may be kept while the backlog changes: once its place or
// its view is gone, its tenants do not compete.
type Share struct{ share *share }

// Seat is the part of a submission's tenant in a share.
type Seat struct {
	Share
	number uint32
}

// Tenant is how the tenant of the seat stands.
func (s Seat) Tenant() Tenant { return s.share.tenant(s.number) }

// Next is whose turn it is; false when no tenant competes.
func (s Share) Next() (Tenant, bool) {
	number, found := s.share.Pick()
	if !found {
		return Tenant{}, false
	}
	return s.share.tenant(number), true
}

// Tenants calls fn for the tenants that are not idle, looking at up to `most` numbers from
// `from` on, and returns the number to go on from; 0 when it met all. Between two calls
// anything may happen to the backlog. fn must not change it.
func (s Share) Tenants(from, most int, fn func(Tenant)) (next int) {
	for i := from; i < len(s.share.tenants); i++ {
		if i-from == most {
			return i
		}
		if t := s.share.tenant(uint32(i)); t.State != fair.Idle {
			fn(t)
		}
	}
	return 0
}

func (s *share) tenant(number uint32) Tenant {
	t := Tenant{Info: s.Info(number), HasValue: number != 0, Each: 1}
	if s.of.time {
		t.Each = float64(s.estimate(number)) / 1000
	}
	if !t.HasValue {
		return t
	}
	v, value := s.of.of.view, s.tenants[number].value
	switch {
	case value == none || v.ground == nil: // the view is gone
	case s.of.key != nil:
		if int(value) < len(v.Values.list) && v.Values.list[value] != nil { // else the view was dropped meanwhile
			t.Value = v.Values.list[value].value
		}
	default:
		t.Value = queue.IntValue(int64(value))
		if sub := v.subs.withSeq(value); sub != nil {
			t.Value = queue.StringValue(sub.id.String())
		}
	}
	return t
}

// Seats are the seats of the submission's tenants on the way to a leaf of a fair view, the
// outermost first; none if the view is not fair. They end at a tenant that is not known, as the
// submission is not in the leaf.
func (v *View) Seats(s *Submission, leaf int) (seats []Seat) {
	if v.fair == nil || v.state == dropped {
		return nil
	}
	path := v.fair.leaves[leaf].path
	x := v.fair.root.shares[0]
	for level, k := range path {
		number := uint32(0)
		if value := x.of.value(s); value != none {
			known := false
			if number, known = x.numberOf[value]; !known {
				break
			}
		}
		seats = append(seats, Seat{Share{x}, number})
		if level == len(path)-1 {
			break
		}
		if x = x.below[int(number)*len(x.of.arms)+k]; x == nil {
			break
		}
	}
	return seats
}

// NextShares are the shares on the way to a leaf of a fair view through the tenants whose
// turn it is, the outermost first; none if the view is not fair. They end where no tenant
// competes, and where that tenant has nothing that is for the leaf.
func (v *View) NextShares(leaf int) (shares []Share) {
	if v.fair == nil || v.state == dropped {
		return nil
	}
	path := v.fair.leaves[leaf].path
	x := v.fair.root.shares[0]
	for level, k := range path {
		shares = append(shares, Share{x})
		number, found := x.Pick()
		if !found || level == len(path)-1 {
			break
		}
		if x = x.below[int(number)*len(x.of.arms)+k]; x == nil {
			break
		}
	}
	return shares
}

// Totals counts the tenants of a Fair block wherever it is: of an inner one inside of
// every tenant around it, where it has a share each.
type Totals struct{ Shares, Active, Owing, Blocked int }

// Totals adds up to `most` shares of the Fair block that is this many levels inside of the
// outermost on the way to a leaf, from number `from` on, and returns the number to go on
// from; 0 when it met all. Between two calls anything may happen to the backlog.
func (v *View) Totals(leaf, level, from, most int, sum *Totals) (next int) {
	if v.fair == nil || v.state == dropped {
		return 0
	}
	d := v.fair.root
	for _, k := range v.fair.leaves[leaf].path[:level] {
		d = d.arms[k].inner
	}
	for i := from; i < len(d.shares); i++ {
		if i-from == most {
			return i
		}
		totals := d.shares[i].Ledger.Totals()
		sum.Shares++
		sum.Active += totals.Active
		sum.Owing += totals.Owing
		sum.Blocked += totals.Blocked
	}
	return 0
}
