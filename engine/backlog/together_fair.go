package backlog

import (
	"math/rand/v2"
	"time"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A Fair block whose tenants have work in several backlogs of one queue. One ledger outside of them all says whose turn
// it is, and each backlog says how its part of each tenant stands.
//
//	a tenant gets work, runs out of it, or is held back ─► TenantNews ─► the ledger of all backlogs
//	whose turn it is ─► TenantHeads of each backlog ─► TakeTenant of the one that comes first
//
// The ledger of this backlog is charged, too. It only records what a tenant received here, and decides nothing.

// TenantName names a tenant of a Fair block in all backlogs of a queue.
type TenantName struct {
	Value      queue.MetaValue    // of the key
	Submission queue.SubmissionID // where every submission is a tenant
	Lacking    bool               // all submissions together that do not have the key
}

// TenantNews is the state of a tenant in one backlog, and the costs of its chunks since the last news.
type TenantNews struct {
	TenantName
	Offers bool // it has something to take
	Gated  bool // it has something, but limits hold all of it back; not with Offers
	Weight fair.Weight

	Settled fair.Cost     // to be charged to it: negative for chunks that came back, and where estimates were too high
	Held    time.Duration // how long those chunks of it were held that ended, all together
	Ended   uint32        // how many these are
}

// reports are the news of a fair view for the ledger of all backlogs.
type reports struct {
	id      uint64                 // of that ledger
	names   map[uint32]*TenantNews // of all tenants that have, or had, something
	changed map[uint32]struct{}
	left    []TenantNews // news of tenants whose numbers may belong to others by now
	lost    bool         // these were too many to remember, as no one asks
}

// leftMost is how many tenants that left are remembered.
const leftMost = 50_000

// ShareTogether has a fair view, without Fair blocks inside of it, report its tenants to the ledger of this id. fresh
// says that this begins now, or begins again as all is asked for: it reports all its tenants.
func (v *View) ShareTogether(id uint64, all bool) (fresh bool) {
	if v.fair.reports != nil && v.fair.reports.id == id && !v.fair.reports.lost && !all {
		return false
	}
	v.fair.reports = &reports{id: id, names: map[uint32]*TenantNews{}, changed: map[uint32]struct{}{}}
	x := v.fair.root.shares[0]
	for number := range x.tenants {
		if x.tenants[number].state() != gone {
			v.fair.reports.note(x, uint32(number))
		}
	}
	return true
}

// News appends the tenants with news to dst.
func (v *View) News(dst []TenantNews) []TenantNews {
	t, x := v.fair.reports, v.fair.root.shares[0]
	dst = append(dst, t.left...) // first: a tenant may have come back under another number
	t.left = nil
	for number := range t.changed {
		new := t.names[number]
		stands := x.tenants[number].state()
		new.Offers, new.Gated, new.Weight = stands == offering, stands == gated, x.Info(number).Weight
		dst = append(dst, *new)
		*new = TenantNews{TenantName: new.TenantName}
	}
	clear(t.changed)
	return dst
}

// note remembers that a tenant of the outermost share has news. The name is kept from the first time on: when a
// submission is a tenant and has ended, nothing here knows its id any more.
func (t *reports) note(x *share, number uint32) *TenantNews {
	c := t.names[number]
	if c == nil {
		c = &TenantNews{TenantName: x.nameOf(number)}
		t.names[number] = c
	}
	t.changed[number] = struct{}{}
	return c
}

// leave is called before another tenant may get the number.
func (t *reports) leave(number uint32) {
	if _, changed := t.changed[number]; changed {
		new := *t.names[number]
		new.Offers, new.Gated = false, false
		t.left = append(t.left, new)
	}
	t.lost = t.lost || len(t.left) > leftMost
	if delete(t.names, number); t.lost {
		t.left = nil
	}
	delete(t.changed, number)
}

// nameOf is the name of a tenant that has something.
func (s *share) nameOf(number uint32) (name TenantName) {
	v, value := s.of.of.view, s.tenants[number].value
	switch {
	case s.of.key == nil:
		if sub := v.subs.withSeq(value); sub != nil {
			name.Submission = sub.id
		}
	case number == 0:
		name.Lacking = true
	default:
		name.Value = v.Values.list[value].value
	}
	return name
}

// reportCost remembers the final cost of a chunk of a tenant. With no cost it only says that there may be news. Inner
// shares report nothing: no ledger of all backlogs has their tenants.
func (s *share) reportCost(number uint32, cost fair.Cost, held time.Duration) {
	if s.in != nil || s.of.of.reports == nil {
		return
	}
	c := s.of.of.reports.note(s, number)
	c.Settled += cost
	if held > 0 {
		c.Held, c.Ended = c.Held+held, c.Ended+1
	}
}

// find is a tenant's number in the outermost share. A backlog that never had work of the tenant does not know it.
// Number 0 stands for all submissions that lack the key, and always exists.
func (f *fairness) find(name TenantName) (x *share, number uint32, known bool) {
	x = f.root.shares[0]
	switch d := f.root; {
	case d.key == nil:
		if slot, is := f.view.subs.byID[name.Submission]; is {
			number, known = x.numberOf[f.view.subs.list[slot].seq]
		}
	case name.Lacking:
		known = true
	default:
		if t := d.key.byValue[name.Value]; t != nil {
			number, known = x.numberOf[t.number]
		}
	}
	return x, number, known
}

// TenantHeads are the heads of a tenant in the alternatives of a fair view; the zero Head: nothing.
func (b *Backlog) TenantHeads(v *View, name TenantName, rnd *rand.Rand) (heads []Head) {
	x, number, known := v.fair.find(name)
	if heads = make([]Head, len(v.fair.root.arms)); !known || v.state == dropped || b.Rules.Halted() {
		return heads
	}
	b.Views.touch(v)
	for k := range heads {
		heads[k], _ = x.headOf(number, k, rnd)
	}
	return heads
}

// headOf is the head of a tenant in an arm. Where limits turn out to hold all of it back, the tenant is reported as
// gated, so that the ledger of all backlogs does not offer it a turn again.
func (s *share) headOf(number uint32, k int, rnd *rand.Rand) (h Head, ok bool) {
	group, leaf := s.groups[int(number)*len(s.of.arms)+k], s.of.arms[k].leaf
	if group == none {
		return h, false
	}
	if leaf.order == strategy.Random {
		if leaf.groups[group].offered > 0 {
			h.Weight = leaf.weight(group)
		}
		return h, h.Weight > 0
	}
	if sub, _ := leaf.choose(group, queue.NoLimit, rnd); sub != nil {
		return leaf.headOf(sub), true
	}
	leaf.report(group) // all of it is behind shut gates now
	return h, false
}

// TenantTurn is a tenant's turn in one backlog, as the ledger of all backlogs decided. It names one alternative,
// because a later one of a tenant only has its turn when no backlog has anything of an earlier one.
type TenantTurn struct {
	Name     TenantName
	Arm      int    // the alternative of the Fair block
	Bound    *Head  // of an ordered one: the first candidate of the other backlogs
	Weight   uint64 // of Random: the weight of this backlog in the draw between backlogs
	Estimate uint32 // by time: how long the chunk is likely to be held, in milliseconds
}

// TakeTenant is Take among the chunks of one tenant, as far as its turn goes. By Random it draws once, as TakeOnce
// does.
func (b *Backlog) TakeTenant(v *View, turn *TenantTurn, rnd *rand.Rand) (s *Submission, index uint32, ok bool) {
	x, number, known := v.fair.find(turn.Name)
	if !known || v.state == dropped || b.Rules.Halted() {
		return nil, 0, false
	}
	b.Views.touch(v)
	// other calls may have taken something since the caller looked at the heads
	h, has := x.headOf(number, turn.Arm, rnd)
	leaf := x.of.arms[turn.Arm].leaf
	switch {
	case !has, turn.Bound != nil && turn.Bound.Before(&h, leaf.order):
		return nil, 0, false
	case leaf.order != strategy.Random:
	case h.Weight < turn.Weight && rnd.Uint64N(turn.Weight) >= h.Weight:
		return nil, 0, false
	}
	// A draw may fall on a place without a chunk. The caller then draws again over all backlogs, so that every chunk of
	// the tenant keeps the same probability.
	allowed := b.meter.allowed
	if leaf.order == strategy.Random {
		b.meter.once, b.meter.allowed = true, b.meter.moved+1
	}
	from, s, draw := x.takeTurn(number, turn, rnd, &v.charge)
	b.meter.once, b.meter.allowed = false, allowed
	if s == nil {
		return nil, 0, false
	}
	return s, b.takeFrom(from, s, draw, rnd), true
}

// takeTurn chooses a submission of an arm of a tenant, and charges the tenant here.
func (s *share) takeTurn(number uint32, turn *TenantTurn, rnd *rand.Rand, charge *Charge) (from *base, sub *Submission,
	draw uint32) {
	s.save()
	if *charge = (Charge{}); s.of.time {
		charge.Estimate = turn.Estimate
	}
	if from, sub, draw = s.ask(number, turn.Arm, rnd, charge); sub != nil {
		s.Charge(number, s.of.cost(charge.Estimate))
		charge.Ledger, charge.Leaf = s.of.of.name, from.leaf
	}
	return from, sub, draw
}
