package backlog

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// fairWindow is how many picks of a view that is fair, or ranks values by their counts, a window looks ahead: their
// order is only known by trying, pick by pick.
const fairWindow = 64

// mostLooked bounds how many submissions a window looks at in one view: of those under
// several limits many may be held back.
const mostLooked = 4 * strategy.MaxWindow

// Window appends the submissions that the views would take from, each once, at most `most`
// of them: those of the first view in its order, then those of the second that were not
// among them, and so on. Submissions for which skip says true are left out. A Random view
// gives a random choice, where more chunks make an early place likelier. Nothing is taken.
func (b *Backlog) Window(views []*View, most int, skip func(*Submission) bool, rnd *rand.Rand,
	dst []*Submission) []*Submission {
	b.windows++
	w := window{subs: &b.subs, number: b.windows, most: len(dst) + most, rnd: rnd, skip: skip, list: dst}
	if b.Rules.Halted() {
		return dst
	}
	for _, v := range views {
		switch {
		case v.state == dropped:
		case v.fair != nil || v.fewest != nil:
			w.picked(b.Preview([]*View{v}, fairWindow, rnd, nil, nil)) // their order is only known by trying
		case v.order == strategy.Random:
			w.random(v)
		default:
			w.ordered(v)
		}
	}
	return w.list
}

// sweepLooked is how many slots a sweep looks at.
const sweepLooked = strategy.MaxWindow

// Sweep appends at most `most` submissions that the views would take from, in no order, and says where the next sweep
// goes on: sweeps look at all submissions in turns. So sweeps find a submission even if many are always ahead of it
// in the order, where no window would reach it. Those for which skip says true are left out.
func (b *Backlog) Sweep(views []*View, from uint32, most int, skip func(*Submission) bool,
	dst []*Submission) (list []*Submission, next uint32) {
	slots := uint32(len(b.subs.list))
	if from >= slots {
		from = 0
	}
	most += len(dst)
	for range min(slots, sweepLooked) {
		if len(dst) >= most {
			break
		}
		s := b.subs.list[from]
		if s != nil && !skip(s) {
			if _, leaf := giverOf(views, s); leaf != nil {
				dst = append(dst, s)
			}
		}
		if from++; from == slots {
			from = 0
		}
	}
	return dst, from
}

// A submission is marked with the number of the window when it is taken in, so that no set is
// needed to leave out those of earlier views. Numbers are never used twice.
type window struct {
	subs   *submissions
	number uint32 // of Backlog.windows
	most   int
	rnd    *rand.Rand
	skip   func(*Submission) bool
	list   []*Submission
	next   []cursor
}

func (w *window) full() bool { return len(w.list) >= w.most }

// add takes a submission in, if it is new and nothing holds it back.
func (w *window) add(v *View, s *Submission) {
	if s.window == w.number || w.skip != nil && w.skip(s) || v != nil && !v.mayGive(s) {
		return
	}
	s.window = w.number
	w.list = append(w.list, s)
}

// mayGive says whether no limit holds the submission back in a view that has it.
func (v *View) mayGive(s *Submission) bool {
	return v.obstacle(s, v.most).term == nil
}

// cursor is a place in one of the heaps that an ordered view is made of: the top of gates, the
// heap of a gate, that of a cell. It stands for the first submission at or below that place.
type cursor struct {
	first  uint32 // the submission's slot
	depth  uint8  // 0: top, 1: gate, 2: cell
	band   uint8  // of the top
	number uint32 // of the gate or cell
	place  uint32
}

// ordered goes through the heaps from their first submissions on, without touching them:
// it knows the first of the places that it has not entered yet, and goes on with the least of them.
//
//	heaps of heaps:  top ─► gate ─► cell ─► submission
//	a cursor at each place that was not entered yet; the least of them is next
//
//	      0             entering 0 puts 1 and 2 on the list, and the first of the heap below 0
//	    1   2           so a window of n looks at about 3n places, however large the heaps are
func (w *window) ordered(v *View) {
	in := &v.groups[0]
	if v.Empty() || w.full() {
		return
	}
	w.next = w.next[:0]
	for t := in.top; t != nil && (!v.bands.on || t.max <= v.most); t = t.next {
		w.push(v, cursor{depth: 0, band: t.slot})
	}
	if in.top == nil {
		w.push(v, cursor{depth: 1, number: in.first})
	}
	for looked := 0; len(w.next) > 0 && !w.full() && looked < mostLooked; looked++ {
		w.enter(v, w.pop(v))
	}
}

// enter adds the submission that a cursor stands for, and puts the cursors beside it on the list.
func (w *window) enter(v *View, c cursor) {
	for {
		w.push(v, cursor{depth: c.depth, band: c.band, number: c.number, place: 2*c.place + 1})
		w.push(v, cursor{depth: c.depth, band: c.band, number: c.number, place: 2*c.place + 2})
		switch {
		case c.depth == 0:
			c = cursor{first: c.first, depth: 1, number: v.groups[0].top.at(c.band).heap[c.place]}
		case c.depth == 1 && v.cells != nil:
			c = cursor{first: c.first, depth: 2, number: v.gates[c.number].entries[c.place].of}
		default:
			w.add(v, w.subs.list[c.first])
			return
		}
	}
}

// push puts a cursor on the list, if there is anything at its place.
func (w *window) push(v *View, c cursor) {
	switch {
	case c.depth == 0:
		heap := v.groups[0].top.at(c.band).heap
		if int(c.place) >= len(heap) {
			return
		}
		c.first = v.firstOf(heap[c.place]).slot
	case c.depth == 1 && v.cells != nil:
		cells := v.gates[c.number].entries
		if int(c.place) >= len(cells) {
			return
		}
		c.first = v.cells.headOf(cells[c.place].of).slot
	default:
		var heap []entry
		if c.depth == 2 {
			heap = v.cells.list[c.number].entries
		} else {
			heap = v.gates[c.number].entries
		}
		if int(c.place) >= len(heap) {
			return
		}
		c.first = heap[c.place].of
	}
	w.next = append(w.next, c)
	at := len(w.next) - 1
	for at > 0 && w.less(v, at, (at-1)/2) {
		w.next[at], w.next[(at-1)/2] = w.next[(at-1)/2], w.next[at]
		at = (at - 1) / 2
	}
}

func (w *window) pop(v *View) cursor {
	c := w.next[0]
	last := len(w.next) - 1
	w.next[0] = w.next[last]
	w.next = w.next[:last]
	for at := 0; ; {
		least := at
		for _, child := range [2]int{2*at + 1, 2*at + 2} {
			if child < last && w.less(v, child, least) {
				least = child
			}
		}
		if least == at {
			return c
		}
		w.next[at], w.next[least] = w.next[least], w.next[at]
		at = least
	}
}

func (w *window) less(v *View, a, b int) bool {
	return before(v.order, w.subs.list[w.next[a].first], w.subs.list[w.next[b].first])
}

// random draws as picks do. A small view it shuffles by weight as a whole, because draws get slow when most of a view
// is chosen.
func (w *window) random(v *View) {
	room := w.most - len(w.list)
	if v.size <= 2*room {
		w.shuffled(v)
		return
	}
	for tries := 8 * room; tries > 0 && !w.full(); tries-- {
		s, _ := v.choose(0, v.most, w.rnd)
		if s == nil {
			return
		}
		w.add(v, s)
	}
}

// shuffled orders all submissions of a view by the keys of Efraimidis and Spirakis (2006),
// random numbers to the power of 1/weight: a weighted choice without replacement.
func (w *window) shuffled(v *View) {
	type keyed struct {
		key float64
		s   *Submission
	}
	var list []keyed
	v.each(func(s *Submission) {
		list = append(list, keyed{math.Log(1-w.rnd.Float64()) / float64(s.available), s})
	})
	slices.SortFunc(list, func(a, b keyed) int { return cmp.Compare(b.key, a.key) })
	for _, x := range list {
		if w.full() {
			return
		}
		w.add(v, x.s)
	}
}

// each calls fn for all submissions of a view.
func (b *base) each(fn func(*Submission)) {
	pool := func(p *pool) {
		for i := range p.count() {
			for _, x := range p.nth(i).entries {
				fn(b.subs.list[x.of])
			}
		}
	}
	if b.cells != nil {
		for i := range b.cells.list {
			pool(&b.cells.list[i].pool)
		}
		return
	}
	for i := range b.gates {
		pool(&b.gates[i].pool)
	}
}

// picked adds the submissions that a fair view would give.
func (w *window) picked(list []Pick) {
	for _, p := range list {
		if w.full() {
			return
		}
		w.add(nil, p.Submission)
	}
}

// TakeOf takes the next chunk of this submission by the first of the views that may give it,
// and charges for it as Take does; ok is false if none may. by.Charged tells the charge.
func (b *Backlog) TakeOf(views []*View, s *Submission, rnd *rand.Rand) (index uint32, by *View, ok bool) {
	at, leaf := giverOf(views, s)
	if leaf == nil {
		return 0, nil, false
	}
	by = views[at]
	if by.fair != nil {
		by.fair.bill(by, leaf, s)
	}
	return b.takeFrom(leaf.base, s, leaf.drawOf(s, rnd), rnd), by, true
}

// giverOf is the first of the views that may give a chunk of this submission, and its leaf that does: the view
// itself, unless it is fair. A nil leaf means that none may. It asks the views in the order of the plan: a chunk that
// two branches admit is charged to the first.
func giverOf(views []*View, s *Submission) (at int, leaf *View) {
	if s.home == nil || s.available == 0 || s.home.rules.Halted() {
		return 0, nil
	}
	for i, v := range views {
		switch {
		case v.state == dropped:
		case v.fair == nil:
			if s.memberOf(v.number) && v.mayGive(s) {
				return i, v
			}
		default:
			for _, leaf := range v.fair.leaves {
				if s.memberOf(leaf.number) && leaf.mayGive(s) {
					return i, leaf
				}
			}
		}
	}
	return 0, nil
}

func (v *View) drawOf(s *Submission, rnd *rand.Rand) uint32 {
	if v.order != strategy.Random {
		return 0
	}
	return rnd.Uint32N(s.available)
}

// bill charges for a chunk of a submission that another order chose.
// Charges go to the share of every Fair block around the leaf, from the inside out, as if the pick had come down
// that way.
func (f *fairness) bill(v, leaf *View, s *Submission) {
	v.charge = Charge{Ledger: f.name, Leaf: leaf.leaf}
	x, number, known := leaf.seatOf(s)
	if !known {
		return
	}
	for y, n := x, number; y != nil; n, y = y.as, y.in { // the outermost that shares time says how long it will take
		if y.of.time {
			v.charge.Estimate = y.estimate(n)
		}
	}
	for ; x != nil; number, x = x.as, x.in {
		x.save()
		x.Charge(number, x.of.cost(v.charge.Estimate))
	}
}

// Changes grows whenever the submissions or offers of a view change, and when an operator's limit has room again.
// While it is the same, a window of an ordered view has all submissions that the view may give, in their order, and
// may have others that a limit holds back by now.
func (v *View) Changes() uint64 { return v.changes + v.Values.room }

// Ordered says whether the view gives its submissions in the same order while nothing changes.
func (v *View) Ordered() bool { return v.fair == nil && v.fewest == nil && v.order != strategy.Random }

// Next is the index of the chunk that would be taken next: put-back chunks are first. For Random it is a guess while
// chunks are put back, as chance decides, and where the cursor has to step over many chunks.
func (s *Submission) Next(random bool) (index uint32) {
	if s.back.len() > 0 {
		return s.back.heap[0]
	}
	ahead := *s
	for steps := 0; steps < longWalk && ahead.p < s.chunks && ahead.l < s.chunks; steps++ {
		next, fresh := ahead.step(random)
		if index = next; fresh && !s.ahead.has(index) {
			break
		}
	}
	return index
}

// Key is a key by which submissions can be asked for their value. It is valid until the backlog changes.
type Key struct{ key *metaKey }

// Key finds a key; an unused one is found as well: no submission has it.
func (b *Backlog) Key(name queue.MetaKey) Key { return Key{b.Values.keys[name]} }

// Value is the submission's value of a key, how many chunks of submissions with it are in
// flight, and the limit that an operator set for it, or queue.NoLimit.
func (s *Submission) Value(k Key) (value queue.MetaValue, inFlight, limit uint32, has bool) {
	if k.key == nil {
		return value, 0, queue.NoLimit, false
	}
	t := s.termOf(k.key)
	if t == nil {
		return value, 0, queue.NoLimit, false
	}
	return t.value, t.inFlight(), t.limit(), true
}
