package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// frame is the base of views: the submissions that filters admit and that have an available chunk, in
// gates, in one order.
//
// The frame of a fair branch keeps no submissions itself: each leaf of the branch has a view with a
// frame of its own, with one group of gates per tenant. The fair frame has the shares that say whose
// turn it is (share.go).
type frame struct {
	// The fields that every pick reads stand together.
	*ground
	fair   *fairness // nil: the branch is not fair
	fewest *fewest   // nil: the order alone says which value comes first
	cells  *cells    // nil: there is one limit at most, and submissions stand in gates
	outer  *View     // of a leaf's frame: the fair view; nil: none
	groups []group   // of a leaf one per tenant; otherwise only groups[0]
	gates  []gate
	order  strategy.Order
	// a gate was made for an operator's limit of another key: a submission in it may also be under the
	// view's limit
	strays  bool
	leaf    uint8  // its place among the leaves of outer
	dropped bool   // no view stands on it
	number  uint32 // in frames.list
	offered int    // gates that are open to some view and not empty; of a fair view, in all its leaves
	size    int    // submissions in all gates; likewise
	changes uint64
	bands   bands  // of its views
	ruled   [2]int // of size, by book: submissions that a rule covers

	shape     string // in views.frameOf; "": no other view fits
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

// enlist makes a frame one of the views'.
func (vs *views) enlist(f *frame) {
	f.ground, f.bands.of = vs.ground, f
	vs.frames.add(f)
}

// makeFrame makes the frame of a branch that is not fair: of a view of its own, or of a leaf.
func (vs *views) makeFrame(br *strategy.Branch) *frame {
	f := &frame{order: br.Order, groups: make([]group, 1)}
	f.groups[0].clear()
	vs.enlist(f)
	for _, of := range br.Filters {
		f.filters = append(f.filters, vs.Values.newFilter(of))
	}
	for i := range f.filters {
		if x := &f.filters[i]; x.index != nil && (f.by == nil || shownIn(x.index) < shownIn(f.by.index)) {
			f.by = x
		}
	}
	for _, l := range br.Limits {
		k, of := vs.Values.limitBy(l.Key), l.Of
		if of == strategy.Rate {
			of = vs.Values.acquire(l).slot
		}
		f.limits = append(f.limits, limit{k, of, l.Gate()})
	}
	if len(f.limits) > 1 {
		f.cells = newCells(f)
	}
	if br.Fewest != "" {
		f.fewest = newFewest(f, br)
	}
	vs.frames.attach(f)
	f.next = uint32(len(f.list()))
	return f
}

// Build looks at up to most further submissions and takes those that match into the view; a view that
// shares the frame of a view with another number looks at gates instead. It reports whether the view is
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

func (f *frame) build(most int) {
	for {
		list := f.list()
		f.next = min(f.next, uint32(len(list)))
		for ; most > 0 && f.next > 0; most-- {
			f.next--
			s := f.subs.list[list[f.next]]
			if s.offered() && f.admits(s) && !s.memberOf(f.number) {
				f.join(s)
			}
		}
		if f.next > 0 || len(f.later()) == 0 {
			break
		}
		f.met++
		f.next = uint32(len(f.list()))
	}
	f.complete()
}

// list is the submissions that are being looked at.
func (f *frame) list() []uint32 {
	if f.by == nil {
		return f.subs.shown
	}
	return f.by.index[f.met].shown
}

// later are the terms whose submissions are examined later.
func (f *frame) later() []*term {
	if f.by == nil {
		return nil
	}
	return f.by.index[f.met+1:]
}

// unmet is how many submissions are still to be looked at, at most.
func (f *frame) unmet() int { return int(f.next) + shownIn(f.later()) }

// complete marks views as built in which nothing is missing.
func (f *frame) complete() {
	if f.unmet() > 0 || f.bands.unsettled > 0 {
		return
	}
	f.promised = 0
	for _, v := range f.bands.views {
		if v.state == building {
			v.state = built
		}
	}
}

func (f *frame) admits(s *Submission) bool {
	for i := range f.filters {
		if !f.filters[i].admits(s) {
			return false
		}
	}
	return true
}

func (f *frame) join(s *Submission) {
	at := uint32(len(s.members))
	s.members = append(s.members, member{frame: f.number})
	group := f.groupOf(s)
	if f.cells != nil {
		f.cells.enter(s, at, group)
	} else {
		f.put(s, at, f.home(s, group))
	}
	f.report(group)
}

// count adds to the counts of offered gates and of submissions, and stirs the views when there is
// something to take again. Where there are bands, bands.offer does that for each view.
func (f *frame) count(offered, size int) {
	if f.outer != nil {
		f.outer.count(offered, size)
	}
	wasEmpty := f.offered == 0
	f.changes++
	f.offered += offered
	f.size += size
	if wasEmpty && f.offered > 0 && !f.bands.on {
		for _, v := range f.bands.views {
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
