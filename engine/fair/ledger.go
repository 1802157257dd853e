package fair

import "slices"

// Ledger is whose turn it is among the tenants of one fair division. The zero Ledger is empty and ready. It has no lock.
//
// Tenants are numbers that the caller gives; memory grows with the largest (48 bytes each, and 16 more while it has work).
// Whatever is asked or told of a tenant is allowed at any time, in any state.
type Ledger struct {
	// Unit is what Info and Totals count in, and what a pick is expected to cost unless Expect said otherwise: Second, or
	// Chunk, which 0 stands for.
	Unit Cost

	// Prompt lets a tenant that joins be picked as if its deadline were its start: it waits less for its first pick, others
	// may fall behind by one pick more.
	Prompt bool

	slots    []slot
	running  clock // of the active and the owing
	frozen   clock // of the blocked
	ready    heap  // active and eligible when looked at, by deadline
	waiting  heap  // active, not yet eligible, by tag
	owing    heap  // left while ahead, by tag
	blocked  int
	passed   float64 // what renumbering took off running.whole
	sequence uint64  // of joins
	counts   counts
}

type counts struct{ charges, refunds, joins, leaves uint64 }

type slot struct {
	tag      int64   // where it started its next pick, whole part; of running's or, blocked, of frozen's numbers
	received float64 // chunks' worth
	expected Cost    // what the next pick is likely to cost; 0: Ledger.Unit
	joined   uint64  // in Ledger.sequence
	fraction uint32  // of the tag, in units of 1/weight
	weight   Weight
	place    uint32 // in the heap of its state
	state    state
	prompt   bool // it has not been charged since it joined a prompt ledger
}

type state uint8

const (
	idle state = iota
	ready
	waiting
	owing
	blocked
)

// State is what the ledger holds a tenant for.
type State uint8

const (
	Idle    State = iota // it has nothing to offer, and no debt
	Active               // it competes
	Owing                // it has nothing to offer, but what it got ahead is not yet made up for
	Blocked              // it has something to offer, but may not; its lag is frozen
)

func (s State) String() string {
	return [...]string{"idle", "active", "owing", "blocked"}[s]
}

// slot is the tenant's, made on first use. It is valid until the next call.
func (l *Ledger) slot(tenant uint32) *slot {
	if missing := int(tenant) + 1 - len(l.slots); missing > 0 {
		first := len(l.slots)
		l.slots = append(l.slots, make([]slot, missing)...)
		for i := first; i < len(l.slots); i++ {
			l.slots[i].weight = DefaultWeight
		}
	}
	return &l.slots[tenant]
}

// Join says that the tenant has something to offer and may: it competes from now on. Who comes from idleness starts with lag 0,
// who owes still owes, who was blocked has the lag it had.
func (l *Ledger) Join(tenant uint32) {
	s := l.slot(tenant)
	switch s.state {
	case idle:
		l.reap()
		l.admit(s)
		s.prompt = l.Prompt
	case owing:
		l.remove(&l.owing, s.place)
	case blocked:
		l.thaw(s)
	default:
		return
	}
	l.offer(tenant, s)
}

// admit takes an idle tenant into the mean, with lag 0.
func (l *Ledger) admit(s *slot) {
	l.counts.joins++
	l.sequence++
	s.joined = l.sequence
	l.running.enter(s, 0)
}

// offer enters a tenant of the running clock, which is in no heap, into the one where it belongs.
func (l *Ledger) offer(tenant uint32, s *slot) {
	if s.tag <= l.running.whole {
		s.state = ready
		l.push(&l.ready, entry{l.deadline(s), tenant})
	} else {
		s.state = waiting
		l.push(&l.waiting, entry{s.tag, tenant})
	}
}

// deadline is when its next pick should be over.
func (l *Ledger) deadline(s *slot) int64 {
	if s.prompt {
		return s.tag
	}
	expected := s.expected
	if expected == 0 {
		expected = l.unit()
	}
	return s.tag + (int64(s.fraction)+int64(expected))/int64(s.weight)
}

func (l *Ledger) unit() Cost {
	if l.Unit == 0 {
		return Chunk
	}
	return l.Unit
}

func (l *Ledger) heapOf(s state) *heap {
	switch s {
	case ready:
		return &l.ready
	case waiting:
		return &l.waiting
	default:
		return &l.owing
	}
}

// Leave says that the tenant has nothing more to offer. If it is ahead it owes until others have caught up.
func (l *Ledger) Leave(tenant uint32) {
	s := l.slot(tenant)
	switch s.state {
	case idle, owing:
		return
	case blocked:
		l.thaw(s)
	default:
		l.remove(l.heapOf(s.state), s.place)
	}
	s.state = owing
	l.push(&l.owing, entry{s.tag, tenant})
	l.reap()
}

// reap forgets the owing tenants that owe nothing any more.
func (l *Ledger) reap() {
	for len(l.owing) > 0 && l.owing[0].key <= l.running.whole {
		l.drop(l.owing[0].tenant)
	}
}

// drop forgets an owing tenant. What it is behind goes to those that remain: to the blocked only if nobody else is there.
func (l *Ledger) drop(tenant uint32) {
	s := &l.slots[tenant]
	l.remove(&l.owing, s.place)
	lag := l.running.exit(s)
	s.state = idle
	l.counts.leaves++
	l.served(lag)
}

// served lets the tenants that compete have been due this much.
func (l *Ledger) served(cost int64) {
	if l.running.weight > 0 {
		l.running.advance(cost)
	} else {
		l.frozen.advance(cost)
	}
	if out(l.running.whole) || out(l.frozen.whole) {
		l.renumber()
	}
}

// Block says that the tenant has something to offer but may not. Its lag is frozen until Join, Unblock or Leave.
func (l *Ledger) Block(tenant uint32) {
	s := l.slot(tenant)
	switch s.state {
	case blocked:
		return
	case idle:
		l.reap()
		l.admit(s)
	default:
		l.remove(l.heapOf(s.state), s.place)
	}
	l.frozen.enter(s, l.running.exit(s))
	s.state = blocked
	l.blocked++
}

// Unblock says that the tenant may offer again what it has. It is Join for the blocked, and nothing for others.
func (l *Ledger) Unblock(tenant uint32) {
	if l.slot(tenant).state == blocked {
		l.Join(tenant)
	}
}

// thaw brings a blocked tenant back to the running clock; it is in no heap yet.
func (l *Ledger) thaw(s *slot) {
	l.running.enter(s, l.frozen.exit(s))
	l.blocked--
}

// SetWeight changes the tenant's weight, limited to MinWeight..MaxWeight, from the next pick on. Its lag stays. The weight is
// kept while it is idle, until Forget.
func (l *Ledger) SetWeight(tenant uint32, w Weight) {
	s := l.slot(tenant)
	w = min(max(w, MinWeight), MaxWeight)
	if w == s.weight {
		return
	}
	switch s.state {
	case idle:
		s.weight = w
	case blocked:
		lag := l.frozen.exit(s)
		s.weight = w
		l.frozen.enter(s, lag)
	default:
		lag := l.running.exit(s)
		s.weight = w
		l.running.enter(s, lag)
		l.settle(tenant, s)
	}
}

// Expect says what the tenant's next picks are likely to cost each, up to MaxCost; 0 is Ledger.Unit. It only decides how
// urgent a pick is against those of others. What a pick does cost is Charge's.
func (l *Ledger) Expect(tenant uint32, c Cost) {
	s := l.slot(tenant)
	s.expected = min(max(c, 0), MaxCost)
	if s.state == ready {
		l.fix(l.ready, s.place, l.deadline(s))
	}
}

// settle moves a tenant of the running clock, whose tag has changed, to where it belongs.
func (l *Ledger) settle(tenant uint32, s *slot) {
	eligible := s.tag <= l.running.whole
	switch {
	case s.state == owing:
		l.fix(l.owing, s.place, s.tag)
	case s.state == ready && eligible:
		l.fix(l.ready, s.place, l.deadline(s))
	case s.state == waiting && !eligible:
		l.fix(l.waiting, s.place, s.tag)
	default:
		l.remove(l.heapOf(s.state), s.place)
		l.offer(tenant, s)
	}
}

// Forget makes the number a tenant that was never heard of, so that it can be another's. Its debt, if any, is forgiven.
func (l *Ledger) Forget(tenant uint32) {
	if int(tenant) >= len(l.slots) {
		return
	}
	l.Leave(tenant)
	if l.slots[tenant].state == owing {
		l.drop(tenant)
		l.reap()
	}
	l.slots[tenant] = slot{weight: DefaultWeight}
}

// Clone is a copy that goes its own way, to look ahead.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.slots = slices.Clone(l.slots)
	c.ready, c.waiting, c.owing = slices.Clone(l.ready), slices.Clone(l.waiting), slices.Clone(l.owing)
	return &c
}

func out(whole int64) bool { return whole > 1<<61 || whole < -1<<61 }

// renumber takes what has passed off all numbers, so that they fit. One tenant of the least weight comes here after two
// million chunks; n tenants of weight w after 2·10^9·n·w.
func (l *Ledger) renumber() {
	by := l.running.whole
	for _, h := range []heap{l.ready, l.waiting, l.owing} {
		for i := range h {
			h[i].key -= by
			l.slots[h[i].tenant].tag -= by
		}
	}
	l.running.whole = 0
	l.passed += float64(by)
	for i := range l.slots {
		if s := &l.slots[i]; s.state == blocked {
			s.tag -= l.frozen.whole
		}
	}
	l.frozen.whole = 0
}
