package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// MaxLedgers is how many fair views there may be at once for those who take, and again as
// many that only questions made.
const MaxLedgers = 64

// idleUses is the number of uses of other views after which a fair view that no consumer waits on may be
// dropped to make room for another.
const idleUses = 1 << 20

// Charge records the charge for a chunk from a fair view, so that it can be refunded or
// corrected. The zero Charge is none. It is small, as it is kept for every reservation.
type Charge struct {
	Ledger   uint8  // names the view; the name of one that was dropped is given again only after all others
	Leaf     uint8  // which of its leaves gave the chunk
	Estimate uint32 // consumer time that was charged, in milliseconds; 0 where chunks are counted
}

// ledgers are the ledgers of the fair views. They correct the charge of a chunk long after it was taken.
type ledgers struct{ views *views }

// fairness makes a view a fair one. Its ledgers end with it: a view that is made again starts with even
// lags.
//
//	reserve ─► Take: the ledger says whose turn it is, and is charged a chunk, or the estimate of a time
//	release ─► Refund: it was not worked on
//	end     ─► the estimate becomes the time that it really took
//
// The charge of a chunk is found again by its Charge, which every reservation keeps: the name of
// the view and the leaf. Names have eight bits and go round, so that another view does not soon get the
// name of a dropped one, and with it refunds that are not its own.
type fairness struct {
	view    *View
	name    uint8 // Charge.Ledger
	leaves  []*View
	root    *division // its one share is there as long as the view
	reports *reports  // to the ledger of several backlogs; nil: there is none
	undone  []*share  // once the view is dropped: those whose tenants still keep their terms
}

// Charged returns the charge for the last chunk that Take gave; the zero Charge if the view is not fair.
func (v *View) Charged() Charge { return v.charge }

// Admit refuses a plan whose fair branches would need more than MaxLedgers: a *queue.Error.
// Views that were not used for long, and that no consumer waits on, make room.
func (vs *views) Admit(p *strategy.Plan) error { return admit(p, &vs.Values.Rates, vs.Of) }

// AdmitQuestion is Admit for a question, whose views are asked for with Ask.
func (vs *views) AdmitQuestion(p *strategy.Plan) error { return admit(p, &vs.Values.Rates, vs.Ask) }

func admit(p *strategy.Plan, rates *rates, view func(*strategy.Branch) *View) error {
	if err := rates.Admit(p); err != nil {
		return err
	}
	for i := range p.Branches {
		br := &p.Branches[i]
		if br.Fair != "" && view(br) == nil { // asked for one after the other, none makes room for the next
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf(
				"This queue has %d ledgers of Fair already, the most that are allowed: one for every Fair with "+
					"another key, filter, limit or order. Use one of the strategies in use.", MaxLedgers)}
		}
	}
	return nil
}

// makeRoom says whether there may be one more fair view. It drops the least recently used one if its
// last use is long ago; of those that questions made, one that no question looked at for a while.
func (vs *views) makeRoom(asked bool) bool {
	n, oldest := vs.oldestFair(asked)
	if n < MaxLedgers {
		return true
	}
	idle := func(v *View) bool { return vs.uses-v.used >= idleUses }
	if asked {
		idle = func(v *View) bool { return vs.idle(v, askedIdle) }
	}
	if oldest == nil || !idle(oldest) {
		return false
	}
	vs.drop(oldest)
	return true
}

// oldestFair counts the fair views that are of questions, or not, and finds the one that
// was used the longest ago.
func (vs *views) oldestFair(asked bool) (n int, oldest *View) {
	for v := range vs.bases.views() {
		if v.fair == nil || v.asked != asked {
			continue
		}
		n++
		if !v.Watch && (oldest == nil || v.used < oldest.used) {
			oldest = v
		}
	}
	return n, oldest
}

func (vs *views) makeFair(br *strategy.Branch, key string) *View {
	for vs.named++; vs.named == 0 || vs.fair[vs.named] != nil; {
		vs.named++
	}
	v, b := &View{key: key, most: queue.NoLimit}, &base{}
	vs.enlist(b)
	b.next = 1 // it is built when its leaves are
	b.bands.carry(v)
	v.fair = &fairness{view: v, name: vs.named}
	vs.fair[vs.named] = v
	v.fair.root = vs.divide(v.fair, br, nil)
	v.fair.root.newShare(nil, 0)
	v.fair.fix()
	v.fair.build(v, 0)
	return v
}

// divide makes the division of a fair branch, to which the path leads, and the views of its leaves.
func (vs *views) divide(f *fairness, br *strategy.Branch, path []int) *division {
	d := &division{of: f, time: br.Cost == strategy.ByTime, arms: make([]arm, len(br.Inner))}
	if br.Fair != strategy.SubmissionKey {
		d.key = vs.Values.internKey(br.Fair)
		d.key.limits++
	}
	for k := range br.Inner {
		inner, at := &br.Inner[k], append(slices.Clone(path), k)
		if inner.Fair != "" {
			d.arms[k].inner, d.nests = vs.divide(f, inner, at), true
			continue
		}
		leaf := &View{key: inner.Key(), most: queue.NoLimit}
		vs.makeBase(inner).bands.carry(leaf)
		leaf.outer, leaf.leaf, leaf.path, leaf.groups = f.view, uint8(len(f.leaves)), at, nil
		d.arms[k].leaf = leaf.base
		f.leaves = append(f.leaves, leaf)
	}
	if d.key != nil {
		d.ownLimitFirst()
	}
	return d
}

// ownLimitFirst has the leaves look at limits of the division's key first: then a tenant
// has one gate, which no other's chunks open or shut.
func (d *division) ownLimitFirst() {
	for _, a := range d.arms {
		if a.leaf == nil {
			a.inner.reorder(d.key)
			continue
		}
		a.leaf.limits.putFirst(d.key)
	}
}

func (d *division) reorder(key *metaKey) {
	for _, a := range d.arms {
		if a.leaf == nil {
			a.inner.reorder(key)
		} else if !a.leaf.limits.has(d.key) {
			a.leaf.limits.putFirst(key)
		}
	}
}

// fix tells the leaves of cells which of their limits are of a key by which tenants are told apart.
func (f *fairness) fix() {
	for _, leaf := range f.leaves {
		if leaf.cells == nil {
			continue
		}
		d := f.root
		for _, k := range leaf.path {
			for at, l := range leaf.limits {
				leaf.cells.dims[at].fixed = leaf.cells.dims[at].fixed || l.key == d.key
			}
			d = d.arms[k].inner
		}
	}
}

// build goes on with the first leaf that is not built.
func (f *fairness) build(v *View, most int) (complete bool) {
	for _, leaf := range f.leaves {
		if leaf.state == building && !leaf.Build(most) {
			return false
		}
	}
	v.next = 0
	v.complete()
	return true
}

// undo is for a view that is being dropped.
func (d *division) undo(v *values) {
	if d.key != nil {
		d.key.limits--
		v.releaseKey(d.key)
	}
	for _, a := range d.arms {
		if a.inner != nil {
			a.inner.undo(v)
		}
	}
	d.of.undone, d.shares = append(d.of.undone, d.shares...), nil
}

// shed lets go of the last tenant of the last share that is left.
func (f *fairness) shed() {
	x := f.undone[len(f.undone)-1]
	last := len(x.tenants) - 1
	if last < 0 {
		f.undone[len(f.undone)-1] = nil
		f.undone = f.undone[:len(f.undone)-1]
		return
	}
	if x.tenants[last].value != none {
		x.letGo(uint32(last))
	}
	x.tenants = x.tenants[:last]
}

// choose chooses a submission of the tenant whose turn it is, and charges the tenant. It does so before
// the chunk is taken, so that a tenant that leaves or is blocked by the take is already charged.
func (f *fairness) choose(v *View, rnd *rand.Rand) (from *base, s *Submission, draw uint32) {
	v.charge = Charge{}
	if from, s, draw = f.root.shares[0].choose(rnd, &v.charge); s != nil {
		v.charge.Ledger, v.charge.Leaf = f.name, from.leaf
	}
	return from, s, draw
}

// choose is the next submission of the share. If limits turn out to hold back all submissions of a
// tenant, it blocks the tenant and asks another one.
func (s *share) choose(rnd *rand.Rand, charge *Charge) (from *base, sub *Submission, draw uint32) {
	s.save()
	around := charge.Estimate
	for {
		number, ok := s.Pick()
		if !ok {
			return nil, nil, 0
		}
		if charge.Estimate = around; s.of.time && around == 0 {
			charge.Estimate = s.estimate(number)
		}
		for k := range s.of.arms {
			if from, sub, draw = s.ask(number, k, rnd, charge); sub != nil {
				s.Charge(number, s.of.cost(charge.Estimate))
				return from, sub, draw
			}
		}
		if s.of.of.view.meter.tired() {
			return nil, nil, 0
		}
	}
}

// ask asks one arm of a tenant.
func (s *share) ask(number uint32, k int, rnd *rand.Rand, charge *Charge) (from *base, sub *Submission, draw uint32) {
	at := int(number)*len(s.of.arms) + k
	if s.of.arms[k].inner != nil {
		if below := s.below[at]; below != nil {
			return below.choose(rnd, charge)
		}
		return nil, nil, 0
	}
	group := s.groups[at]
	if group == none {
		return nil, nil, 0
	}
	from = s.of.arms[k].leaf
	if sub, draw = from.choose(group, queue.NoLimit, rnd); sub == nil {
		from.report(group) // all of it is behind shut gates now
	}
	return from, sub, draw
}

// cost is the charge for a chunk with this estimated consumer time, in milliseconds.
func (d *division) cost(estimate uint32) fair.Cost {
	if !d.time {
		return fair.Chunk
	}
	return fair.Milliseconds(estimate)
}

// estimate is how long a chunk of the tenant is likely to be held, in milliseconds.
func (s *share) estimate(number uint32) uint32 { return fair.Likely(s.tenants[number].pace, s.pace) }

// Refund takes back the charge for a chunk of the submission that was not worked on: it was released, or
// never delivered. Put the chunk back before. The view may be gone, and the tenant may be unknown by
// now.
func (l *ledgers) Refund(s *Submission, c Charge) {
	l.chargesOf(s, c, func(x *share, number uint32) {
		x.Refund(number, x.of.cost(c.Estimate))
		x.reportCost(number, -x.of.cost(c.Estimate), 0)
	})
}

// Ended corrects the estimate that was charged for a chunk of the submission, now that it
// is known how long it was held. It changes nothing where chunks are counted.
func (l *ledgers) Ended(s *Submission, c Charge, heldFor time.Duration) {
	if c.Estimate == 0 {
		return
	}
	seconds := max(float32(heldFor.Seconds()), 0.001)
	l.chargesOf(s, c, func(x *share, number uint32) {
		if !x.of.time {
			return
		}
		x.Correct(number, x.of.cost(c.Estimate), fair.Time(heldFor))
		x.reportCost(number, fair.Time(heldFor)-x.of.cost(c.Estimate), max(heldFor, time.Millisecond))
		x.tenants[number].pace.Learn(seconds)
		x.pace.Learn(seconds)
		x.Expect(number, x.of.cost(x.estimate(number)))
	})
}

// chargesOf calls fn for every share that was charged for a chunk, from the innermost.
func (l *ledgers) chargesOf(s *Submission, c Charge, fn func(x *share, number uint32)) {
	v := l.views.fair[c.Ledger]
	if v == nil || s.home == nil || int(c.Leaf) >= len(v.fair.leaves) {
		return
	}
	x, number, known := v.fair.leaves[c.Leaf].seatOf(s)
	if !known {
		return
	}
	for ; x != nil; number, x = x.as, x.in {
		fn(x, number)
	}
}

// reweight sets the weight that a value has now in the shares of the key.
func (d *division) reweight(key queue.MetaKey, value queue.MetaValue, w fair.Weight) {
	if d.key != nil && d.key.name == key && d.key.byValue[value] != nil {
		for _, x := range d.shares {
			if number, known := x.numberOf[d.key.byValue[value].number]; known {
				x.SetWeight(number, w)
				x.reportCost(number, 0, 0)
			}
		}
	}
	for _, a := range d.arms {
		if a.inner != nil {
			a.inner.reweight(key, value, w)
		}
	}
}
