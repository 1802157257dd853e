package backlog

import (
	"math/rand/v2"
	"slices"

	"github.com/quern-queue/quern/engine/strategy"
)

// Pick is one chunk that Preview says would be taken next, by the view of this number. Of
// a fair view, Leaf gives it.
type Pick struct {
	Submission *Submission
	Index      uint32
	View       int
	Leaf       uint8
	Head       Head // the view's head before the pick, to compare with others of the same queue; zero for a fair view
}

// trail records the changes of a running Lookahead, so that it can undo them.
type trail struct {
	depth int // how many lookaheads are under way, each inside of the one before; 0: none
	// which of the chunks that no cursor visited come next under Random; nil: those that Take would give
	draws   *rand.Rand
	skipped []uint32 // chunks of the skip set that the cursor of the present pick passed
	ledgers []savedShare
	stood   map[spot]uint32
	paces   []pacedBefore
}

// pacedBefore is the theoretical arrival time that a pace had.
type pacedBefore struct {
	pace *pace
	at   int64
}

// notePace is called before a reservation changes a pace.
func (t *trail) notePace(p *pace) {
	if t.depth > 0 {
		t.paces = append(t.paces, pacedBefore{p, p.at})
	}
}

// restorePaces undoes the lookahead's changes of rates.
func (t *trail) restorePaces(v *values) {
	for _, x := range slices.Backward(t.paces) {
		x.pace.at = x.at
		v.openByTime(x.pace)
	}
}

// savedShare is a share whose ledger will be rolled back, with the depth at which it was
// saved before; 0: never.
type savedShare struct {
	share  *share
	before int
}

// traces are the changes of one pick to a submission that its inverse needs to know.
type traces struct {
	p, l, both uint32
	back       bool     // the chunk was a put-back one
	skipped    []uint32 // of the skip set
}

// Preview appends at most `most` chunks that Take would give now, from the first view that has some.
// It is a Lookahead that takes from one view after another.
func (b *Backlog) Preview(views []*View, most int, rnd, chunks *rand.Rand, dst []Pick) []Pick {
	from := len(dst)
	a := LookAhead(b, rnd, chunks, dst)
	for i, v := range views {
		a.Take(v, i, most-(len(a.Picks)-from))
	}
	return a.End()
}

// Lookahead takes chunks and gives them all back at its End. Then the same chunks are available, in
// flight, put back and skipped as before, every lag is as before, and the same draws would give the same
// chunks. Two things may change: which of two shut gates a submission stands behind, on which no rule
// depends, and the order of a submission's put-back chunks, from which Random draws. It costs twice as
// much as the picks, and notes of what they touch. Nothing else may change the backlog before End.
type Lookahead struct {
	Picks []Pick // so far, behind those that the caller had

	in     *Backlog
	rnd    *rand.Rand
	from   int
	before []traces
	outer  trail

	examined, uses uint64
	work           [Kinds]Work
}

// LookAhead begins a Lookahead, whose picks are appended to dst. It may begin and end inside of another.
//
// The insert of a submission decided in which order Random visits its chunks. With `chunks` the
// lookahead draws them from that source instead, so that it foresees one of all equally likely orders;
// without, it foresees the chunks that Take will give.
func LookAhead(b *Backlog, rnd, chunks *rand.Rand, dst []Pick) *Lookahead {
	a := &Lookahead{Picks: dst, in: b, rnd: rnd, from: len(dst), outer: b.trail,
		examined: b.meter.examined, uses: b.Views.uses, work: b.meter.work}
	b.trail = trail{depth: a.outer.depth + 1, draws: chunks}
	return a
}

// Take takes the chunks that Backlog.Take would give, at most `most`; number is the view's number in the
// picks.
func (l *Lookahead) Take(v *View, number, most int) {
	used := v.used
	for n := 0; n < most && v.state != dropped; n++ {
		leaf, s, draw := v.chooseNext(v, l.rnd)
		if s == nil {
			break
		}
		var h Head
		switch {
		case v.fair != nil:
		case v.order == strategy.Random:
			h, _ = v.randomHead(v.most)
		default:
			h = v.headOf(s)
		}
		l.take(number, leaf, s, draw)
		l.Picks[len(l.Picks)-1].Head = h
	}
	v.used, v.charge = used, Charge{}
}

// TakeOf takes the chunk that Backlog.TakeOf would give; number is the first view's number in the picks,
// and the others follow it.
func (l *Lookahead) TakeOf(views []*View, number int, s *Submission) (ok bool) {
	at, leaf := giverOf(views, s)
	if leaf == nil {
		return false
	}
	v := views[at]
	if v.fair != nil {
		v.fair.bill(v, leaf, s)
	}
	l.take(number+at, leaf.base, s, leaf.drawOf(s, l.rnd))
	v.charge = Charge{}
	return true
}

func (l *Lookahead) take(number int, leaf *base, s *Submission, draw uint32) {
	x := traces{p: s.p, l: s.l, both: s.both}
	many := s.putBack
	index := l.in.takeFrom(leaf, s, draw, l.rnd)
	x.back, x.skipped = s.putBack < many, l.in.trail.skipped
	l.in.trail.skipped = nil
	l.before = append(l.before, x)
	l.Picks = append(l.Picks, Pick{Submission: s, Index: index, View: number, Leaf: leaf.leaf})
}

// End gives everything back, and returns the picks.
func (l *Lookahead) End() []Pick {
	b := l.in
	for i := len(l.before) - 1; i >= 0; i-- {
		b.untake(&l.Picks[l.from+i], &l.before[i])
	}
	b.trail.restorePaces(&b.Values)
	b.trail.standAgain()
	b.trail.restoreLedgers()
	b.trail = l.outer
	b.meter.examined, b.Views.uses, b.meter.work = l.examined, l.uses, l.work
	return l.Picks
}

// untake is the inverse of a Take.
func (b *Backlog) untake(pick *Pick, x *traces) {
	s := pick.Submission
	s.p, s.l, s.both = x.p, x.l, x.both
	if x.back {
		b.exceptions.addBack(s, pick.Index)
	} else {
		s.skip(pick.Index) // one that was drawn ahead of the cursors
	}
	for _, index := range x.skipped {
		if s.ahead == nil {
			s.ahead = newTable(true)
		}
		s.ahead.put(index, 0)
	}
	b.given(s)
	b.Land(s)
}

// save is called before the ledger of a share changes.
func (s *share) save() {
	t := &s.of.of.view.trail
	if s.saved == t.depth {
		return
	}
	t.ledgers = append(t.ledgers, savedShare{s, s.saved})
	s.saved = t.depth
	s.Begin()
}

// restoreLedgers makes the ledgers as they were before the lookahead, except that a tenant stays blocked
// if all of its submissions turned out to be under limits.
func (t *trail) restoreLedgers() {
	for _, of := range t.ledgers {
		x := of.share
		x.saved = of.before
		for _, number := range x.Rollback() {
			if int(number) < len(x.tenants) && x.tenants[number].state() != gone {
				x.weigh(number) // a view that is being built may have met it only now
				x.agree(number)
			}
		}
	}
}
