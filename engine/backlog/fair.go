package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A fair view keeps one group of gates per tenant, that is per value of its key, and a ledger that says whose turn it is. A
// group that offers something competes; one whose submissions are all behind shut gates is blocked; one without submissions
// leaves. The ledger goes with the view, and knows nothing that outlives it: a view that is made again starts with even lags.

// MaxLedgers is how many fair views there may be at once.
const MaxLedgers = 64

// idleUses is after how many uses of other views a fair view that nobody waits on may be dropped to make room for another.
const idleUses = 1 << 20

// Ledger names the ledger that was charged for a chunk; 0 is none. It is small, as every reservation keeps one. The name of a
// view that was dropped is given again only after all others, so that who held a chunk meanwhile names nobody.
type Ledger uint8

// savedLedger is a ledger as it was before a preview touched it.
type savedLedger struct {
	of     *sharing
	before fair.Ledger
}

// saveLedger is called before a ledger changes.
func (b *Backlog) saveLedger(x *sharing) {
	if !b.preview.running || x.saved {
		return
	}
	x.saved = true
	b.preview.ledgers = append(b.preview.ledgers, savedLedger{x, *x.Ledger.Clone()})
}

func (b *Backlog) restoreLedgers() {
	for _, saved := range b.preview.ledgers {
		saved.of.Ledger, saved.of.saved = saved.before, false
	}
	clear(b.preview.ledgers)
	b.preview.ledgers = b.preview.ledgers[:0]
}

// sharing is what makes a view a fair one.
type sharing struct {
	fair.Ledger          // its tenants are the view's groups
	name        Ledger   // of it
	key         *metaKey // nil: every submission is a tenant
	groupOf     map[queue.MetaValue]uint32
	idle        []uint32 // groups that became empty, to be looked at when numbers are needed
	next        int      // in idle
	free        []uint32 // numbers without a group
	saved       bool     // the preview under way has a copy of the ledger
}

// tenant is what a group knows of itself.
type tenant struct {
	value queue.MetaValue
	idle  bool // it is in sharing.idle
}

// Ledger is the name of the view's ledger, which Take charges for every chunk it finds; 0 if the view is not fair.
func (v *View) Ledger() Ledger {
	if v.sharing == nil {
		return 0
	}
	return v.sharing.name
}

// Admit refuses a plan whose fair branches would need more than MaxLedgers: a *queue.Error. Views that were not used for
// long, and that nobody waits on, make room.
func (b *Backlog) Admit(p *strategy.Plan) error {
	for i := range p.Branches {
		br := &p.Branches[i]
		if br.Fair != "" && b.View(br) == nil { // asked for one after the other, none makes room for the next
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf(
				"This queue shares fairly in %d ways already, and each needs a ledger of its own: one for every Fair with another key, filter, limit or order. Use one of the strategies in use.", MaxLedgers)}
		}
	}
	return nil
}

// makeRoom says whether there may be one more fair view. It drops the least recently used one if that is long ago.
func (b *Backlog) makeRoom() bool {
	if len(b.ledgers) < MaxLedgers {
		return true
	}
	var oldest *View
	for _, v := range b.views { // the map has no order
		if v != nil && v.sharing != nil && !v.Watch && (oldest == nil || v.used < oldest.used) {
			oldest = v
		}
	}
	if oldest == nil || b.uses-oldest.used < idleUses {
		return false
	}
	b.drop(oldest)
	return true
}

// share makes a new view a fair one. Limits of the same key come first: then a tenant has one gate, which no other's chunks
// open or shut.
func (b *Backlog) share(v *View, key queue.MetaKey) {
	for b.ledger++; b.ledger == 0 || b.ledgers[b.ledger] != nil; {
		b.ledger++
	}
	v.sharing = &sharing{name: b.ledger, groupOf: map[queue.MetaValue]uint32{}}
	b.ledgers[b.ledger] = v
	if key == strategy.SubmissionKey {
		return
	}
	v.sharing.key = b.internKey(key)
	v.sharing.key.limits++
	if at := slices.IndexFunc(v.limits, func(l limit) bool { return l.key == v.sharing.key }); at > 0 {
		own := v.limits[at]
		copy(v.limits[1:], v.limits[:at])
		v.limits[0] = own
	}
}

// unshare is for a view that is being dropped.
func (b *Backlog) unshare(v *View) {
	if v.sharing == nil {
		return
	}
	delete(b.ledgers, v.sharing.name)
	if key := v.sharing.key; key != nil {
		key.limits--
		b.releaseKey(key)
	}
	v.sharing = nil
}

// valueOf is the submission's value of the fair key, false if it has none: those are one tenant together, group 0.
func (x *sharing) valueOf(s *Submission) (queue.MetaValue, bool) {
	if x.key == nil {
		return queue.IntValue(int64(s.seq)), true
	}
	t := s.termOf(x.key)
	if t == nil {
		return queue.MetaValue{}, false
	}
	return t.value, true
}

// groupOf is the group that the submission belongs to; made when there is none.
func (v *View) groupOf(s *Submission) uint32 {
	if v.sharing == nil {
		return 0
	}
	value, has := v.sharing.valueOf(s)
	if !has {
		return 0
	}
	number, known := v.sharing.groupOf[value]
	if !known {
		number = v.addGroup(value)
	}
	return number
}

// addGroup makes the group of a new tenant. Its weight is that of all; were weights kept, this is where the ledger is told.
func (v *View) addGroup(value queue.MetaValue) (number uint32) {
	x := v.sharing
	v.reuse()
	if last := len(x.free) - 1; last >= 0 {
		number, x.free = x.free[last], x.free[:last]
	} else {
		number = uint32(len(v.groups))
		v.groups = append(v.groups, group{})
	}
	v.groups[number] = group{tenant: tenant{value: value}, gates: v.groups[number].gates[:0]}
	v.addGate(number)
	x.groupOf[value] = number
	return number
}

// reuse looks at two of the groups that became empty, and gives up those that owe nothing any more. As it is called for every
// new group, numbers stay dense: the empty ones are at most as many as the others and those that owe.
func (v *View) reuse() {
	x := v.sharing
	for range min(2, len(x.idle)) {
		if x.next >= len(x.idle) {
			x.next = 0
		}
		number := x.idle[x.next]
		g := &v.groups[number]
		empty := g.size == 0
		if empty && x.Info(number).State != fair.Idle {
			x.next++
			continue
		}
		last := len(x.idle) - 1
		x.idle[x.next], x.idle = x.idle[last], x.idle[:last]
		g.tenant.idle = false
		if empty {
			v.freeGroup(number)
		}
	}
}

// freeGroup gives up an empty group and its gates.
func (v *View) freeGroup(number uint32) {
	x := v.sharing
	g := &v.groups[number]
	for _, gate := range slices.Backward(g.gates) {
		if t := v.gates[gate].watched; t != nil {
			t.unwatchGate(v.number, gate)
			v.freeGate(gate)
		}
	}
	v.gates[g.gates[0]] = gate{}
	v.freeGates = append(v.freeGates, g.gates[0])
	delete(x.groupOf, g.tenant.value)
	x.Forget(number)
	*g = group{gates: g.gates[:0]}
	x.free = append(x.free, number)
}

// settle tells the ledger how a group stands after its gates changed. It is called between whole steps only: a submission that
// moves from gate to gate must not seem to have left.
func (v *View) settle(number uint32) {
	x := v.sharing
	if x == nil {
		return
	}
	v.in.saveLedger(x)
	switch g := &v.groups[number]; {
	case g.offered > 0:
		x.Join(number)
	case g.size > 0:
		x.Block(number)
	default:
		x.Leave(number)
		if number != 0 && !g.tenant.idle {
			g.tenant.idle = true
			x.idle = append(x.idle, number)
		}
	}
}

// chooseFairly chooses of the tenant whose turn it is, and charges it. A tenant that turns out to have nothing but
// submissions under limits that are reached is blocked, and another one asked.
func (v *View) chooseFairly(rnd *rand.Rand) (s *Submission, draw uint32) {
	for {
		number, ok := v.sharing.Pick()
		if !ok {
			return nil, 0
		}
		v.in.saveLedger(v.sharing)
		v.sharing.Charge(number, fair.Chunk)
		if s, draw = v.choose(number, rnd); s != nil {
			return s, draw
		}
		v.sharing.Refund(number, fair.Chunk)
		v.settle(number)
	}
}

// Refund takes back what a ledger was charged for a chunk of the submission that nobody worked on: it was released, or never
// delivered. Put the chunk back before. A ledger that is gone, and a tenant that it does not know any more, are no mistake.
func (b *Backlog) Refund(s *Submission, name Ledger) {
	v := b.ledgers[name]
	if v == nil || s.home == nil {
		return
	}
	number := uint32(0)
	if value, has := v.sharing.valueOf(s); has {
		if number, has = v.sharing.groupOf[value]; !has {
			return
		}
	}
	v.sharing.Refund(number, fair.Chunk)
}
