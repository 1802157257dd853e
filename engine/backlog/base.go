package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// base has the submissions of the views that stand on it: those that filters admit and that have an available chunk, in
// gates, in one order.
//
// The base of a fair branch keeps no submissions itself: each leaf of the branch has a view with a
// base of its own, with one group of gates per tenant. The fair base has the shares that say whose
// turn it is (share.go).
type base struct {
	// The fields that every pick reads stand together.
	*ground
	fair   *fairness // nil: the branch is not fair
	fewest *fewest   // nil: the order alone says which value comes first
	cells  *cells    // nil: there is one limit at most, and submissions stand in gates
	outer  *View     // of a leaf's base: the fair view; nil: none
	groups []group   // of a leaf one per tenant; otherwise only groups[0]
	gates  []gate
	order  strategy.Order
	// a gate was made for an operator's limit of another key: a submission in it may also be under the
	// view's limit
	strays  bool
	leaf    uint8  // its place among the leaves of outer
	dropped bool   // no view stands on it
	number  uint32 // in bases.list
	offered int    // gates that are open to some view and not empty; of a fair view, in all its leaves
	size    int    // submissions in all gates; likewise
	changes uint64
	bands   bands  // of its views
	ruled   [2]int // of size, by book: submissions that a rule covers

	shape     string // in views.baseOf; "": no other view fits
	filters   []filter
	limits    limits             // with views that differ in the number, it is the largest
	gateOf    map[gateKey]uint32 // without the free gates
	freeGates []uint32
	free      []uint32 // groups
	path      []int    // the arms that lead to this leaf, from the outermost division on

	by       *filter // by whose index submissions are found; nil: all are looked at
	met      uint32  // building: this many of its terms have all their submissions in
	next     uint32  // building: of the next one the shown submissions from here on are in
	promised uint64  // bytes that it may come to, while it is being built
}

// enlist makes a base one of the views'.
func (vs *views) enlist(b *base) {
	b.ground, b.bands.of = vs.ground, b
	vs.bases.add(b)
}

// makeBase makes the base of a branch that is not fair: of a view of its own, or of a leaf.
func (vs *views) makeBase(br *strategy.Branch) *base {
	b := &base{order: br.Order, groups: make([]group, 1)}
	b.groups[0].clear()
	vs.enlist(b)
	for _, of := range br.Filters {
		b.filters = append(b.filters, vs.Values.newFilter(of))
	}
	for i := range b.filters {
		if x := &b.filters[i]; x.index != nil && (b.by == nil || shownIn(x.index) < shownIn(b.by.index)) {
			b.by = x
		}
	}
	for _, l := range br.Limits {
		k, of := vs.Values.limitBy(l.Key), l.Of
		if of == strategy.Rate {
			of = vs.Values.acquire(l).slot
		}
		b.limits = append(b.limits, limit{k, of, l.Gate()})
	}
	if len(b.limits) > 1 {
		b.cells = newCells(b)
	}
	if br.Fewest != "" {
		b.fewest = newFewest(b, br)
	}
	vs.bases.attach(b)
	b.next = uint32(len(b.list()))
	return b
}

// Build looks at up to most further submissions and takes those that match into the view; a view that
// shares the base of a view with another number looks at gates instead. It reports whether the view is
// complete now. Between two calls anything may happen to the backlog.
//
// Build walks the list from its end. A submission shown meanwhile is appended, and joins the view by
// itself. The list's last entry replaces one that is hidden meanwhile; at worst it is looked at twice.
func (v *View) Build(most int) (complete bool) {
	if v.state != building {
		return true
	}
	if v.fair != nil {
		return v.fair.build(v, most)
	}
	v.build(v.bands.reband(most))
	return v.state == built
}

func (b *base) build(most int) {
	for {
		list := b.list()
		b.next = min(b.next, uint32(len(list)))
		for ; most > 0 && b.next > 0; most-- {
			b.next--
			s := b.subs.list[list[b.next]]
			if s.offered() && b.admits(s) && !s.memberOf(b.number) {
				b.join(s)
			}
		}
		if b.next > 0 || len(b.later()) == 0 {
			break
		}
		b.met++
		b.next = uint32(len(b.list()))
	}
	b.complete()
}

// list is the submissions that are being looked at.
func (b *base) list() []uint32 {
	if b.by == nil {
		return b.subs.shown
	}
	return b.by.index[b.met].shown
}

// later are the terms whose submissions are examined later.
func (b *base) later() []*term {
	if b.by == nil {
		return nil
	}
	return b.by.index[b.met+1:]
}

// unmet is how many submissions are still to be looked at, at most.
func (b *base) unmet() int { return int(b.next) + shownIn(b.later()) }

// complete marks views as built in which nothing is missing.
func (b *base) complete() {
	if b.unmet() > 0 || b.bands.unsettled > 0 {
		return
	}
	b.promised = 0
	for _, v := range b.bands.views {
		if v.state == building {
			v.state = built
		}
	}
}

func (b *base) admits(s *Submission) bool {
	for i := range b.filters {
		if !b.filters[i].admits(s) {
			return false
		}
	}
	return true
}

func (b *base) join(s *Submission) {
	at := uint32(len(s.members))
	s.members = append(s.members, member{base: b.number})
	group := b.groupOf(s)
	if b.cells != nil {
		b.cells.enter(s, at, group)
	} else {
		b.put(s, at, b.home(s, group))
	}
	b.report(group)
}

// count adds to the counts of offered gates and of submissions, and stirs the views when there is
// something to take again. Where there are bands, bands.offer does that for each view.
func (b *base) count(offered, size int) {
	if b.outer != nil {
		b.outer.count(offered, size)
	}
	wasEmpty := b.offered == 0
	b.changes++
	b.offered += offered
	b.size += size
	if wasEmpty && b.offered > 0 && !b.bands.on {
		for _, v := range b.bands.views {
			v.stir()
		}
	}
}

// before says whether an order has a before b.
func before(order strategy.Order, a, b *Submission) bool {
	return precedes(order, a.priority, a.id, b.priority, b.id)
}

// precedes says whether an order has a submission with this priority and id before another one.
func precedes(order strategy.Order, priority int64, id queue.SubmissionID, than int64, other queue.SubmissionID) bool {
	switch order {
	case strategy.NewestFirst:
		return id > other
	case strategy.CustomPriority:
		if priority != than {
			return priority > than
		}
	}
	return id < other
}
