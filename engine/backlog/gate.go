package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// group is the part of a view with one order: the whole view, or the submissions of one tenant.
type group struct {
	top      *top   // of its open gates that are not empty; nil while it has one gate at most
	in       *share // a leaf's: where this tenant has its share
	tenant   uint32 // likewise, its number there
	first    uint32 // its gates, linked; none: no gate
	free     uint32 // the gate for submissions that no counter is watched for; none: not made yet
	size     int32  // submissions in all gates
	offered  int32  // gates that are open and not empty
	reported state
}

// none and not 0, because gate 0 exists.
func (g *group) clear() { *g = group{first: none, free: none} }

// top ranks the gates of a group.
type top struct {
	sampler          // Random: by their weight
	heap    []uint32 // other orders: by their first submissions

	next   *top   // of a base with bands that of the next larger number
	max    uint32 // where the band ends, and the view's number
	slot   uint8  // by which gates know it
	wanted bool   // there is a view of the number
}

// gate is the part of a group that one counter opens and shuts. In a view of cells it holds cells.
//
//	counter of company=7 reaches the limit ─► every gate that watches it leaves its group's top
//	falls below it                          ─► it comes back
//
// That is a few heap operations for each base, when a value reaches its limit, and none at a pick.
// The other way round, each pick would look at submissions that it may not take: with a million of
// them behind limits, a million looks.
type gate struct {
	pool
	watched      *term  // nil for the free gate
	max          uint32 // it is shut from here on; if there are bands, to views whose band this ends
	group        uint32 // in base.groups
	place        uint32 // in its group's top
	older, newer uint32 // of the same group
	topExp       uint8
	band         uint8            // slot of the top that it is in
	offered      bool             // it is open and not empty, and if the group has a top it is in one
	of           strategy.Measure // of watched
}

// tally has the counter that opens and shuts the gate.
func (g *gate) tally() tally { return tally{g.watched, g.of} }

// gateKey identifies a gate, by the number of its term.
type gateKey struct {
	group, term uint32
	of          strategy.Measure
}

// pool is the submissions of a gate or a cell, or the cells of a gate. Random draws them
// by their available chunks; of other orders the entries of the one bucket are a heap.
//
// For Random, sampler has buckets by the size of entries, so that a draw is uniform over chunks and
// not over submissions. Other orders use one bucket as a heap by the order's key.
type pool struct{ sampler }

func (p *pool) empty() bool { return len(p.entries) == 0 }

// emptied is an empty pool that has a little of the memory of this one. Without it a queue that was large once would
// keep the memory of its largest pools for ever; with nothing kept, a gate that goes empty and fills again with every
// chunk would allocate each time.
func (p *pool) emptied() (fresh pool) {
	if cap(p.entries) <= emptiedCap {
		fresh.entries = p.entries[:0]
	}
	if p.rest != nil && cap(*p.rest) <= emptiedCap {
		all := (*p.rest)[:cap(*p.rest)]
		for i := range all {
			if cap(all[i].entries) > emptiedCap {
				all[i].entries = nil
			}
		}
		*p.rest = all[:0]
		fresh.rest = p.rest
	}
	return fresh
}

const emptiedCap = 8

func (g *gate) isOpen() bool {
	if g.watched == nil {
		return true
	}
	if g.of < strategy.Measures {
		return !g.watched.counters[g.of%strategy.Measures].reached(g.max)
	}
	return !g.isShutByRate()
}

func (g *gate) isShutByRate() bool { return g.tally().pace().reached(g.max) }

// home is the gate for a submission of a view without cells: one that is shut, so that no
// pick examines it for nothing; otherwise that of its first limit.
// A submission with several limits is in one gate only. If that gate opens while another limit is reached, a pick
// finds the submission and moves it behind the other gate (the worst case of nested limits in docs/STRATEGIES.md).
func (b *base) home(s *Submission, group uint32) uint32 {
	if t := b.obstacle(s, queue.NoLimit); t.term != nil {
		return b.gateFor(group, t)
	}
	for _, l := range b.limits {
		if t := s.termOf(l.key); t != nil {
			return b.gateFor(group, tally{t, l.of})
		}
	}
	return b.freeGate(group)
}

// gateFor is the group's gate for a tally; made when there is none, and kept as long as
// the group and the term.
func (b *base) gateFor(group uint32, t tally) uint32 {
	key := gateKey{group, t.number, t.of}
	if number, ok := b.gateOf[key]; ok {
		return number
	}
	number := b.addGate(group)
	b.gates[number].watched, b.gates[number].of = t.term, t.of
	b.strays = b.strays || b.limits.on(t) == queue.NoLimit
	if b.gateOf == nil {
		b.gateOf = map[gateKey]uint32{}
	}
	b.gateOf[key] = number
	b.bands.watch(number)
	return number
}

func (b *base) freeGate(group uint32) uint32 {
	if b.groups[group].free == none {
		b.groups[group].free = b.addGate(group)
	}
	return b.groups[group].free
}

// addGate adds a gate to a group. From the second on the group has a top.
// A group with one gate needs no top: its first submission is the gate's. Most tenants have one gate.
func (b *base) addGate(group uint32) (number uint32) {
	if last := len(b.freeGates) - 1; last >= 0 {
		number, b.freeGates = b.freeGates[last], b.freeGates[:last]
	} else {
		number = uint32(len(b.gates))
		b.gates = appended(b.gates, gate{})
	}
	in := &b.groups[group]
	b.gates[number].group, b.gates[number].newer, b.gates[number].older = group, none, in.first
	if in.first != none {
		b.gates[in.first].newer = number
		if in.top == nil {
			b.addTop(in)
		}
	}
	in.first = number
	return number
}

// addTop gives a group a top, with the one gate that it may have had until now.
func (b *base) addTop(in *group) {
	in.top = &top{slot: 1}
	if in.first != none && b.gates[in.first].offered {
		b.rank(in.top, in.first)
	}
}

// dropRef gives up an empty gate or a value that no cell has: its term is gone.
func (b *base) dropRef(number uint32) {
	switch {
	case number&valueRef != 0:
		b.cells.dropValue(number &^ valueRef)
		return
	case gateRef{gate: number}.isGroup():
		b.fewest.drop(number &^ groupRef)
		return
	}
	b.dropGate(number)
}

// relimit is called when the operator's limit of a gate's or value's term changed. It
// returns the number at which it shuts now.
func (b *base) relimit(number, limit uint32) (max uint32) {
	if number&valueRef != 0 {
		return b.cells.relimit(number&^valueRef, limit)
	}
	g := &b.gates[number]
	g.max = min(b.limits.on(g.tally()), limit)
	return g.max
}

// dropGate gives up an empty gate.
// The list of gates of a group is linked both ways, so that a gate in the middle leaves in constant time.
func (b *base) dropGate(number uint32) {
	g := &b.gates[number]
	in := &b.groups[g.group]
	if g.watched != nil {
		delete(b.gateOf, gateKey{g.group, g.watched.number, g.of})
	} else {
		in.free = none
	}
	if g.older != none {
		b.gates[g.older].newer = g.newer
	}
	if g.newer != none {
		b.gates[g.newer].older = g.older
	} else {
		in.first = g.older
	}
	if in.first != none && b.gates[in.first].older == none && !b.bands.on {
		in.top = nil
	}
	*g = gate{}
	b.freeGates = append(b.freeGates, number)
}

// put enters a submission, for its member at `at`, into a gate, or in a view of cells into a cell. The member of a
// submission in a base says where it stands: the gate and the place within it. Any code that moves an entry has to
// update the member, or a later take would remove the entry of another one.
func (b *base) put(s *Submission, at, number uint32) {
	p := b.poolOf(number)
	b.groups[b.groupAt(number)].size++
	b.count(0, 1)
	b.cover(s, 1)
	s.members[at].gate = number
	x := entry{s.slot, at}
	if b.order == strategy.Random {
		s.members[at].place = p.add(exponent(uint64(s.available)), x)
	} else {
		p.entries = heapPush(byOrder{b}, p.entries, x)
	}
	b.changed(number)
}

// poolOf is where submissions whose members have the number stand.
func (b *base) poolOf(number uint32) *pool {
	if b.cells != nil {
		return &b.cells.list[number].pool
	}
	return &b.gates[number].pool
}

// groupAt returns the group of these submissions.
func (b *base) groupAt(number uint32) uint32 {
	if b.cells != nil {
		return b.cells.list[number].group
	}
	return b.gates[number].group
}

// changed is for a pool that changed.
func (b *base) changed(number uint32) {
	if b.cells != nil {
		b.cells.reseat(number)
		return
	}
	b.refresh(number)
}

// take is the inverse of put; the submission's member stays.
func (b *base) take(s *Submission, at uint32) {
	m := s.members[at]
	b.groups[b.groupAt(m.gate)].size--
	b.count(0, -1)
	b.cover(s, -1)
	b.pull(m, exponent(uint64(s.available)))
	b.changed(m.gate)
}

// pull removes the entry of a member, and does not update the place that held it.
// For Random the last entry of a bucket takes the free place, so the member of that one moves. Heaps tell of moves
// themselves (moved).
func (b *base) pull(m member, exp uint8) {
	p := b.poolOf(m.gate)
	if b.order != strategy.Random {
		p.entries = trimmed(heapRemove(byOrder{b}, p.entries, int(m.place)))
		return
	}
	b.trail.noteRemoval(spot{base: b, kind: ofSubmissions, in: m.gate, exp: exp, place: m.place}, &p.sampler)
	if moved, ok := p.remove(exp, m.place); ok {
		b.subs.list[moved.of].members[moved.at].place = m.place
	}
}

// reweigh moves the entry of a member of a Random view to the bucket of another exponent.
func (b *base) reweigh(s *Submission, at uint32, from, to uint8) {
	m := &s.members[at]
	b.pull(*m, from)
	m.place = b.poolOf(m.gate).add(to, entry{s.slot, at})
	b.changed(m.gate)
}

// rerank moves the entry of a member after the priority of its submission changed.
func (b *base) rerank(m member) {
	heapFix(byOrder{b}, b.poolOf(m.gate).entries, int(m.place))
	b.changed(m.gate)
}

// entryOf is where a member's entry is.
func (b *base) entryOf(s *Submission, m member) *entry {
	p := b.poolOf(m.gate)
	if b.order != strategy.Random {
		return &p.entries[m.place]
	}
	return &p.nth(p.search(exponent(uint64(s.available)))).entries[m.place]
}

// counted is called when the counter of a gate or value passed its limit.
func (b *base) counted(number uint32) {
	if number&valueRef != 0 {
		b.cells.listValue(number &^ valueRef)
		return
	}
	b.refresh(number)
	b.report(b.gates[number].group)
}

// refresh puts a gate into its group's top, takes it out or moves it there, after its
// content or its counter changed.
// Only refresh changes `offered`, the state that the group's count and the waiters rely on, so both agree.
func (b *base) refresh(number uint32) {
	g := &b.gates[number]
	in := &b.groups[g.group]
	offered := !g.empty() && g.isOpen()
	if b.bands.on {
		b.refreshBanded(in, number, offered)
		return
	}
	switch {
	case in.top == nil:
	case offered && !g.offered:
		b.rank(in.top, number)
	case g.offered:
		b.move(in.top, number, offered)
	}
	if offered != g.offered {
		change := -1
		if offered {
			change = 1
		}
		g.offered = offered
		in.offered += int32(change)
		b.count(change, 0)
	}
	if b.fewest != nil {
		b.fewest.rank(g.group)
	}
}

// refreshBanded is refresh for a gate that is in one of several tops.
func (b *base) refreshBanded(in *group, number uint32, offered bool) {
	g := &b.gates[number]
	var from, to *top
	change := 0
	if g.offered {
		from = in.top.at(g.band)
		change--
	}
	if offered {
		to = b.bands.topFor(g)
	}
	if g.offered = to != nil; g.offered {
		change++
	}
	in.offered += int32(change)
	b.count(change, 0)
	if from == to {
		if to != nil {
			b.move(to, number, true)
		}
		return
	}
	if from != nil {
		b.move(from, number, false)
		from.heap = trimmed(from.heap) // it may have held all gates before their counters rose
	}
	if to != nil {
		b.rank(to, number)
	}
	b.bands.offer(from, to)
}

// rank enters a gate into a top of its group.
func (b *base) rank(t *top, number uint32) {
	g := &b.gates[number]
	g.band = t.slot
	if b.order == strategy.Random {
		g.topExp = exponent(g.total)
		g.place = t.add(g.topExp, entry{of: number})
		return
	}
	t.heap = heapPush(byFirst{b}, t.heap, number)
}

// move puts a gate that is in a top where it belongs now, or takes it out.
func (b *base) move(t *top, number uint32, stays bool) {
	g := &b.gates[number]
	if b.order != strategy.Random {
		if stays {
			heapFix(byFirst{b}, t.heap, int(g.place))
		} else {
			t.heap = heapRemove(byFirst{b}, t.heap, int(g.place))
		}
		return
	}
	if stays && exponent(g.total) == g.topExp {
		return
	}
	b.trail.noteRemoval(spot{base: b, kind: ofGates, in: g.group, band: t.slot, exp: g.topExp, place: g.place},
		&t.sampler)
	if moved, ok := t.remove(g.topExp, g.place); ok {
		b.gates[moved.of].place = g.place
	}
	if stays {
		b.rank(t, number)
	}
}

// byOrder ranks submissions by the view's order.
type byOrder struct{ on *base }

func (b byOrder) before(a, y entry) bool {
	return before(b.on.order, b.on.subs.list[a.of], b.on.subs.list[y.of])
}

func (b byOrder) moved(x entry, to int) {
	b.on.subs.list[x.of].members[x.at].place = uint32(to)
}

// byFirst ranks gates by their first submissions.
type byFirst struct{ on *base }

func (b byFirst) before(a, y uint32) bool {
	return before(b.on.order, b.on.firstOf(a), b.on.firstOf(y))
}

func (b byFirst) moved(number uint32, to int) { b.on.gates[number].place = uint32(to) }

// firstOf is the first submission of a gate that is not empty.
func (b *base) firstOf(number uint32) *Submission {
	x := b.gates[number].entries[0]
	if b.cells != nil {
		return b.cells.headOf(x.of)
	}
	return b.subs.list[x.of]
}
