package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// View is the standing index of one branch: the shown submissions that its filters admit and that have an available chunk,
// kept in its order. It is got from Backlog.View and is valid until Backlog.DropViews, beyond it if it is watched.
//
// The view of a fair branch keeps no submissions itself: each leaf of the branch has a view of its own, which has one group
// of gates per tenant, and the fair one has the shares that say whose turn it is (share.go).
type View struct {
	Watch bool // Stirred is to tell when there is something to take again
	Data  any  // the caller's own
	Owner any  // whose share of memory it counts in; the caller's own

	in      *Backlog
	key     string
	number  uint32 // in Backlog.views
	order   strategy.Order
	filters []*term
	limits  []limit
	anchor  *term // the filter whose submissions are looked at; nil: all
	next    int   // building: anchor's shown submissions from here on are in
	state   viewState
	stirred bool // told by the next Stirred
	used    uint64

	asked    bool   // questions made it, and no one has taken from it
	promised uint64 // bytes that it may come to, while it is being built

	cells     *cells // nil: there is one limit at most, and submissions stand in gates
	strays    bool   // a gate was made for an operator's limit of another key: who stands there may be under the view's own
	gates     []gate
	gateOf    map[gateKey]uint32 // without the free gates
	freeGates []uint32
	groups    []group // of a leaf one per tenant; otherwise only groups[0]
	free      []uint32
	size      int    // submissions in all gates; of a fair view, in all its leaves'
	offered   int    // gates that are open and not empty; likewise
	ruled     [2]int // of size, by book: submissions that a rule covers
	changes   uint64

	fair   *fairness // nil: the branch is not fair
	outer  *View     // the fair view that this one is a leaf of; nil: none
	leaf   uint8     // its place among the leaves
	path   []int     // the arms that lead to this leaf, from the outermost division on
	charge Charge    // fair: for the chunk taken last
}

type limit struct {
	key *metaKey
	max uint32
}

type viewState uint8

const (
	building viewState = iota
	built
	dropped
)

// Built says whether every submission that the view's branch admits is in it. Until then Take sees a part.
func (v *View) Built() bool { return v.state != building }

// Empty says that Take would find nothing at this moment. With two or more limits, or where an operator limits values, it may
// say false although what is left is limited; Take finds out.
func (v *View) Empty() bool { return v.offered == 0 }

// Gated says that the view has submissions with available chunks, whether or not their limits let them be taken: of an
// Empty view, that limits are all that is in the way.
func (v *View) Gated() bool { return v.size > 0 }

// View is the standing view of the branch. On first use it is made, unbuilt: ask Promise whether there is room for it, then call
// Build until it is built. It is nil if the branch is fair and not even dropping makes room for its ledger: ask Admit before.
func (b *Backlog) View(br *strategy.Branch) *View {
	key := br.Key()
	v := b.viewOf[key]
	if v == nil || v.asked {
		if v = b.replace(v, br, key); v == nil {
			return nil
		}
	}
	b.touch(v)
	return v
}

// replace makes a view, in the place of one that only questions made: there may be room for it or not.
func (b *Backlog) replace(asked *View, br *strategy.Branch, key string) *View {
	if br.Fair != "" && !b.makeRoom() {
		return nil
	}
	if asked != nil {
		b.drop(asked)
	}
	return b.make(br, key)
}

// Ask is View for a question, which changes nothing: a view that it has to make counts as one of questions, until View is called
// for the branch; and the use of another one does not count.
func (b *Backlog) Ask(br *strategy.Branch) *View {
	key := br.Key()
	v := b.viewOf[key]
	if v == nil {
		if br.Fair != "" && !b.makeAskedRoom() {
			return nil
		}
		v = b.make(br, key)
		v.asked = true
	}
	if v.asked {
		b.touch(v)
	}
	return v
}

func (b *Backlog) make(br *strategy.Branch, key string) (v *View) {
	if br.Fair != "" {
		v = b.makeFair(br, key)
	} else {
		v = b.makeView(br, key)
	}
	b.viewOf[key] = v
	return v
}

func (b *Backlog) touch(v *View) {
	b.uses++
	v.used = b.uses
}

// enlist gives a new view a number.
func (b *Backlog) enlist(v *View) {
	v.in = b
	if last := len(b.freeViews) - 1; last >= 0 {
		v.number, b.freeViews = b.freeViews[last], b.freeViews[:last]
		b.views[v.number] = v
		return
	}
	v.number = uint32(len(b.views))
	b.views = append(b.views, v)
}

// makeView makes the view of a branch that is not fair: one of its own, or a leaf.
func (b *Backlog) makeView(br *strategy.Branch, key string) *View {
	v := &View{key: key, order: br.Order, groups: make([]group, 1)}
	v.groups[0].clear()
	b.enlist(v)
	possible := true
	for i, f := range br.Filters {
		t := b.intern(f.Key, f.Value)
		t.uses++
		v.filters = append(v.filters, t)
		if v.anchor == nil || len(t.shown) < len(v.anchor.shown) {
			v.anchor = t
		}
		possible = possible && (i == 0 || br.Filters[i-1].Key != f.Key || br.Filters[i-1].Value == f.Value)
	}
	for _, l := range br.Limits {
		k := b.internKey(l.Key)
		k.limits++
		v.limits = append(v.limits, limit{k, l.Max})
	}
	if len(v.limits) > 1 {
		v.cells = newCells(len(v.limits))
	}
	switch {
	case !possible: // two values of one key: no submission will ever match
	case v.anchor == nil:
		b.broad = append(b.broad, v)
		v.next = len(b.shown)
	default:
		v.anchor.views = append(v.anchor.views, v)
		v.next = len(v.anchor.shown)
	}
	return v
}

// Build looks at up to most further submissions and takes those that match into the view. It reports whether the view is
// complete now. Between two calls anything may happen to the backlog.
//
// The list is walked from its end: what is shown meanwhile is appended, and joins the view by itself; what is hidden
// meanwhile is replaced by the list's last, which at worst is looked at twice.
func (b *Backlog) Build(v *View, most int) (complete bool) {
	if v.state != building {
		return true
	}
	if v.fair != nil {
		return v.fair.build(v, most)
	}
	list := b.shown
	if v.anchor != nil {
		list = v.anchor.shown
	}
	v.next = min(v.next, len(list))
	for ; most > 0 && v.next > 0; most-- {
		v.next--
		s := b.subs[list[v.next]]
		if s.offered() && v.admits(s) && !s.memberOf(v.number) {
			v.join(s)
		}
	}
	if v.next == 0 {
		v.state = built
	}
	return v.state == built
}

func (v *View) admits(s *Submission) bool {
	for _, t := range v.filters {
		if !s.hasTerm(t.number) {
			return false
		}
	}
	return true
}

// offer takes a shown submission that has available chunks into every view it matches.
func (b *Backlog) offer(s *Submission) {
	b.oldest = heapPush(byID{b}, b.oldest, s.slot)
	for _, v := range b.broad {
		v.join(s)
	}
	for _, ref := range s.refs() {
		for _, v := range b.terms[ref.term].views {
			if v.admits(s) {
				v.join(s)
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
		v := b.views[s.members[i].view]
		group := v.groupAt(s.members[i].gate)
		v.take(s, uint32(i))
		v.settle(group)
	}
	s.members = s.members[:0]
}

func (v *View) join(s *Submission) {
	at := uint32(len(s.members))
	s.members = append(s.members, member{view: v.number})
	group := v.groupOf(s)
	if v.cells != nil {
		v.enter(s, at, group)
	} else {
		v.put(s, at, v.home(s, group))
	}
	v.settle(group)
}

// stir has the view told of by Stirred, of a leaf the one that it is a leaf of.
func (v *View) stir() {
	if v.Watch && !v.stirred && v.state != dropped {
		v.stirred = true
		v.in.stirred = append(v.in.stirred, v)
	}
}

// count adds to what the view offers and holds, and stirs it when it has something again.
func (v *View) count(offered, size int) {
	if v.outer != nil {
		v.outer.count(offered, size)
	}
	wasEmpty := v.Empty()
	v.changes++
	v.offered += offered
	v.size += size
	if wasEmpty && !v.Empty() {
		v.stir()
	}
}

func (v *View) before(a, b *Submission) bool {
	switch v.order {
	case strategy.NewestFirst:
		return a.id > b.id
	case strategy.CustomPriority:
		if a.priority != b.priority {
			return a.priority > b.priority
		}
	}
	return a.id < b.id
}

// byID ranks slots by submission id.
type byID struct{ b *Backlog }

func (r byID) before(x, y uint32) bool { return r.b.subs[x].id < r.b.subs[y].id }

func (r byID) moved(slot uint32, to int) { r.b.subs[slot].oldestAt = uint32(to) }

// passedOver bounds how many submissions that rules cover one OldestAvailable puts aside.
const passedOver = 1000

// OldestAvailable is the smallest id among the shown submissions that have an available chunk and that no rule covers. Where very many
// came under a rule since it was asked last, it says false until it was asked some more times.
func (b *Backlog) OldestAvailable() (queue.SubmissionID, bool) {
	if b.Halted() {
		return 0, false
	}
	for range passedOver {
		if len(b.oldest) == 0 {
			return 0, false
		}
		s := b.subs[b.oldest[0]]
		if s.ruling[b.ruled.book] == queue.Unruled {
			return s.id, true
		}
		b.oldest = heapRemove(byID{b}, b.oldest, 0) // rule puts it back
		s.oldestAt = none
	}
	return 0, false
}
