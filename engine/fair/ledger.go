package fair

import (
	"maps"
	"slices"
)

// Ledger decides whose turn it is among the tenants of one fair division. The zero Ledger is empty and ready. It has no lock.
//
// Tenants are numbers that the caller gives; memory grows with the largest, by 64 bytes each. Every call about a tenant is allowed at any
// time, in any state. A call costs the logarithm of the number of tenants at most, unless its comment says otherwise. One exception:
// tenants that owe and have the same tag are forgotten at once, so every Leave may add one such step to a later call.
type Ledger struct {
	// Unit is the unit of Info and Totals, and the expected cost of a pick without Expect: Second, or Chunk, which 0 stands for.
	Unit Cost

	// Prompt picks a tenant that joins as if its deadline were its start: it waits less for its first pick, and others may fall behind by
	// one pick more.
	Prompt bool

	slots    []slot
	running  clock // of the active and the owing
	frozen   clock // of the blocked
	root     node  // the active
	owing    heap  // by tag
	active   int
	blocked  int
	passed   float64 // the amount that renumbering took off running.whole
	sequence uint64  // of joins
	counts   counts
	undo     *undo // between Begin and Rollback
}

type counts struct{ charges, refunds, joins, leaves uint64 }

type slot struct {
	deadline int64  // active: the end that its next pick should have, whole part
	joined   uint64 // in Ledger.sequence
	tag      int64  // the start of its next pick, whole part; in numbers of running or, if blocked, of frozen
	least    int64  // active: the least tag in its part of the tree
	left     node   // active: in the tree; owing: its place in the heap
	right    node
	fraction uint32 // of the tag, in units of 1/weight
	weight   Weight
	received float64 // chunks' worth
	expected float32 // the likely cost of its next pick; 0: Ledger.Unit
	state    State
	prompt   bool // it has not been charged since it joined a prompt ledger
}

// State is the state of a tenant in the ledger.
type State uint8

const (
	Idle    State = iota // it has nothing to offer, and no debt
	Active               // it competes
	Owing                // it has nothing to offer, and is still ahead
	Blocked              // it has something to offer, but may not; its lag is frozen
)

func (s State) String() string {
	return [...]string{"idle", "active", "owing", "blocked"}[s]
}

// slot is the tenant's slot, made on first use. It is valid until the next call of slot.
func (l *Ledger) slot(tenant uint32) *slot {
	if missing := int(tenant) + 1 - len(l.slots); missing > 0 {
		first := len(l.slots)
		l.slots = append(l.slots, make([]slot, missing)...)
		for i := first; i < len(l.slots); i++ {
			l.slots[i].weight = DefaultWeight
		}
	}
	l.keep(tenant)
	return &l.slots[tenant]
}

// keep is called before a slot may change.
func (l *Ledger) keep(tenant uint32) {
	if l.undo != nil {
		l.undo.keep(tenant, &l.slots[tenant])
	}
}

// Join says that the tenant has something to offer and may: it competes from now on. An idle tenant starts with lag 0, an owing one still
// owes, and a blocked one has the lag it had.
func (l *Ledger) Join(tenant uint32) {
	s := l.slot(tenant)
	switch s.state {
	case Active:
		return
	case Idle:
		l.admit(s)
		s.prompt = l.Prompt
	default:
		l.release(s)
	}
	l.put(tenant, s)
}

// admit takes an idle tenant into the mean, with lag 0.
func (l *Ledger) admit(s *slot) {
	l.reap()
	l.counts.joins++
	l.sequence++
	s.joined = l.sequence
	l.running.enter(s, 0)
}

// release takes an owing or a blocked tenant out of its place, with its lag. Then it belongs to the running clock, but is in no list.
func (l *Ledger) release(s *slot) {
	if s.state == Owing {
		l.remove(&l.owing, s.left)
		return
	}
	l.running.enter(s, l.frozen.exit(s))
	l.blocked--
}

// deadlineOf is when the tenant's next pick should be over.
func (l *Ledger) deadlineOf(s *slot) int64 {
	if s.prompt {
		return s.tag
	}
	expected := int64(s.expected)
	if expected == 0 {
		expected = int64(l.unit())
	}
	return s.tag + (int64(s.fraction)+expected)/int64(s.weight)
}

func (l *Ledger) unit() Cost {
	if l.Unit == 0 {
		return Chunk
	}
	return l.Unit
}

// Leave says that the tenant has nothing more to offer. If it is ahead it owes until others have caught up.
func (l *Ledger) Leave(tenant uint32) {
	s := l.slot(tenant)
	switch s.state {
	case Idle, Owing:
		return
	case Blocked:
		l.release(s)
	default:
		l.take(tenant, s)
	}
	l.owe(tenant, s)
	l.reap()
}

// owe enters a tenant of the running clock among the owing.
func (l *Ledger) owe(tenant uint32, s *slot) {
	s.state = Owing
	l.push(&l.owing, entry{s.tag, tenant})
}

// reap forgets the owing tenants that owe nothing any more.
func (l *Ledger) reap() {
	for len(l.owing) > 0 && l.owing[0].key <= l.running.whole {
		l.drop(l.owing[0].tenant)
	}
}

// drop forgets an owing tenant. The others share the lag that it has: the tenants that compete, or the blocked ones if none competes.
func (l *Ledger) drop(tenant uint32) {
	l.keep(tenant)
	s := &l.slots[tenant]
	l.remove(&l.owing, s.left)
	lag := l.running.exit(s)
	s.state = Idle
	l.counts.leaves++
	l.served(lag)
}

// served adds this much to the service that is due to the tenants that compete.
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

// Block says that the tenant has something to offer but may not. Its lag is frozen until Join or Leave.
func (l *Ledger) Block(tenant uint32) {
	s := l.slot(tenant)
	switch s.state {
	case Blocked:
		return
	case Idle:
		l.admit(s)
		s.prompt = l.Prompt
	case Active:
		l.take(tenant, s)
	default:
		l.release(s)
	}
	l.frozen.enter(s, l.running.exit(s))
	s.state = Blocked
	l.blocked++
}

// SetWeight changes the tenant's weight, limited to MinWeight..MaxWeight, from the next pick on. Its lag stays. The weight is
// kept while it is idle, until Forget.
func (l *Ledger) SetWeight(tenant uint32, w Weight) {
	s := l.slot(tenant)
	w = min(max(w, MinWeight), MaxWeight)
	of := &l.running
	switch {
	case w == s.weight:
		return
	case s.state == Idle:
		s.weight = w
		return
	case s.state == Blocked:
		of = &l.frozen
	case s.state == Active:
		l.take(tenant, s)
	}
	lag := of.exit(s)
	s.weight = w
	of.enter(s, lag)
	l.place(tenant, s)
	l.reap()
}

// place puts a tenant where its new tag belongs. An active one must have been taken.
func (l *Ledger) place(tenant uint32, s *slot) {
	switch s.state {
	case Active:
		l.put(tenant, s)
	case Owing:
		l.fix(l.owing, s.left, s.tag)
	}
}

// Expect says what the tenant's next picks are likely to cost each, up to MaxCost; 0 is Ledger.Unit. It only decides how urgent a pick is
// against those of others. Charge gets the real cost.
func (l *Ledger) Expect(tenant uint32, c Cost) {
	s := l.slot(tenant)
	if s.state == Active {
		l.take(tenant, s)
	}
	s.expected = float32(min(max(c, 0), MaxCost))
	if s.state == Active {
		l.put(tenant, s)
	}
}

// Forget makes the number unknown again, so that another tenant can have it. Its debt, if any, is forgiven.
func (l *Ledger) Forget(tenant uint32) {
	if int(tenant) >= len(l.slots) {
		return
	}
	l.Leave(tenant)
	if l.slots[tenant].state == Owing {
		l.drop(tenant)
		l.reap()
	}
	l.keep(tenant)
	l.slots[tenant] = slot{weight: DefaultWeight}
}

// Clone is an independent copy, to look ahead. It copies every slot.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.slots, c.owing, c.undo = slices.Clone(l.slots), slices.Clone(l.owing), nil
	return &c
}

func out(whole int64) bool { return whole > 1<<61 || whole < -1<<61 }

// renumber subtracts the time that has passed from all numbers, so that they fit. It looks at every slot; one tenant of the least weight
// comes here after two million chunks, n tenants of weight w after 2·10^9·n·w.
func (l *Ledger) renumber() {
	by := l.running.whole
	if l.undo != nil {
		l.undo.keepAll(l.slots)
	}
	for i := range l.slots {
		switch s := &l.slots[i]; s.state {
		case Active, Owing:
			s.tag -= by
			s.deadline -= by
			s.least -= by
		case Blocked:
			s.tag -= l.frozen.whole
		}
	}
	for i := range l.owing {
		l.owing[i].key -= by
	}
	l.passed += float64(by)
	l.running.whole, l.frozen.whole = 0, 0
}

// undo is a ledger as it was at Begin: everything but the slots, and each slot that was touched since.
type undo struct {
	before Ledger
	slots  map[uint32]slot
}

// Begin has the ledger remember its state, to look ahead: Rollback undoes all later changes. It copies the owing tenants at once, and the
// slot of each other tenant when it is first touched.
func (l *Ledger) Begin() {
	u := &undo{before: *l, slots: map[uint32]slot{}}
	u.before.owing = slices.Clone(l.owing)
	l.undo = u
}

// keep is called before a slot may change.
func (u *undo) keep(tenant uint32, s *slot) {
	if _, kept := u.slots[tenant]; !kept && int(tenant) < len(u.before.slots) {
		u.slots[tenant] = *s
	}
}

// keepAll is called before all slots may change.
func (u *undo) keepAll(slots []slot) {
	for i := range u.before.slots {
		u.keep(uint32(i), &slots[i])
	}
}

// Rollback restores the state of Begin, and returns the numbers of the tenants that may have changed meanwhile. Tenants that are new since
// then are idle.
func (l *Ledger) Rollback() (touched []uint32) {
	u, slots := l.undo, l.slots
	*l = u.before
	l.slots = slots
	for tenant, s := range u.slots {
		l.slots[tenant] = s
	}
	touched = slices.Sorted(maps.Keys(u.slots))
	for i := len(u.before.slots); i < len(slots); i++ {
		l.slots[i] = slot{weight: DefaultWeight}
		touched = append(touched, uint32(i))
	}
	return touched
}
