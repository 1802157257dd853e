package backlog

import "github.com/quern-queue/quern/engine/strategy"

// frame is what views stand on: the submissions that filters admit and that have an available chunk, in gates, in one order.
//
// That of a fair branch keeps no submissions itself: each leaf of the branch has a view with a frame of its own, which has one group
// of gates per tenant, and the fair one has the shares that say whose turn it is (share.go).
type frame struct {
	// The fields that every pick reads stand together.
	in      *Backlog
	fair    *fairness // nil: the branch is not fair
	cells   *cells    // nil: there is one limit at most, and submissions stand in gates
	outer   *View     // the fair view of which this is a leaf's; nil: none
	groups  []group   // of a leaf one per tenant; otherwise only groups[0]
	gates   []gate
	order   strategy.Order
	strays  bool   // a gate was made for an operator's limit of another key: who stands there may be under the view's own
	leaf    uint8  // its place among the leaves of outer
	dropped bool   // no view stands on it
	number  uint32 // in views.frames
	offered int    // gates that are open to some view and not empty; of a fair view, in all its leaves
	size    int    // submissions in all gates; likewise
	changes uint64
	bands   bands  // of its views
	ruled   [2]int // of size, by book: submissions that a rule covers

	shape     string // in views.frameOf; "": no other view fits
	filters   []*term
	limits    limits             // of views that differ in the number it is the largest
	gateOf    map[gateKey]uint32 // without the free gates
	freeGates []uint32
	free      []uint32 // groups
	path      []int    // the arms that lead to this leaf, from the outermost division on

	anchor   *term  // the filter whose submissions are looked at; nil: all
	next     int    // building: anchor's shown submissions from here on are in
	promised uint64 // bytes that it may come to, while it is being built
}

// enlist gives a new frame a number.
func (vs *views) enlist(f *frame) {
	f.in, f.bands.of = vs.of, f
	if last := len(vs.freeFrames) - 1; last >= 0 {
		f.number, vs.freeFrames = vs.freeFrames[last], vs.freeFrames[:last]
		vs.frames[f.number] = f
		return
	}
	f.number = uint32(len(vs.frames))
	vs.frames = append(vs.frames, f)
}

// makeFrame makes the frame of a branch that is not fair: of a view of its own, or of a leaf.
func (vs *views) makeFrame(br *strategy.Branch) *frame {
	f := &frame{order: br.Order, groups: make([]group, 1)}
	f.groups[0].clear()
	vs.enlist(f)
	possible := true
	for i, filter := range br.Filters {
		t := vs.of.Values.intern(filter.Key, filter.Value)
		t.uses++
		f.filters = append(f.filters, t)
		if f.anchor == nil || len(t.shown) < len(f.anchor.shown) {
			f.anchor = t
		}
		possible = possible && (i == 0 || br.Filters[i-1].Key != filter.Key || br.Filters[i-1].Value == filter.Value)
	}
	for _, l := range br.Limits {
		k := vs.of.Values.internKey(l.Key)
		k.limits++
		f.limits = append(f.limits, limit{k, l.Max})
	}
	if len(f.limits) > 1 {
		f.cells = newCells(f)
	}
	switch {
	case !possible: // two values of one key: no submission will ever match
	case f.anchor == nil:
		vs.broad = append(vs.broad, f)
		f.next = len(vs.of.shown)
	default:
		f.anchor.frames = append(f.anchor.frames, f)
		f.next = len(f.anchor.shown)
	}
	return f
}

// Build looks at up to most further submissions and takes those that match into the view; where it shares those of another view that
// differs in a number, it looks at gates. It reports whether the view is complete now. Between two calls anything may happen to the
// backlog.
//
// The list is walked from its end: what is shown meanwhile is appended, and joins the view by itself; what is hidden
// meanwhile is replaced by the list's last, which at worst is looked at twice.
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
	b, list := f.in, f.in.shown
	if f.anchor != nil {
		list = f.anchor.shown
	}
	f.next = min(f.next, len(list))
	for ; most > 0 && f.next > 0; most-- {
		f.next--
		s := b.subs[list[f.next]]
		if s.offered() && f.admits(s) && !s.memberOf(f.number) {
			f.join(s)
		}
	}
	f.complete()
}

// complete says of views that nothing is missing in that they are built.
func (f *frame) complete() {
	if f.next > 0 || f.bands.unsettled > 0 {
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
	for _, t := range f.filters {
		if !s.hasTerm(t.number) {
			return false
		}
	}
	return true
}

// offer takes a shown submission that has available chunks into every view it matches.
func (b *Backlog) offer(s *Submission) {
	b.oldest = heapPush(byID{b}, b.oldest, s.slot)
	for _, f := range b.Views.broad {
		f.join(s)
	}
	for _, ref := range s.refs() {
		for _, f := range b.Values.list[ref.term].frames {
			if f.admits(s) {
				f.join(s)
			}
		}
	}
}

// unoffer takes it out of all views. Its available chunks must still be counted as they were.
func (b *Backlog) unoffer(s *Submission) {
	if s.oldestAt != none {
		b.oldest = trimmed(heapRemove(byID{b}, b.oldest, int(s.oldestAt)))
		s.oldestAt = none
	}
	for i := range s.members {
		f := b.Views.frames[s.members[i].frame]
		group := f.groupAt(s.members[i].gate)
		f.take(s, uint32(i))
		f.settle(group)
	}
	s.members = s.members[:0]
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
	f.settle(group)
}

// count adds to what the frame offers and holds, and stirs its view when it has something again. Where there are bands that is for each
// view to say.
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

func (f *frame) before(a, b *Submission) bool {
	switch f.order {
	case strategy.NewestFirst:
		return a.id > b.id
	case strategy.CustomPriority:
		if a.priority != b.priority {
			return a.priority > b.priority
		}
	}
	return a.id < b.id
}
