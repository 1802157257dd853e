package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// View is the standing index of one branch: the shown submissions that its filters admit and that have an available
// chunk, kept in its order. Backlog.Views makes a view, which is valid until it is dropped; a watched view is not
// dropped.
//
// The submissions stand in a base. Views that differ only in the number of their limit
// have the same base (band.go), every other view has one of its own.
type View struct {
	Watch bool // Stirred is to tell when there is something to take again
	Data  any  // the caller's own
	Owner any  // whose share of memory it counts in; the caller's own

	*base
	most    uint32 // chunks of a value in flight, by the branch's limit if it has only one; otherwise queue.NoLimit
	state   viewState
	stirred bool // told by the next Stirred
	asked   bool // questions made it, and no one has taken from it
	granted bool // Promise counted it
	key     string
	used    uint64
	open    int    // of a base with bands, gates that are open to it and not empty
	charge  Charge // fair: for the chunk taken last
}

type viewState uint8

const (
	building viewState = iota
	built
	dropped
)

// Built says whether every submission that the view's branch admits is in it. Until then Take sees a part.
func (v *View) Built() bool { return v.state != building }

// Empty says that Take would find nothing at this moment. With two or more limits, or where an operator limits values,
// it may say false although limits hold back all that is left; Take finds out.
func (v *View) Empty() bool {
	if v.bands.on {
		return v.open == 0
	}
	return v.offered == 0
}

// Gated says that the view has submissions with available chunks, whether or not their
// limits let them be taken: of an Empty view, that only limits are in the way.
func (v *View) Gated() bool { return v.size > 0 }

// views are the standing views, made when a caller asks for them, and the bases that they stand on.
type views struct {
	*ground
	byKey map[string]*View // by the branch's key; without the dropped ones
	// of views with one limit, by the branch's key without the number; without the dropped ones
	baseOf   map[string]*base
	fair     map[uint8]*View // the fair ones by Charge.Ledger
	named    uint8           // the Charge.Ledger that was given last
	dropped  []*base         // those not yet taken apart
	notified []*View         // the list that the last Stirred returned, for reuse
	uses     uint64          // clock of View.used
	ticks    ticks
}

// Of is the standing view of the branch. On first use it is made, unbuilt: ask Promise
// whether there is room for it, then call Build until it is built. It is nil if the branch
// is fair and not even dropping makes room for its ledger: ask Admit before.
func (vs *views) Of(br *strategy.Branch) *View {
	key := br.Key()
	v := vs.byKey[key]
	if v == nil || v.asked {
		if v = vs.replace(v, br, key); v == nil {
			return nil
		}
	}
	vs.touch(v)
	return v
}

// replace makes a view in the place of one that only questions made, if there is room for it.
func (vs *views) replace(asked *View, br *strategy.Branch, key string) *View {
	if br.Fair != "" && !vs.makeRoom(false) {
		return nil
	}
	if asked != nil {
		vs.drop(asked)
	}
	return vs.make(br, key)
}

// Ask is Of for a question, which changes nothing: a view that it has to make counts as one of questions, until Of is
// called for the branch, and it does not count as a use of an existing view.
func (vs *views) Ask(br *strategy.Branch) *View {
	key := br.Key()
	v := vs.byKey[key]
	if v == nil {
		if br.Fair != "" && !vs.makeRoom(true) {
			return nil
		}
		v = vs.make(br, key)
		v.asked = true
	}
	if v.asked {
		vs.touch(v)
	}
	return v
}

func (vs *views) make(br *strategy.Branch, key string) (v *View) {
	if br.Fair != "" {
		v = vs.makeFair(br, key)
	} else {
		v = vs.makeView(br, key)
	}
	vs.byKey[key] = v
	return v
}

// makeView makes the view of a branch that is not fair, on a base that there is if one fits.
func (vs *views) makeView(br *strategy.Branch, key string) *View {
	v := &View{key: key, most: queue.NoLimit}
	// Bands rank the gates of all values by one number each, and turns rank values by all numbers there are, so that a
	// view of turns has a base of its own, with its one limit in it.
	if len(br.Limits) != 1 || br.Fewest != "" {
		if len(br.Limits) == 1 {
			v.most = br.Limits[0].Gate()
		}
		vs.makeBase(br).bands.carry(v)
		return v
	}
	v.most = br.Limits[0].Gate()
	shape := strategy.Branch{Filters: br.Filters, Limits: []strategy.Limit{br.Limits[0].Shape()}, Order: br.Order}
	b := vs.baseOf[shape.Key()]
	if b == nil || !b.bands.fits(v.most) {
		b = vs.makeBase(br)
		b.shape = shape.Key()
		vs.baseOf[b.shape] = b
	}
	b.bands.carry(v)
	return v
}

func (vs *views) touch(v *View) {
	vs.uses++
	v.used = vs.uses
}

// Stand says whether views that were built are still those of their branches, and if so counts a use of each.
func (vs *views) Stand(list []*View) bool {
	for _, v := range list {
		if v.state == dropped {
			return false
		}
		vs.touch(v)
	}
	return true
}

// stir has the view told of by Stirred.
func (v *View) stir() {
	if v.Watch && !v.stirred && v.state != dropped {
		v.stirred = true
		v.bases.stirred = append(v.bases.stirred, v)
	}
}

// passedOver bounds how many submissions that rules cover one OldestAvailable puts aside.
const passedOver = 1000

// OldestAvailable is the smallest id among the shown submissions that have an available
// chunk and that no rule covers. If very many came under a rule since its last call, it returns false until it was
// called some more times.
func (b *Backlog) OldestAvailable() (queue.SubmissionID, bool) {
	if b.Rules.Halted() {
		return 0, false
	}
	for range passedOver {
		s := b.oldest.first()
		if s == nil {
			return 0, false
		}
		if s.ruling[b.Rules.book] == queue.Unruled {
			return s.id, true
		}
		b.oldest.remove(s) // rule puts it back
	}
	return 0, false
}
