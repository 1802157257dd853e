package backlog

import "math/rand/v2"

// Pick is one chunk that Preview says would be taken next, by the view of this number. Of a fair view, Leaf gives it.
type Pick struct {
	Submission *Submission
	Index      uint32
	View       int
	Leaf       uint8
}

// preview is what a Lookahead under way needs to know so that it can take everything back.
type preview struct {
	depth   int        // how many are under way: one that is not the first is inside of another; 0: none
	draws   *rand.Rand // which of the chunks that no cursor visited come next under Random; nil: those that Take would give
	skipped []uint32   // chunks of the skip set that the cursor of the present pick passed
	ledgers []savedShare
	stood   map[spot]uint32
}

// savedShare is a share whose ledger is to be rolled back, and the depth that it was saved at before; 0: it was not.
type savedShare struct {
	share  *share
	before int
}

// traces is what one pick changed of a submission that its inverse does not know.
type traces struct {
	p, l, both uint32
	back       bool     // the chunk was a put-back one
	skipped    []uint32 // of the skip set
}

// Preview appends what Take would give now, the first view that has something first, at most `most` chunks: a Lookahead
// that takes from one view after the other.
func (b *Backlog) Preview(views []*View, most int, rnd, chunks *rand.Rand, dst []Pick) []Pick {
	from := len(dst)
	a := LookAhead(b, rnd, chunks, dst)
	for i, v := range views {
		a.Take(v, i, most-(len(a.Picks)-from))
	}
	return a.End()
}

// Lookahead takes chunks and gives them all back at its End: what is available, in flight, put back and skipped is then
// as before, and so is every lag, and what the same draws would give. Only behind which of two shut gates a submission
// stands may change, which no rule depends on, and the order in which put-back chunks of one submission lie, from which
// Random draws. The cost is that of the picks, twice, and of a note of what they touch. The backlog must not change
// otherwise before End.
type Lookahead struct {
	Picks []Pick // so far, behind those that the caller had

	in     *Backlog
	rnd    *rand.Rand
	from   int
	before []traces
	outer  preview

	examined, uses uint64
	work           [Kinds]Work
}

// LookAhead begins a Lookahead, whose picks are appended to dst. It may begin and end inside of another.
//
// Which chunks of a submission Random has not visited yet come next was decided when it was inserted. With chunks the
// lookahead draws them from there instead, so that what it foresees is one of all that are equally likely; without, it
// is what Take will give.
func LookAhead(b *Backlog, rnd, chunks *rand.Rand, dst []Pick) *Lookahead {
	a := &Lookahead{Picks: dst, in: b, rnd: rnd, from: len(dst), outer: b.preview, examined: b.examined, uses: b.Views.uses, work: b.work}
	b.preview = preview{depth: a.outer.depth + 1, draws: chunks}
	return a
}

// Take takes what View.Take would, at most `most` chunks; number is what the picks call the view.
func (a *Lookahead) Take(v *View, number, most int) {
	used := v.used
	for n := 0; n < most && v.state != dropped; n++ {
		leaf, s, draw := v.chooseNext(v, a.rnd)
		if s == nil {
			break
		}
		a.take(number, leaf, s, draw)
	}
	v.used, v.charge = used, Charge{}
}

// TakeOf takes what Backlog.TakeOf would; number is what the picks call the first of the views, and from there on they
// count.
func (a *Lookahead) TakeOf(views []*View, number int, s *Submission) (ok bool) {
	at, leaf := giverOf(a.in, views, s)
	if leaf == nil {
		return false
	}
	v := views[at]
	if v.fair != nil {
		v.fair.bill(v, leaf, s)
	}
	a.take(number+at, leaf.frame, s, leaf.drawOf(s, a.rnd))
	v.charge = Charge{}
	return true
}

func (a *Lookahead) take(number int, leaf *frame, s *Submission, draw uint32) {
	x := traces{p: s.p, l: s.l, both: s.both}
	many := s.putBack
	index := leaf.takeFrom(s, draw, a.rnd)
	x.back, x.skipped = s.putBack < many, a.in.preview.skipped
	a.in.preview.skipped = nil
	a.before = append(a.before, x)
	a.Picks = append(a.Picks, Pick{s, index, number, leaf.leaf})
}

// End gives everything back, and returns the picks.
func (a *Lookahead) End() []Pick {
	b := a.in
	for i := len(a.before) - 1; i >= 0; i-- {
		b.untake(&a.Picks[a.from+i], &a.before[i])
	}
	b.preview.standAgain()
	b.preview.restoreLedgers()
	b.preview = a.outer
	b.examined, b.Views.uses, b.work = a.examined, a.uses, a.work
	return a.Picks
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
func (x *share) save() {
	b := x.of.of.view.in
	if x.saved == b.preview.depth {
		return
	}
	b.preview.ledgers = append(b.preview.ledgers, savedShare{x, x.saved})
	x.saved = b.preview.depth
	x.Begin()
}

// restoreLedgers makes the ledgers what they were before the lookahead. It may have found out that a tenant has only
// submissions under limits; that stays found out.
func (p *preview) restoreLedgers() {
	for _, of := range p.ledgers {
		x := of.share
		x.saved = of.before
		for _, number := range x.Rollback() {
			if int(number) < len(x.tenants) && x.tenants[number].standing() != gone {
				x.weigh(number) // a view that is being built may have met it only now
				x.settle(number)
			}
		}
	}
}
