package backlog

import "github.com/quern-queue/quern/engine/fair"

// A division is a Fair block of a branch. It shares out the chunks of its arms: an arm is a leaf of the
// branch, which has a view of its own, or a division again. A share is a division at one place: the
// outermost has one, an inner one has one for every tenant of the share around it. A share has a ledger that
// says which tenant's turn it is, and knows for each tenant where its part of every arm is.
type division struct {
	of     *fairness
	key    *metaKey // nil: every submission is a tenant
	time   bool     // consumer time is shared, not chunks
	nests  bool     // an arm is a division
	arms   []arm
	shares []*share
}

type arm struct {
	leaf  *base
	inner *division
}

// state is how a tenant, or all of a share, stands.
type state uint8

const (
	gone     state = iota // it has no submissions
	gated                 // it has, but none that may be taken
	offering              // it has something to take
)

//	Fair("company", Fair("$submission", OldestFirst))
//
//	outermost share, by company            its ledger says whose turn it is
//	├─ tenant company=7 ─► share by submission ─► tenants s1, s3: groups in the leaf's base
//	└─ tenant company=8 ─► share by submission ─► tenant  s2
//
// A pick goes down: tenant of the outer share, tenant of the inner one, first submission of that
// group. Its charge goes up the same way, one chunk (or the time that it is held) in each ledger.
// groups and below are indexed by tenant and arm together (tenant · arms + arm), one slice each: a
// million tenants are not a million small objects.
type share struct {
	fair.Ledger // its tenants are those of the share
	of          *division
	in          *share // the share around it, with the tenant that this is a part of; nil: none
	as          uint32 // that tenant
	at          int    // in of.shares

	tenants  []tenant          // by number; if there is a key, 0 stands for all submissions without it
	groups   []uint32          // by tenant and arm: the leaf's group; none: there is none
	below    []*share          // by tenant and arm: the inner division's share; nil if no arm is one
	numberOf map[uint32]uint32 // by tenant.value
	idle     []uint32          // tenants that became empty, to be looked at when numbers are needed
	next     int               // in idle
	free     []uint32          // numbers without a tenant
	pace     fair.Pace         // of its tenants
	saved    int               // the depth of the lookahead under way that has a copy of the ledger; 0: none has
}

// tenant is kept small: a queue may have a million. While there is one, its term is kept.
type tenant struct {
	// the number of the term or, where every submission is a tenant, the seq; none: of
	// number 0 and free ones
	value    uint32
	pace     fair.Pace
	offering uint8 // arms that offer something
	gated    uint8 // arms that only hold something
	idle     bool  // it is in share.idle
}

func (t *tenant) state() state {
	switch {
	case t.offering > 0:
		return offering
	case t.gated > 0:
		return gated
	}
	return gone
}

func (t *tenant) count(s state, by uint8) {
	switch s {
	case offering:
		t.offering += by
	case gated:
		t.gated += by
	}
}

func (d *division) newShare(in *share, as uint32) *share {
	x := &share{of: d, in: in, as: as, at: len(d.shares), numberOf: map[uint32]uint32{}}
	if d.time {
		x.Unit = fair.Second
	}
	d.shares = append(d.shares, x)
	x.grow() // number 0
	return x
}

// drop forgets a share whose groups are gone.
func (s *share) drop() {
	d, last := s.of, len(s.of.shares)-1
	d.shares[s.at] = d.shares[last]
	d.shares[s.at].at = s.at
	d.shares[last] = nil
	d.shares = trimmed(d.shares[:last])
}

// state is how the share as a whole stands.
func (s *share) state() state {
	switch {
	case s.Active() > 0:
		return offering
	case s.Blocked() > 0:
		return gated
	}
	return gone
}

// tell tells the ledger the changed state of an arm of a tenant, and the shares around it the state of this
// share. It is called between whole steps only: a submission that moves from gate to gate must not seem to
// have left. It goes outwards as long as something changed: a tenant that gets its first chunk makes the
// share offer something, and that may make the tenant around it compete.
func (s *share) tell(number uint32, before, after state) {
	for s != nil && before != after {
		s.save()
		t := &s.tenants[number]
		s.reportCost(number, 0, 0)
		t.count(before, ^uint8(0))
		t.count(after, 1)
		stood := s.state()
		s.agree(number)
		before, after = stood, s.state()
		number, s = s.as, s.in
	}
}

// agree makes the ledger agree with the state of a tenant. An empty tenant stays known while it is ahead: if
// it came back as a new one, leaving would pay.
func (s *share) agree(number uint32) {
	t := &s.tenants[number]
	switch t.state() {
	case offering:
		s.Join(number)
	case gated:
		s.Block(number)
	default:
		s.Leave(number)
		if number != 0 && !t.idle {
			t.idle = true
			s.idle = append(s.idle, number)
		}
	}
}

// value is the number by which the submission's tenant is found, none if the submission does not have the
// share's key.
func (d *division) value(s *Submission) uint32 {
	if d.key == nil {
		return s.seq
	}
	if t := s.termOf(d.key); t != nil {
		return t.number
	}
	return none
}

// tenantOf is the number of the submission's tenant; made when there is none.
func (s *share) tenantOf(sub *Submission) uint32 {
	value := s.of.value(sub)
	if value == none {
		return 0
	}
	if number, known := s.numberOf[value]; known {
		return number
	}
	return s.addTenant(value)
}

func (s *share) addTenant(value uint32) (number uint32) {
	s.reuse()
	if last := len(s.free) - 1; last >= 0 {
		number, s.free = s.free[last], s.free[:last]
	} else {
		number = s.grow()
	}
	s.tenants[number] = tenant{value: value}
	s.numberOf[value] = number
	if s.of.key != nil {
		s.of.of.view.Values.list[value].uses++
	}
	s.weigh(number)
	return number
}

// weigh gives a tenant the weight that is set for its value.
func (s *share) weigh(number uint32) {
	v := &s.of.of.view.Values
	if s.of.key == nil || number == 0 || len(v.settings)+len(v.defaults) == 0 {
		return
	}
	if w := weightOf(v.Settings(s.of.key.name, v.list[s.tenants[number].value].value)); w != fair.DefaultWeight {
		s.SetWeight(number, w)
	}
}

// grow makes one number more.
func (s *share) grow() (number uint32) {
	number = uint32(len(s.tenants))
	s.tenants = appended(s.tenants, tenant{value: none})
	for range s.of.arms {
		s.groups = appended(s.groups, none)
		if s.of.nests {
			s.below = appended(s.below, nil)
		}
	}
	return number
}

// group is the leaf's group for a tenant's arm; made when there is none.
func (s *share) group(number uint32, arm int) uint32 {
	at := &s.groups[int(number)*len(s.of.arms)+arm]
	if *at == none {
		*at = s.of.arms[arm].leaf.addGroup(s, number)
	}
	return *at
}

// inner is the share of a tenant's arm that is a division; made when there is none.
func (s *share) inner(number uint32, arm int) *share {
	at := &s.below[int(number)*len(s.of.arms)+arm]
	if *at == nil {
		*at = s.of.arms[arm].inner.newShare(s, number)
	}
	return *at
}

// reuse looks at two of the tenants that became empty, and gives up those that owe nothing
// any more. As it is called for every new tenant, numbers stay dense: the empty ones are at most as many as
// the others and those that owe. It does nothing while a preview runs, because the end of the preview would
// give the number's ledger entry back to another tenant. Two for each new tenant spread the work evenly, so
// that no pick ever waits for a clean-up.
func (s *share) reuse() {
	if s.of.of.view.trail.depth > 0 {
		return
	}
	for range min(2, len(s.idle)) {
		if s.next >= len(s.idle) {
			s.next = 0
		}
		number := s.idle[s.next]
		empty := s.tenants[number].state() == gone
		if empty && (s.Info(number).State != fair.Idle || s.busy(number) || !s.clear(number)) {
			s.next++
			continue
		}
		last := len(s.idle) - 1
		s.idle[s.next], s.idle = s.idle[last], s.idle[:last]
		s.tenants[number].idle = false
		if empty {
			s.letGo(number)
			s.Forget(number)
			s.free = append(s.free, number)
		}
	}
}

// letGo gives up a number's value, and the term unless another view uses it.
func (s *share) letGo(number uint32) {
	value := s.tenants[number].value
	if r := s.of.of.reports; r != nil && s.in == nil {
		r.leave(number)
	}
	s.tenants[number] = tenant{value: none}
	delete(s.numberOf, value)
	if v := &s.of.of.view.Values; s.of.key != nil {
		v.list[value].uses--
		v.release(v.list[value])
	}
}

// busy says whether time is still to be charged to a tenant.
// A tenant whose chunks are in flight will be charged when they end, and must exist then.
func (s *share) busy(number uint32) bool {
	v, value := s.of.of.view, s.tenants[number].value
	switch {
	case !s.of.time:
		return false
	case s.of.key == nil:
		sub := v.subs.withSeq(value)
		return sub != nil && sub.inFlight > 0
	}
	return value != none && v.Values.list[value].own() > 0
}

// clear gives up an empty tenant's parts of the arms. Of an inner division that has many tenants it gives up
// a few, and returns false. It may take many calls, each of which does a bounded part, as an inner division
// can have a million tenants.
func (s *share) clear(number uint32) bool {
	for k := range s.of.arms {
		at := int(number)*len(s.of.arms) + k
		if group := s.groups[at]; group != none {
			s.of.arms[k].leaf.dropGroup(group)
			s.groups[at] = none
		}
		if s.of.arms[k].inner == nil || s.below[at] == nil {
			continue
		}
		below := s.below[at]
		below.reuse()
		if len(below.numberOf) > 0 || below.Info(0).State != fair.Idle || below.busy(0) {
			return false
		}
		below.clear(0)
		below.drop()
		s.below[at] = nil
	}
	return true
}

// addGroup makes the group of a tenant in a leaf.
func (b *base) addGroup(in *share, tenant uint32) (number uint32) {
	if last := len(b.free) - 1; last >= 0 {
		number, b.free = b.free[last], b.free[:last]
	} else {
		number = uint32(len(b.groups))
		b.groups = appended(b.groups, group{})
	}
	b.groups[number].clear()
	b.groups[number].in, b.groups[number].tenant = in, tenant
	return number
}

// dropGroup gives up an empty group and its gates.
func (b *base) dropGroup(number uint32) {
	g := &b.groups[number]
	for g.first != none {
		gate := g.first
		if t := b.gates[gate].watched; t != nil {
			b.bands.unwatch(b.gates[gate].tally(), gate)
		}
		b.dropGate(gate)
	}
	g.clear()
	b.free = append(b.free, number)
}

// report tells the share how a leaf's group stands after its gates changed.
// It compares with the last report, so that a gate that opens and shuts within one step costs nothing
// outside.
func (b *base) report(number uint32) {
	g := &b.groups[number]
	if g.in == nil || b.dropped {
		return
	}
	now := gone
	switch {
	case g.offered > 0:
		now = offering
	case g.size > 0:
		now = gated
	}
	if now != g.reported {
		before := g.reported
		g.reported = now
		g.in.tell(g.tenant, before, now)
	}
}

// groupOf is the group that the submission belongs to; made when there is none.
func (b *base) groupOf(s *Submission) uint32 {
	if b.fewest != nil {
		return b.fewest.group(s)
	}
	if b.outer == nil {
		return 0
	}
	x := b.outer.fair.root.shares[0]
	for _, k := range b.path[:len(b.path)-1] {
		x = x.inner(x.tenantOf(s), k)
	}
	return x.group(x.tenantOf(s), b.path[len(b.path)-1])
}

// seatOf finds the share that a leaf's chunks are charged to, and the submission's tenant in it; false if
// the tenant is not there.
func (b *base) seatOf(s *Submission) (x *share, number uint32, known bool) {
	x = b.outer.fair.root.shares[0]
	for i, k := range b.path {
		number = 0
		if value := x.of.value(s); value != none {
			if number, known = x.numberOf[value]; !known {
				return nil, 0, false
			}
		}
		if i == len(b.path)-1 {
			break
		}
		if x = x.below[int(number)*len(x.of.arms)+k]; x == nil {
			return nil, 0, false
		}
	}
	return x, number, true
}
