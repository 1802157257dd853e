package shard

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file keeps chunks whose last try burnt a whole reservation from crowding out fresh work. A chunk that expired is a suspect
// until it is finished. When its back-off is over it is not offered at once but shelved, and lent out from the shelf as long
// as no more than a share of the live consumer slots is lent: the others are for fresh work. With nothing else ready, all are
// lent. A lent suspect is offered at its natural place, so no strategy needs to know. Measured in a discrete-event model of
// 100 consumers: a share of 0.3 is the smallest that costs no submission its finish, and a burst leaves 70 % of the slots to
// fresh work.

// suspicion is where a chunk stands with that.
type suspicion uint8

const (
	cleared suspicion = iota // it is no suspect
	shelved                  // it is due, and held back
	lent                     // it is offered or held, and not finished
)

// suspects are the suspects of a shard. Entries of the lists are not removed when they become moot.
type suspects struct {
	m       *machine
	shelf   dueHeap // those that are shelved, by when they came due
	out     []due   // those that are lent and that no one holds, in the order in which they were put out
	shelved int
	lent    int
	ready   int // of the lent, those that no one holds

	slots   float64 // live consumer slots, at
	slotsAt queue.Time
}

const (
	// slotsHalf is how long the estimate of live consumer slots takes to come half of the way down to what is held now.
	slotsHalf = 10 * time.Second

	// slotsLeast is a difference that is none any more.
	slotsLeast = 0.01
	// patience is how long a lent suspect that no one takes keeps others from being lent.
	patience = 5 * time.Second
	// lendMost bounds how many suspects one input lends besides what it is about.
	lendMost = 32
	// borrowLooked is how many shelved suspects a reserve that found nothing else looks at.
	borrowLooked = 256
)

// suspicious says whether a chunk whose last try ended so is a suspect, as the queue is set now.
func (p *suspects) suspicious(reason journal.ReturnReason) bool {
	tail := p.m.settings.Requeue == queue.Tail
	switch reason {
	case journal.Expired:
		return tail || p.m.settings.SuspectShare < 1
	case journal.Failed, journal.Lost:
		return tail
	}
	return false
}

// strict says that suspects go behind all that was ready when they came due.
func (p *suspects) strict() bool {
	return p.m.settings.Requeue == queue.Tail || p.m.settings.SuspectShare <= 0
}

// heldMore notes that there may be more live consumer slots than thought, or as many still: their going down begins now at the earliest.
func (p *suspects) heldMore(now queue.Time) {
	if n := float64(p.m.heldNowAll()); n >= p.slots {
		p.slots, p.slotsAt = n, now
	}
}

// heldNowAll is how many reservations of open submissions there are.
func (m *machine) heldNowAll() uint64 { return uint64(m.holds.Len()) - m.stats.orphaned }

// slotGone notes that a slot went with its consumer: its reservation ended by itself.
func (p *suspects) slotGone() { p.slots = max(p.slots-1, 0) }

// liveSlots is how many chunks consumers can be expected to hold at once. It is the number of reservations held now, or, if
// that was larger a moment ago, on its way down from there with a half-life of slotsHalf, so that the moment between two chunks
// of a consumer does not count. A reservation whose deadline passed, or whose consumer was lost, takes its slot with it at once:
// a pool of workers that died has no slots.
func (p *suspects) liveSlots(now queue.Time) float64 {
	held := float64(p.m.heldNowAll())
	if p.slots > held+slotsLeast {
		since := max(now.Sub(p.slotsAt), 0)
		p.slots = held + (p.slots-held)*math.Exp2(-since.Seconds()/slotsHalf.Seconds())
	} else {
		p.slots = held
	}
	p.slotsAt = now
	return p.slots
}

// quota is how many suspects may be lent while there is other work.
func (p *suspects) quota(now queue.Time) int {
	return max(1, int(p.m.settings.SuspectShare*p.liveSlots(now)+1e-9))
}

// shelve holds a chunk back that is taken and due.
func (p *suspects) shelve(r *record, index uint32, t *try, at queue.Time) {
	m := p.m
	m.changing(r)
	if !t.waiting {
		m.waits(r, index, t)
		m.stats.waiting++
	}
	if t.suspect != shelved {
		t.suspect = shelved
		r.shelved++
		m.recount.tallied(r, t).shelved++
		p.shelved++
	}
	t.since = at
	p.shelf.push(due{at: at, seq: r.seq, index: index})
}

// unshelve notes that a shelved chunk waits no longer.
func (p *suspects) unshelve(r *record, t *try) {
	if t.suspect == shelved {
		t.suspect = cleared
		r.shelved--
		p.m.recount.tallied(r, t).shelved--
		p.shelved--
	}
}

// lendOut offers a shelved chunk.
func (p *suspects) lendOut(r *record, index uint32, t *try, now queue.Time) {
	m := p.m
	m.changing(r)
	m.undelay(r, index, t)
	p.lends(r, t, now)
	m.putBack(r, index)
}

// lends notes that a suspect is lent.
func (p *suspects) lends(r *record, t *try, now queue.Time) {
	t.suspect, t.since = lent, now
	r.lent++
	p.m.recount.tallied(r, t).lent++
	p.lent++
}

// acquit notes that a try of a chunk is over, whatever came of it.
func (p *suspects) acquit(r *record, t *try) {
	if t.suspect == lent {
		p.m.changing(r)
		t.suspect = cleared
		r.lent--
		p.m.recount.tallied(r, t).lent--
		p.lent--
	}
}

// offered notes that a chunk is available.
func (p *suspects) offered(r *record, index uint32) {
	if t := r.tries[index]; t != nil && t.suspect == lent {
		r.ready++
		p.m.recount.tallied(r, t).ready++
		p.ready++
		p.out = append(p.out, due{at: t.since, seq: r.seq, index: index})
	}
}

// taken notes that a chunk is available no longer.
func (p *suspects) taken(r *record, index uint32) {
	if t := r.tries[index]; t != nil && t.suspect == lent {
		r.ready--
		p.m.recount.tallied(r, t).ready--
		p.ready--
	}
}

// acquitAll forgets the suspects of a submission that ends.
func (p *suspects) acquitAll(r *record) {
	p.shelved -= int(r.shelved)
	p.lent -= int(r.lent)
	p.ready -= int(r.ready)
	r.shelved, r.lent, r.ready = 0, 0, 0
}

// chunk is what an entry of the shelf still stands for; nil: for nothing.
func (p *suspects) chunk(d due) (r *record, t *try) {
	if r = p.m.liveSeq(d.seq); r == nil {
		return nil, nil
	}
	t = r.tries[d.index]
	if t == nil || t.suspect != shelved || t.since != d.at || p.m.isHeld(r, d.index) { // held: a late completion is on its way
		return nil, nil
	}
	return r, t
}

// lend puts suspects out, or back on the shelf, as the queue's settings and what else there is demand; it does at most `most`
// things and says how many.
func (p *suspects) lend(now queue.Time, most int) (n int) {
	m := p.m
	if p.shelved == 0 && p.ready == 0 {
		p.shelf, p.out = p.shelf[:0], p.out[:0]
		return 0
	}
	fresh, quota := false, math.MaxInt
	if !p.strict() && m.settings.SuspectShare < 1 && m.backlog.Available() > uint64(p.ready) {
		fresh, quota = true, p.quota(now)
		n = p.recall(now, quota, most)
	}
	for ; n < most; n++ {
		d, there := p.shelf.first()
		if !there || fresh && p.lent >= quota || p.strict() && p.before(d) {
			break
		}
		p.shelf.pop()
		if r, t := p.chunk(d); t != nil {
			p.lendOut(r, d.index, t, now)
			m.lifecycle.acted(KindSuspect, true)
		}
	}
	return n
}

// before says whether something is ready that was so when a suspect came due.
func (p *suspects) before(d due) bool {
	oldest, there := p.m.backlog.OldestAvailable()
	return there && oldest.Time() <= d.at
}

// recall puts lent suspects that no one took back on the shelf: what is over the quota, as when they were lent while there was
// nothing else, and, one for another, those that were out for long.
func (p *suspects) recall(now queue.Time, quota, most int) (n int) {
	for ; n < most && p.lent > quota && p.ready > 0 && len(p.out) > 0; n++ {
		last := len(p.out) - 1
		d := p.out[last]
		p.out = p.out[:last]
		p.takeBack(d, d.at)
	}
	full, others := p.lent >= quota, p.shelved
	for ; n < most && len(p.out) > 0; n++ {
		d := p.out[0]
		if p.isOut(d) {
			if !full || others == 0 || now.Sub(d.at) < patience {
				break
			}
			p.takeBack(d, now)
			others--
		}
		p.out = p.out[1:]
	}
	if len(p.out) > 2*p.ready+1024 {
		p.tidyOut()
	}
	return n
}

// isOut says whether an entry of the lent that no one holds still stands for one.
func (p *suspects) isOut(d due) bool {
	r := p.m.liveSeq(d.seq)
	if r == nil {
		return false
	}
	t := r.tries[d.index]
	return t != nil && t.suspect == lent && t.since == d.at && r.sub.IsAvailable(d.index)
}

// takeBack shelves a lent chunk that no one holds.
func (p *suspects) takeBack(d due, at queue.Time) {
	if !p.isOut(d) {
		return
	}
	r := p.m.liveSeq(d.seq)
	t := r.tries[d.index]
	p.m.withdraw(r, d.index, false)
	p.acquit(r, t)
	p.shelve(r, d.index, t, at)
}

func (p *suspects) tidyOut() {
	keep := make([]due, 0, p.ready)
	seen := map[due]bool{}
	for _, d := range p.out {
		if p.isOut(d) && !seen[d] {
			seen[d] = true
			keep = append(keep, d)
		}
	}
	p.out = keep
}

// borrow lends suspects to a reserve that found nothing else: those that its strategy matches, as it takes nothing from fresh
// work. It says whether there are any.
func (p *suspects) borrow(q *Request, most int, now queue.Time) bool {
	if p.shelved == 0 {
		return false
	}
	lent := p.lend(now, tickMost)
	if p.strict() {
		return lent > 0
	}
	n := 0
	for _, d := range p.shelf[:min(borrowLooked, len(p.shelf))] {
		if n == most {
			break
		}
		if r, t := p.chunk(d); t != nil && matches(q.Plan, r.meta()) {
			p.lendOut(r, d.index, t, now)
			n++
		}
	}
	return lent+n > 0
}
