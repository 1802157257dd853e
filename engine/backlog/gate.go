package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// group is the part of a view whose submissions are in one order: all of it, or those of one tenant.
type group struct {
	top     *top   // of its open gates that are not empty; nil while it has one gate at most
	in      *share // a leaf's: where this tenant has its share
	tenant  uint32 // likewise, its number there
	first   uint32 // its gates, linked; none: no gate
	free    uint32 // the gate for submissions that no counter is watched for; none: not made yet
	size    int32  // submissions in all gates
	offered int32  // gates that are open and not empty
	told    standing
}

func (g *group) clear() { *g = group{first: none, free: none} }

// top ranks the gates of a group.
type top struct {
	sampler          // Random: by their weight
	heap    []uint32 // other orders: by their first submissions
}

// gate is the part of a group whose submissions one counter opens and shuts. In a view of cells it holds these.
type gate struct {
	pool
	watched      *term  // the counter; nil for the free gate
	max          uint32 // it is shut from here on
	group        uint32 // in View.groups
	place        uint32 // in its group's top
	older, newer uint32 // of the same group
	topExp       uint8
	offered      bool // it is open and not empty, and if the group has a top it is in there
}

// gateKey is what a gate is for.
type gateKey struct{ group, term uint32 }

// pool is the submissions of a gate or a cell, or the cells of a gate. Random draws them by their available chunks; of other
// orders the entries of the one bucket are a heap.
type pool struct{ sampler }

func (p *pool) empty() bool { return len(p.entries) == 0 }

// emptied is an empty pool that has a little of the memory of this one.
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

func (g *gate) isOpen() bool { return g.watched == nil || g.watched.inFlight < g.max }

// home is the gate for a submission of a view without cells: one that is shut, so that no pick meets it in vain; otherwise that of its first limit.
func (v *View) home(s *Submission, group uint32) uint32 {
	if t := v.obstacle(s); t != nil {
		return v.gateFor(group, t)
	}
	for _, l := range v.limits {
		if t := s.termOf(l.key); t != nil {
			return v.gateFor(group, t)
		}
	}
	return v.freeGate(group)
}

// obstacle is the first term of the submission that has as many chunks in flight as it may, by the view's limits or by what
// an operator set; nil if there is none.
func (v *View) obstacle(s *Submission) *term {
	for _, l := range v.limits {
		if t := s.termOf(l.key); t != nil && t.inFlight >= min(l.max, t.limit) {
			return t
		}
	}
	if v.in.limited == 0 {
		return nil
	}
	for _, ref := range s.refs() {
		if t := v.in.terms[ref.term]; t.inFlight >= t.limit {
			return t
		}
	}
	return nil
}

// gateFor is the group's gate for a term; made when there is none, and kept as long as the group and the term.
func (v *View) gateFor(group uint32, t *term) uint32 {
	if number, ok := v.gateOf[gateKey{group, t.number}]; ok {
		return number
	}
	number := v.addGate(group)
	g, base := &v.gates[number], v.limitOn(t.key)
	g.watched, g.max = t, min(base, t.limit)
	v.strays = v.strays || base == queue.NoLimit
	if v.gateOf == nil {
		v.gateOf = map[gateKey]uint32{}
	}
	v.gateOf[gateKey{group, t.number}] = number
	t.watchGate(gateRef{g.max, v.number, number})
	return number
}

func (v *View) freeGate(group uint32) uint32 {
	if v.groups[group].free == none {
		v.groups[group].free = v.addGate(group)
	}
	return v.groups[group].free
}

// addGate adds a gate to a group. From the second on the group has a top.
func (v *View) addGate(group uint32) (number uint32) {
	if last := len(v.freeGates) - 1; last >= 0 {
		number, v.freeGates = v.freeGates[last], v.freeGates[:last]
	} else {
		number = uint32(len(v.gates))
		v.gates = appended(v.gates, gate{})
	}
	in := &v.groups[group]
	v.gates[number].group, v.gates[number].newer, v.gates[number].older = group, none, in.first
	if in.first != none {
		v.gates[in.first].newer = number
		if in.top == nil {
			in.top = &top{}
			if v.gates[in.first].offered {
				v.rank(in, in.first)
			}
		}
	}
	in.first = number
	return number
}

// dropRef gives up an empty gate or a value that no cell has: its term is gone.
func (v *View) dropRef(number uint32) {
	if number&valueRef != 0 {
		v.cells.dropValue(number &^ valueRef)
		return
	}
	v.dropGate(number)
}

// relimit is for a gate or a value: what an operator demands of its term changed. It returns from where it is shut now.
func (v *View) relimit(number, limit uint32) (max uint32) {
	if number&valueRef != 0 {
		x := &v.cells.values[number&^valueRef]
		x.max = min(x.base, limit)
		return x.max
	}
	g := &v.gates[number]
	g.max = min(v.limitOn(g.watched.key), limit)
	return g.max
}

// limitOn is what the view's branch demands of a key.
func (v *View) limitOn(key *metaKey) uint32 {
	for _, l := range v.limits {
		if l.key == key {
			return l.max
		}
	}
	return queue.NoLimit
}

// dropGate gives up an empty gate.
func (v *View) dropGate(number uint32) {
	g := &v.gates[number]
	in := &v.groups[g.group]
	if g.watched != nil {
		delete(v.gateOf, gateKey{g.group, g.watched.number})
	} else {
		in.free = none
	}
	if g.older != none {
		v.gates[g.older].newer = g.newer
	}
	if g.newer != none {
		v.gates[g.newer].older = g.older
	} else {
		in.first = g.older
	}
	if in.first != none && v.gates[in.first].older == none {
		in.top = nil
	}
	*g = gate{}
	v.freeGates = append(v.freeGates, number)
}

// put enters a submission, whose member at `at` this is, into a gate, or in a view of cells into a cell.
func (v *View) put(s *Submission, at, number uint32) {
	p := v.poolOf(number)
	v.groups[v.groupAt(number)].size++
	v.count(0, 1)
	v.cover(s, 1)
	s.members[at].gate = number
	x := entry{s.slot, at}
	if v.order == strategy.Random {
		s.members[at].place = p.add(exponent(uint64(s.available)), x)
	} else {
		p.entries = heapPush(byOrder{v}, p.entries, x)
	}
	v.changed(number)
}

// poolOf is where submissions whose members have the number stand.
func (v *View) poolOf(number uint32) *pool {
	if v.cells != nil {
		return &v.cells.list[number].pool
	}
	return &v.gates[number].pool
}

// groupAt is the group of these submissions.
func (v *View) groupAt(number uint32) uint32 {
	if v.cells != nil {
		return v.cells.list[number].group
	}
	return v.gates[number].group
}

// changed is for a pool that changed.
func (v *View) changed(number uint32) {
	if v.cells != nil {
		v.settleCell(number)
		return
	}
	v.refresh(number)
}

// take is the inverse of put; the submission's member stays.
func (v *View) take(s *Submission, at uint32) {
	m := s.members[at]
	v.groups[v.groupAt(m.gate)].size--
	v.count(0, -1)
	v.cover(s, -1)
	v.pull(m, exponent(uint64(s.available)))
	v.changed(m.gate)
}

// pull removes the entry of a member, without looking at what it stands in.
func (v *View) pull(m member, exp uint8) {
	p := v.poolOf(m.gate)
	if v.order != strategy.Random {
		p.entries = trimmed(heapRemove(byOrder{v}, p.entries, int(m.place)))
		return
	}
	v.noteRemoval(ofSubmissions, m.gate, &p.sampler, exp, m.place)
	if moved, ok := p.remove(exp, m.place); ok {
		v.in.subs[moved.of].members[moved.at].place = m.place
	}
}

// reweigh moves the entry of a member of a Random view to the bucket of another exponent.
func (v *View) reweigh(s *Submission, at uint32, from, to uint8) {
	m := &s.members[at]
	v.pull(*m, from)
	m.place = v.poolOf(m.gate).add(to, entry{s.slot, at})
	v.changed(m.gate)
}

// rerank puts the entry of a member where its submission's priority, which changed, wants it.
func (v *View) rerank(m member) {
	heapFix(byOrder{v}, v.poolOf(m.gate).entries, int(m.place))
	v.changed(m.gate)
}

// entryOf is where a member's entry lies.
func (v *View) entryOf(s *Submission, m member) *entry {
	p := v.poolOf(m.gate)
	if v.order != strategy.Random {
		return &p.entries[m.place]
	}
	return &p.nth(p.search(exponent(uint64(s.available)))).entries[m.place]
}

// counted is for a gate, or a value, whose counter passed its limit.
func (v *View) counted(number uint32) {
	if number&valueRef != 0 {
		v.cells.listValue(number &^ valueRef)
		return
	}
	v.refresh(number)
	v.settle(v.gates[number].group)
}

// refresh puts a gate into its group's top, takes it out or moves it there, after its content or its counter changed.
func (v *View) refresh(number uint32) {
	g := &v.gates[number]
	in := &v.groups[g.group]
	offered := !g.empty() && g.isOpen()
	switch {
	case in.top == nil:
	case offered && !g.offered:
		v.rank(in, number)
	case g.offered:
		v.move(in, number, offered)
	}
	if offered != g.offered {
		change := -1
		if offered {
			change = 1
		}
		g.offered = offered
		in.offered += int32(change)
		v.count(change, 0)
	}
}

// rank enters a gate into its group's top.
func (v *View) rank(in *group, number uint32) {
	g := &v.gates[number]
	if v.order == strategy.Random {
		g.topExp = exponent(g.total)
		g.place = in.top.add(g.topExp, entry{of: number})
		return
	}
	in.top.heap = heapPush(byFirst{v}, in.top.heap, number)
}

// move puts a gate that is in its group's top where it belongs now, or takes it out.
func (v *View) move(in *group, number uint32, stays bool) {
	g := &v.gates[number]
	if v.order != strategy.Random {
		if stays {
			heapFix(byFirst{v}, in.top.heap, int(g.place))
		} else {
			in.top.heap = heapRemove(byFirst{v}, in.top.heap, int(g.place))
		}
		return
	}
	if stays && exponent(g.total) == g.topExp {
		return
	}
	v.noteRemoval(ofGates, g.group, &in.top.sampler, g.topExp, g.place)
	if moved, ok := in.top.remove(g.topExp, g.place); ok {
		v.gates[moved.of].place = g.place
	}
	if stays {
		v.rank(in, number)
	}
}

// byOrder ranks submissions by the view's order.
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
	return r.v.before(r.v.firstOf(a), r.v.firstOf(b))
}

func (r byFirst) moved(number uint32, to int) { r.v.gates[number].place = uint32(to) }

// firstOf is the first submission of a gate that is not empty.
func (v *View) firstOf(number uint32) *Submission {
	x := v.gates[number].entries[0]
	if v.cells != nil {
		return v.headOf(x.of)
	}
	return v.in.subs[x.of]
}
