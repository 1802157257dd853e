package backlog

import "math/rand/v2"

// Pick is one chunk that Preview says would be taken next, by the view of this number. Of a fair view, Leaf gives it.
type Pick struct {
	Submission *Submission
	Index      uint32
	View       int
	Leaf       uint8
}

// preview is what a Preview under way needs to know so that it can take everything back.
type preview struct {
	running bool
	draws   *rand.Rand // which of the chunks that no cursor visited come next under Random; nil: those that Take would give
	skipped []uint32   // chunks of the skip set that the cursor of the present pick passed
	ledgers []*share   // whose ledgers are to be rolled back
	stood   map[spot]uint32
}

// traces is what one pick changed of a submission that its inverse does not know.
type traces struct {
	p, l, both uint32
	back       bool     // the chunk was a put-back one
	skipped    []uint32 // of the skip set
}

// Preview appends what Take would give now, the first view that has something first, at most `most` chunks. It takes them
// and gives everything back: what is available, in flight, put back and skipped is as before, and so is every lag, and what
// the same draws would give. Only behind which of two shut gates a submission stands may change, which no rule depends on, and
// the order in which put-back chunks of one submission lie, from which Random draws. The cost is that of the picks, twice, and
// of a note of what they touch.
//
// Which chunks of a submission Random has not visited yet come next was decided when it was inserted. With chunks the preview draws
// them from there instead, so that what it foresees is one of all that are equally likely; without, it is what Take will give.
func (b *Backlog) Preview(views []*View, most int, rnd, chunks *rand.Rand, dst []Pick) []Pick {
	examined, uses, work := b.examined, b.uses, b.work
	b.preview.running, b.preview.draws = true, chunks
	from := len(dst)
	var before []traces
	for i, v := range views {
		used := v.used
		for len(dst)-from < most && v.state != dropped {
			leaf, s, draw := v.chooseNext(v, rnd)
			if s == nil {
				break
			}
			x := traces{p: s.p, l: s.l, both: s.both}
			many := s.putBack
			index := leaf.takeFrom(s, draw, rnd)
			x.back, x.skipped = s.putBack < many, b.preview.skipped
			b.preview.skipped = nil
			before = append(before, x)
			dst = append(dst, Pick{s, index, i, leaf.leaf})
		}
		v.used, v.charge = used, Charge{}
	}
	for i := len(before) - 1; i >= 0; i-- {
		b.untake(&dst[from+i], &before[i])
	}
	b.standAgain()
	b.restoreLedgers()
	b.preview.running, b.preview.draws = false, nil
	b.examined, b.uses, b.work = examined, uses, work
	return dst
}

// untake is the inverse of a Take.
func (b *Backlog) untake(pick *Pick, x *traces) {
	s := pick.Submission
	s.p, s.l, s.both = x.p, x.l, x.both
	if x.back {
		b.addBack(s, pick.Index)
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
	if !b.preview.running || x.saved {
		return
	}
	x.saved = true
	x.Begin()
	b.preview.ledgers = append(b.preview.ledgers, x)
}

// restoreLedgers makes the ledgers what they were before the preview. The preview may have found out that a tenant has only
// submissions under limits; that stays found out.
func (b *Backlog) restoreLedgers() {
	for _, x := range b.preview.ledgers {
		x.saved = false
		for _, number := range x.Rollback() {
			if int(number) < len(x.tenants) && x.tenants[number].standing() != gone {
				x.weigh(number) // a view that is being built may have met it only now
				x.settle(number)
			}
		}
	}
	clear(b.preview.ledgers)
	b.preview.ledgers = b.preview.ledgers[:0]
}
