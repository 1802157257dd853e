package backlog

import (
	"math/rand/v2"
	"unsafe"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// fewest puts the values of a key with the fewest chunks in flight first in a base. Each value has a group of its own,
// as tenants have, so that submissions of one value that a limit holds back stand apart from all others. The groups
// that offer something are ranked by the chunks in flight of their value:
//
//	PreferDistinct("company", OldestFirst)
//
//	a heap    company=8 (0 in flight, first s2)  company=7 (0, s5)  none (0, s9)  company=9 (2, s1)
//
// The counter of a value tells its group of every change, by two watchers at the count and the one above. A group moves
// then, or when its first submission changes, so a pick and a landing cost O(log n), whatever the counts are.
//
// Under Random the groups of one count stand in a sampler, and the samplers in a heap by their counts.
type fewest struct {
	of      *base
	key     *metaKey
	without *metaKey          // stands for the lack of it; nil: submissions without the key are not counted together
	turns   []turn            // by group
	groupOf map[uint32]uint32 // by the number of the term; group 0 is the submissions without one
	heap    []uint32          // groups that offer something; not under Random
	levels  map[uint32]*level // by count
	least   []*level
	spare   *level // without groups, for the next count that has some
}

// turn is where a group stands.
type turn struct {
	term   *term  // nil: there is none
	flight uint32 // its count, as the group is ranked
	place  uint32 // in the heap, or in the bucket of exp; none: it offers nothing
	exp    uint8
}

// level is the groups of one count.
type level struct {
	sampler
	flight uint32
	place  uint32 // in fewest.least
}

// groupRef marks the number of a group in gateRef.gate.
const groupRef = 1 << 30

func newFewest(b *base, br *strategy.Branch) *fewest {
	w := &fewest{of: b, key: b.Values.limitBy(br.Fewest), turns: []turn{{place: none}},
		groupOf: map[uint32]uint32{}, levels: map[uint32]*level{}}
	if br.FewestOne {
		w.without = b.Values.limitBy(queue.Without(br.Fewest))
	}
	return w
}

// termOf is the term by whose count the submission is ranked; nil: as if nothing were in flight.
func (w *fewest) termOf(s *Submission) *term {
	t := s.termOf(w.key)
	if t == nil && w.without != nil {
		return s.termOf(w.without)
	}
	return t
}

// group is the one that the submission belongs to; made when there is none, and kept as long as the term.
func (w *fewest) group(s *Submission) (number uint32) {
	t := w.termOf(s)
	if t == nil {
		return 0
	}
	number, known := w.groupOf[t.number]
	if known {
		return number
	}
	number = w.of.addGroup(nil, 0)
	if int(number) == len(w.turns) {
		w.turns = appended(w.turns, turn{})
	}
	w.turns[number] = turn{term: t, place: none}
	w.groupOf[t.number] = number
	w.watch(number)
	return number
}

// watch has the counter tell when it changes from its present count.
func (w *fewest) watch(number uint32) {
	x := &w.turns[number]
	t := tally{x.term, strategy.Simultaneous}
	x.flight = t.counter().count
	t.watch(gateRef{x.flight + 1, w.of.number, number | groupRef})
	if x.flight > 0 {
		t.watch(gateRef{x.flight, w.of.number, number | groupRef})
	}
}

func (w *fewest) unwatch(number uint32) {
	t := tally{w.turns[number].term, strategy.Simultaneous}
	for t.unwatch(w.of.number, number|groupRef) {
	}
}

// regard is for a group whose value's counter changed.
func (w *fewest) regard(number uint32) {
	if w.turns[number].term == nil { // both watchers tell of one change, and the first may have been the last of a term
		return
	}
	// it leaves by the count that it was ranked by: only then may that change
	w.leave(number)
	w.unwatch(number)
	w.watch(number)
	w.rank(number)
}

// drop gives up the group of a term that goes. Without that, a queue would keep the groups of all values that it ever
// had.
func (w *fewest) drop(number uint32) {
	w.leave(number)
	w.unwatch(number)
	delete(w.groupOf, w.turns[number].term.number)
	w.turns[number] = turn{place: none}
	if !w.of.dropped { // otherwise its gates go one by one
		w.of.dropGroup(number)
	}
}

// A dropped base can have a million groups, and no call may take them all apart at once.
//
// shed lets go of the last group of a base that is dropped.
func (w *fewest) shed() {
	last := uint32(len(w.turns) - 1)
	if w.turns[last].term != nil {
		w.unwatch(last)
	}
	w.turns = w.turns[:last]
}

// rank puts a group where it belongs, after its count or its offer changed.
func (w *fewest) rank(number uint32) {
	b, x := w.of, &w.turns[number]
	offers := b.groups[number].offered > 0
	// only the first submission of the group may have changed, so a group that stays is not moved
	switch {
	case !offers || x.place != none && b.order == strategy.Random && x.exp != exponent(b.weight(number)):
		w.leave(number)
	case x.place != none && b.order != strategy.Random:
		heapFix(byFewest{w}, w.heap, int(x.place))
	}
	switch {
	case !offers || x.place != none:
	case b.order == strategy.Random:
		x.exp = exponent(b.weight(number))
		x.place = w.level(x.flight).add(x.exp, entry{of: number})
	default:
		w.heap = heapPush(byFewest{w}, w.heap, number)
	}
}

// leave takes a group out of the ranks.
func (w *fewest) leave(number uint32) {
	x := &w.turns[number]
	switch {
	case x.place == none:
		return
	case w.of.order != strategy.Random:
		w.heap = trimmed(heapRemove(byFewest{w}, w.heap, int(x.place)))
	default:
		l := w.levels[x.flight]
		w.of.trail.noteRemoval(spot{base: w.of, kind: ofTurns, in: x.flight, exp: x.exp, place: x.place}, &l.sampler)
		if moved, ok := l.remove(x.exp, x.place); ok {
			w.turns[moved.of].place = x.place
		}
		if l.count() == 0 {
			w.least = trimmed(heapRemove(byFlight{}, w.least, int(l.place)))
			delete(w.levels, x.flight)
			w.spare = l
		}
	}
	x.place = none
}

// level is that of a count; made when there is none. There are as many as there are different counts among values that
// offer something: few as a rule, and never more than values.
func (w *fewest) level(flight uint32) *level {
	l := w.levels[flight]
	if l == nil {
		if l = w.spare; l == nil {
			l = new(level)
		}
		l.flight, w.spare = flight, nil
		w.levels[flight] = l
		w.least = heapPush(byFlight{}, w.least, l)
	}
	return l
}

// choose is the next submission, and for Random a number that is uniform over its available chunks.
func (w *fewest) choose(most uint32, rnd *rand.Rand) (s *Submission, draw uint32) {
	b := w.of
	if b.order == strategy.Random {
		return w.sample(most, rnd)
	}
	for len(w.heap) > 0 && !b.meter.tired() {
		number := w.heap[0]
		s, draw = b.choose(number, most, rnd)
		// where it moved something out of the way, another value may come first now
		if s != nil && w.heap[0] == number {
			return s, draw
		}
	}
	return nil, 0
}

// sample draws a submission of the values with the fewest chunks in flight, with a probability proportional to its
// available chunks. After a rejection it begins again with a value: otherwise values with fewer rejections would come
// too rarely.
func (w *fewest) sample(most uint32, rnd *rand.Rand) (*Submission, uint32) {
	b := w.of
	for len(w.least) > 0 && !b.meter.tired() {
		x, number := w.least[0].find(rnd.Uint64N(w.least[0].total))
		in := &b.groups[x.of]
		g := &b.gates[in.first]
		if number >= b.weight(x.of) {
			b.redrawn()
			continue
		}
		if in.top != nil {
			x, number = in.top.find(number)
			g = &b.gates[x.of]
		}
		if number >= g.total {
			b.redrawn()
			continue
		}
		x, number = g.find(number)
		s := b.subs.list[x.of]
		b.meter.examined++
		switch {
		case number >= uint64(s.available):
			b.redrawn()
		case !b.heldBack(s, x.at, most):
			return s, uint32(number)
		}
	}
	return nil, 0
}

// weight is the sum of the bounds of the submissions that a group of a Random base offers.
func (b *base) weight(group uint32) uint64 {
	if in := &b.groups[group]; in.top != nil {
		return in.top.total
	}
	return b.gates[b.groups[group].first].total
}

// bytes is the memory of the groups beyond that of every base.
func (w *fewest) bytes() uint64 { return uint64(len(w.turns)) * turnBytes }

// turnBytes are the bytes of a group: its turn, its place in the heap, in groupOf, and in the list of its term.
const turnBytes = uint64(unsafe.Sizeof(turn{}))*9/8 + rankBytes + numberOfBytes + 2*watchBytes

// byFewest ranks groups by the chunks in flight of their values, then by their first submissions.
type byFewest struct{ w *fewest }

func (b byFewest) before(a, y uint32) bool {
	on := b.w.of
	if fa, fy := b.w.turns[a].flight, b.w.turns[y].flight; fa != fy {
		return fa < fy
	}
	return before(on.order, on.firstIn(a), on.firstIn(y))
}

func (b byFewest) moved(number uint32, to int) { b.w.turns[number].place = uint32(to) }

// firstIn is the first submission of an ordered group that offers something.
func (b *base) firstIn(group uint32) *Submission {
	in := &b.groups[group]
	if in.top != nil {
		return b.firstOf(in.top.heap[0])
	}
	return b.firstOf(in.first)
}

// byFlight ranks levels by their counts.
type byFlight struct{}

func (byFlight) before(a, b *level) bool   { return a.flight < b.flight }
func (byFlight) moved(l *level, place int) { l.place = uint32(place) }
