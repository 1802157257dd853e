package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
)

// Division is a Fair block of a branch that has a standing view. It may be kept while the
// backlog changes: once its view is gone, it has no tenants.
type Division struct {
	Branch string        // text of the branch
	Number int           // its place among the Fair blocks of the branch, the outermost first
	Depth  int           // how many are around it
	Key    queue.MetaKey // "": every submission is a tenant
	Time   bool          // consumer time is shared, not chunks
	of     *division
}

// Divisions calls fn for the Fair blocks of all standing views, those of one branch after each other.
func (l *ledgers) Divisions(fn func(Division)) {
	for v := range l.views.bases.views() {
		if v.fair == nil {
			continue
		}
		number := 0
		v.fair.root.each(0, func(d *division, depth int) {
			division := Division{Branch: v.key, Number: number, Depth: depth, Time: d.time, of: d}
			if d.key != nil {
				division.Key = d.key.name
			}
			number++
			fn(division)
		})
	}
}

// each calls fn for the division and those inside of it.
func (d *division) each(depth int, fn func(*division, int)) {
	fn(d, depth)
	for _, a := range d.arms {
		if a.inner != nil {
			a.inner.each(depth+1, fn)
		}
	}
}

// Place is how far a walk over the tenants of a Division came. The zero Place is the beginning.
type Place struct{ share, tenant int }

// Member is a tenant of a Division, at the place where it is: inside of these tenants of
// the blocks around it, the outermost first.
type Member struct {
	Tenant
	share *share
}

// Around are the tenants that the member is inside of, the outermost first. It is to be
// called before the backlog changes.
func (m *Member) Around() (list []Tenant) {
	for x := m.share; x.in != nil; x = x.in {
		list = append([]Tenant{x.in.tenant(x.as)}, list...)
	}
	return list
}

// Members calls fn for the tenants that are not idle, looking at up to `most` numbers from
// a place on; done says that it met all. Between two calls anything may happen to the
// backlog, and then a tenant may be met twice or not at all. fn must not change it.
func (d Division) Members(at *Place, most int, fn func(*Member)) (done bool) {
	if d.of.of.view.state == dropped {
		return true
	}
	for ; at.share < len(d.of.shares); at.share, at.tenant = at.share+1, 0 {
		for x := d.of.shares[at.share]; at.tenant < len(x.tenants); at.tenant++ {
			if most--; most < 0 {
				return false
			}
			if t := x.tenant(uint32(at.tenant)); t.State != fair.Idle {
				fn(&Member{t, x})
			}
		}
	}
	return true
}

// Add counts a tenant.
func (t *Totals) Add(tenant *Tenant) {
	switch tenant.State {
	case fair.Active:
		t.Active++
	case fair.Owing:
		t.Owing++
	case fair.Blocked:
		t.Blocked++
	}
}

// Places are how many places the block is at: one, or one inside of each tenant around it.
func (d Division) Places() int { return len(d.of.shares) }
