package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// View is the standing index of one branch: the shown submissions that its filters admit and that have an available chunk,
// kept in its order. It is got from Backlog.View and is valid until Backlog.DropViews, beyond it if it is watched.
type View struct {
	Watch bool // Stirred is to tell when there is something to take again
	Data  any  // the caller's own

	in      *Backlog
	key     string
	number  uint32 // in Backlog.views
	order   strategy.Order
	filters []*term
	limits  []limit
	sharing *sharing // Fair: between whom, and whose turn it is; nil otherwise
	anchor  *term    // the filter whose submissions are looked at; nil: all
	next    int      // building: anchor's shown submissions from here on are in
	state   viewState
	stirred bool // told by the next Stirred
	used    uint64

	gates     []gate
	gateOf    map[gateKey]uint32
	freeGates []uint32
	groups    []group // Fair: one per tenant; otherwise only groups[0]
	size      int     // submissions in all gates
	offered   int     // gates that are open and not empty
}

// group is the part of a view whose submissions are in one order: all of it, or those of one tenant.
type group struct {
	top     sampler  // Random: the gates that are open and not empty
	tops    []uint32 // other orders: the same, as a heap by their first submissions
	gates   []uint32 // the first is the free gate
	size    int      // submissions in all gates
	offered int      // gates that are open and not empty
	tenant  tenant   // Fair
}

// gateKey is what a gate is for.
type gateKey struct{ group, term uint32 }

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

// gate is the part of a group whose submissions one counter opens and shuts.
type gate struct {
	sampler         // Random: its submissions, weighed by available chunks
	heap    []entry // other orders: its submissions
	watched *term   // the counter; nil for the free gate
	max     uint32
	group   uint32 // in View.groups
	place   uint32 // in its group's top or tops
	exp     uint8  // in top
	offered bool   // it is in top or tops
}

func (g *gate) empty() bool { return g.total == 0 && len(g.heap) == 0 }

func (g *gate) isOpen() bool { return g.watched == nil || g.watched.inFlight < g.max }

// Built says whether every submission that the view's branch admits is in it. Until then Take sees a part.
func (v *View) Built() bool { return v.state != building }

// Empty says that Take would find nothing at this moment. With two or more limits it may say false although what is left
// is limited; Take finds out.
func (v *View) Empty() bool { return v.offered == 0 }

// Gated says that the view has submissions with available chunks, whether or not their limits let them be taken: of an
// Empty view, that limits are all that is in the way.
func (v *View) Gated() bool { return v.size > 0 }

// View is the standing view of the branch. On first use it is made, unbuilt: call Build until it is built. It is nil if the
// branch is fair and not even dropping makes room for its ledger: ask Admit before.
func (b *Backlog) View(br *strategy.Branch) *View {
	key := br.Key()
	v := b.viewOf[key]
	if v == nil {
		if br.Fair != "" && !b.makeRoom() {
			return nil
		}
		v = b.makeView(br, key)
	}
	b.touch(v)
	return v
}

func (b *Backlog) touch(v *View) {
	b.uses++
	v.used = b.uses
}

func (b *Backlog) makeView(br *strategy.Branch, key string) *View {
	v := &View{in: b, key: key, order: br.Order, gates: make([]gate, 1), groups: []group{{gates: make([]uint32, 1)}}}
	possible := true
	for i, f := range br.Filters {
		t := b.intern(f.Key, f.Value)
		t.filters++
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
	if br.Fair != "" {
		b.share(v, br.Fair)
	}
	if last := len(b.freeViews) - 1; last >= 0 {
		v.number, b.freeViews = b.freeViews[last], b.freeViews[:last]
		b.views[v.number] = v
	} else {
		v.number = uint32(len(b.views))
		b.views = append(b.views, v)
	}
	b.viewOf[key] = v
	switch {
	case !possible: // two values of one key: no submission will ever match
	case v.anchor == nil:
		b.broad = append(b.broad, v)
		v.next = len(b.shown)
	default:
		v.anchor.views = append(v.anchor.views, v)
		v.next = len(v.anchor.shown)
	}
	if v.next == 0 {
		v.state = built
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
	list := b.shown
	if v.anchor != nil {
		list = v.anchor.shown
	}
	v.next = min(v.next, len(list))
	for ; most > 0 && v.next > 0; most-- {
		v.next--
		s := b.subs[list[v.next]]
		if s.available > 0 && v.admits(s) && !s.memberOf(v.number) {
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
	for _, ref := range s.terms {
		for _, v := range b.terms[ref.term].views {
			if v.admits(s) {
				v.join(s)
			}
		}
	}
}

// unoffer takes it out of all views. Its available chunks must still be counted as they were.
func (b *Backlog) unoffer(s *Submission) {
	b.oldest = trimmed(heapRemove(byID{b}, b.oldest, int(s.oldestAt)))
	for i := range s.members {
		v := b.views[s.members[i].view]
		v.take(s, uint32(i))
		v.settle(v.gates[s.members[i].gate].group)
	}
	s.members = s.members[:0]
}

func (v *View) join(s *Submission) {
	at := uint32(len(s.members))
	s.members = append(s.members, member{view: v.number})
	group := v.groupOf(s)
	v.put(s, at, v.home(s, group))
	v.settle(group)
}

// home is the gate for a submission: one that is shut, so that no pick meets it in vain; otherwise that of its first limit.
func (v *View) home(s *Submission, group uint32) uint32 {
	var first *term
	var firstMax uint32
	for _, l := range v.limits {
		t := s.termOf(l.key)
		if t == nil {
			continue
		}
		if t.inFlight >= l.max {
			return v.gateFor(group, t, l.max)
		}
		if first == nil {
			first, firstMax = t, l.max
		}
	}
	if first == nil {
		return v.groups[group].gates[0]
	}
	return v.gateFor(group, first, firstMax)
}

// gateFor is the group's gate for a term; made when there is none, and kept as long as the group and the term.
func (v *View) gateFor(group uint32, t *term, limit uint32) uint32 {
	if number, ok := v.gateOf[gateKey{group, t.number}]; ok {
		return number
	}
	number := v.addGate(group)
	g := &v.gates[number]
	g.watched, g.max = t, limit
	if v.gateOf == nil {
		v.gateOf = map[gateKey]uint32{}
	}
	v.gateOf[gateKey{group, t.number}] = number
	t.watchGate(gateRef{limit, v.number, number})
	return number
}

// addGate adds a gate to a group.
func (v *View) addGate(group uint32) (number uint32) {
	if last := len(v.freeGates) - 1; last >= 0 {
		number, v.freeGates = v.freeGates[last], v.freeGates[:last]
	} else {
		number = uint32(len(v.gates))
		v.gates = append(v.gates, gate{})
	}
	v.gates[number].group = group
	v.groups[group].gates = append(v.groups[group].gates, number)
	return number
}

// freeGate gives up an empty gate whose term is forgotten.
func (v *View) freeGate(number uint32) {
	g := &v.gates[number]
	delete(v.gateOf, gateKey{g.group, g.watched.number})
	in := &v.groups[g.group]
	if at := slices.Index(in.gates, number); at >= 0 {
		in.gates = slices.Delete(in.gates, at, at+1)
	}
	*g = gate{}
	v.freeGates = append(v.freeGates, number)
}

// put enters a submission, whose member at `at` this is, into a gate.
func (v *View) put(s *Submission, at, number uint32) {
	v.size++
	g := &v.gates[number]
	v.groups[g.group].size++
	s.members[at].gate = number
	x := entry{s.slot, at}
	if v.order == strategy.Random {
		s.members[at].place = g.add(exponent(uint64(s.available)), x)
	} else {
		g.heap = heapPush(byOrder{v}, g.heap, x)
	}
	v.refresh(number)
}

// take is the inverse of put; the submission's member stays.
func (v *View) take(s *Submission, at uint32) {
	v.size--
	m := s.members[at]
	v.groups[v.gates[m.gate].group].size--
	v.pull(m, exponent(uint64(s.available)))
	v.refresh(m.gate)
}

// pull removes the entry of a member, without looking at the top.
func (v *View) pull(m member, exp uint8) {
	g := &v.gates[m.gate]
	if v.order != strategy.Random {
		g.heap = trimmed(heapRemove(byOrder{v}, g.heap, int(m.place)))
		return
	}
	if moved, ok := g.remove(exp, m.place); ok {
		v.in.subs[moved.of].members[moved.at].place = m.place
	}
}

// reweigh moves the entry of a member of a Random view to the bucket of another exponent.
func (v *View) reweigh(s *Submission, at uint32, from, to uint8) {
	m := &s.members[at]
	v.pull(*m, from)
	m.place = v.gates[m.gate].add(to, entry{s.slot, at})
	v.refresh(m.gate)
}

// entryOf is where a member's entry lies.
func (v *View) entryOf(s *Submission, m member) *entry {
	g := &v.gates[m.gate]
	if v.order != strategy.Random {
		return &g.heap[m.place]
	}
	return &g.buckets[g.search(exponent(uint64(s.available)))].entries[m.place]
}

// counted is for a gate whose counter passed its limit.
func (v *View) counted(number uint32) {
	v.refresh(number)
	v.settle(v.gates[number].group)
}

// refresh puts a gate into its group's top, takes it out or moves it there, after its content or its counter changed.
func (v *View) refresh(number uint32) {
	g := &v.gates[number]
	in := &v.groups[g.group]
	offered := !g.empty() && g.isOpen()
	wasEmpty := v.Empty()
	if v.order == strategy.Random {
		exp := exponent(g.total)
		if offered == g.offered && (!offered || exp == g.exp) {
			return
		}
		if g.offered {
			if moved, ok := in.top.remove(g.exp, g.place); ok {
				v.gates[moved.of].place = g.place
			}
		}
		if offered {
			g.exp, g.place = exp, in.top.add(exp, entry{of: number})
		}
	} else {
		switch {
		case offered && g.offered:
			heapFix(byFirst{v}, in.tops, int(g.place))
		case offered:
			in.tops = heapPush(byFirst{v}, in.tops, number)
		case g.offered:
			in.tops = heapRemove(byFirst{v}, in.tops, int(g.place))
		}
	}
	if offered != g.offered {
		change := -1
		if offered {
			change = 1
		}
		v.offered += change
		in.offered += change
		g.offered = offered
	}
	if wasEmpty && !v.Empty() {
		v.stir()
	}
}

func (v *View) stir() {
	if v.Watch && !v.stirred && v.state != dropped && !v.in.preview.running {
		v.stirred = true
		v.in.stirred = append(v.in.stirred, v)
	}
}

// byOrder ranks the entries of a gate by the view's order.
type byOrder struct{ v *View }

func (r byOrder) before(a, b entry) bool {
	return r.v.before(r.v.in.subs[a.of], r.v.in.subs[b.of])
}

func (r byOrder) moved(x entry, to int) {
	r.v.in.subs[x.of].members[x.at].place = uint32(to)
}

// byFirst ranks gates by their first submissions.
type byFirst struct{ v *View }

func (r byFirst) before(a, b uint32) bool {
	return r.v.before(r.v.first(a), r.v.first(b))
}

func (r byFirst) moved(number uint32, to int) { r.v.gates[number].place = uint32(to) }

// first is the first submission of a gate that is not empty.
func (v *View) first(number uint32) *Submission {
	return v.in.subs[v.gates[number].heap[0].of]
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

// OldestAvailable is the smallest id among the shown submissions that have an available chunk.
func (b *Backlog) OldestAvailable() (queue.SubmissionID, bool) {
	if len(b.oldest) == 0 {
		return 0, false
	}
	return b.subs[b.oldest[0]].id, true
}
