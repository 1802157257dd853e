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
	shelf   dueHeap // those that are shelved, by when they came due
	out     []due   // those that are lent and that nobody holds, in the order in which they were put out
	shelved int
	lent    int
	ready   int // of the lent, those that nobody holds

	slots   float64 // live consumer slots, at
	slotsAt queue.Time
}

const (
	// slotsHalf is how long the estimate of live consumer slots takes to come half of the way down to what is held now.
	slotsHalf = 10 * time.Second

	// slotsLeast is a difference that is none any more.
	slotsLeast = 0.01
	// patience is how long a lent suspect that nobody takes keeps others from being lent.
	patience = 5 * time.Second
	// lendMost bounds how many suspects one input lends besides what it is about.
	lendMost = 32
	// borrowLooked is how many shelved suspects a reserve that found nothing else looks at.
	borrowLooked = 256
)

// suspicious says whether a chunk whose last try ended so is a suspect, as the queue is set now.
func (m *machine) suspicious(reason journal.ReturnReason) bool {
	tail := m.settings.Requeue == queue.Tail
	switch reason {
	case journal.Expired:
		return tail || m.settings.SuspectShare < 1
	case journal.Failed, journal.Lost:
		return tail
	}
	return false
}

// strict says that suspects go behind all that was ready when they came due.
func (m *machine) strict() bool {
	return m.settings.Requeue == queue.Tail || m.settings.SuspectShare <= 0
}

// heldMore notes that there may be more live consumer slots than thought, or as many still: their going down begins now at the earliest.
func (m *machine) heldMore(now queue.Time) {
	if n := float64(m.heldNowAll()); n >= m.suspects.slots {
		m.suspects.slots, m.suspects.slotsAt = n, now
	}
}

// heldNowAll is how many reservations of open submissions there are.
func (m *machine) heldNowAll() uint64 { return uint64(m.holds.Len()) - m.stats.orphaned }

// slotGone notes that a slot went with its consumer: its reservation ended by itself.
func (m *machine) slotGone() { m.suspects.slots = max(m.suspects.slots-1, 0) }

// liveSlots is how many chunks consumers can be expected to hold at once. It is the number of reservations held now, or, if
// that was larger a moment ago, on its way down from there with a half-life of slotsHalf, so that the moment between two chunks
// of a consumer does not count. A reservation whose deadline passed, or whose consumer was lost, takes its slot with it at once:
// a pool of workers that died has no slots.
func (m *machine) liveSlots(now queue.Time) float64 {
	s, held := &m.suspects, float64(m.heldNowAll())
	if s.slots > held+slotsLeast {
		since := max(now.Sub(s.slotsAt), 0)
		s.slots = held + (s.slots-held)*math.Exp2(-since.Seconds()/slotsHalf.Seconds())
	} else {
		s.slots = held
	}
	s.slotsAt = now
	return s.slots
}

// quota is how many suspects may be lent while there is other work.
func (m *machine) quota(now queue.Time) int {
	return max(1, int(m.settings.SuspectShare*m.liveSlots(now)+1e-9))
}

// shelve holds a chunk back that is taken and due.
func (m *machine) shelve(r *record, index uint32, t *try, at queue.Time) {
	m.changing(r)
	if !t.waiting {
		m.waits(r, index, t)
		m.stats.waiting++
	}
	if t.suspect != shelved {
		t.suspect = shelved
		r.shelved++
		m.tallied(r, t).shelved++
		m.suspects.shelved++
	}
	t.since = at
	m.suspects.shelf.push(due{at: at, seq: r.seq, index: index})
}

// unshelve notes that a shelved chunk waits no longer.
func (m *machine) unshelve(r *record, t *try) {
	if t.suspect == shelved {
		t.suspect = cleared
		r.shelved--
		m.tallied(r, t).shelved--
		m.suspects.shelved--
	}
}

// lendOut offers a shelved chunk.
func (m *machine) lendOut(r *record, index uint32, t *try, now queue.Time) {
	m.changing(r)
	m.undelay(r, index, t)
	m.lends(r, t, now)
	m.putBack(r, index)
}

// lends notes that a suspect is lent.
func (m *machine) lends(r *record, t *try, now queue.Time) {
	t.suspect, t.since = lent, now
	r.lent++
	m.tallied(r, t).lent++
	m.suspects.lent++
}

// acquit notes that a try of a chunk is over, whatever came of it.
func (m *machine) acquit(r *record, t *try) {
	if t.suspect == lent {
		m.changing(r)
		t.suspect = cleared
		r.lent--
		m.tallied(r, t).lent--
		m.suspects.lent--
	}
}

// offered notes that a chunk is available.
func (m *machine) offered(r *record, index uint32) {
	if t := r.tries[index]; t != nil && t.suspect == lent {
		r.ready++
		m.tallied(r, t).ready++
		m.suspects.ready++
		m.suspects.out = append(m.suspects.out, due{at: t.since, seq: r.seq, index: index})
	}
}

// taken notes that a chunk is available no longer.
func (m *machine) taken(r *record, index uint32) {
	if t := r.tries[index]; t != nil && t.suspect == lent {
		r.ready--
		m.tallied(r, t).ready--
		m.suspects.ready--
	}
}

// acquitAll forgets the suspects of a submission that ends.
func (m *machine) acquitAll(r *record) {
	s := &m.suspects
	s.shelved -= int(r.shelved)
	s.lent -= int(r.lent)
	s.ready -= int(r.ready)
	r.shelved, r.lent, r.ready = 0, 0, 0
}

// shelvedChunk is what an entry of the shelf still stands for; nil: for nothing.
func (m *machine) shelvedChunk(d due) (r *record, t *try) {
	if r = m.liveSeq(d.seq); r == nil {
		return nil, nil
	}
	t = r.tries[d.index]
	if t == nil || t.suspect != shelved || t.since != d.at || m.isHeld(r, d.index) { // held: a late completion is on its way
		return nil, nil
	}
	return r, t
}

// lend puts suspects out, or back on the shelf, as the queue's settings and what else there is demand; it does at most `most`
// things and says how many.
func (m *machine) lend(now queue.Time, most int) (n int) {
	s := &m.suspects
	if s.shelved == 0 && s.ready == 0 {
		s.shelf, s.out = s.shelf[:0], s.out[:0]
		return 0
	}
	fresh, quota := false, math.MaxInt
	if !m.strict() && m.settings.SuspectShare < 1 && m.backlog.Available() > uint64(s.ready) {
		fresh, quota = true, m.quota(now)
		n = m.recall(now, quota, most)
	}
	for ; n < most; n++ {
		d, there := s.shelf.first()
		if !there || fresh && s.lent >= quota || m.strict() && m.before(d) {
			break
		}
		s.shelf.pop()
		if r, t := m.shelvedChunk(d); t != nil {
			m.lendOut(r, d.index, t, now)
			m.acted(KindSuspect, true)
		}
	}
	return n
}

// before says whether something is ready that was so when a suspect came due.
func (m *machine) before(d due) bool {
	oldest, there := m.backlog.OldestAvailable()
	return there && oldest.Time() <= d.at
}

// recall puts lent suspects that nobody took back on the shelf: what is over the quota, as when they were lent while there was
// nothing else, and, one for another, those that were out for long.
func (m *machine) recall(now queue.Time, quota, most int) (n int) {
	s := &m.suspects
	for ; n < most && s.lent > quota && s.ready > 0 && len(s.out) > 0; n++ {
		last := len(s.out) - 1
		d := s.out[last]
		s.out = s.out[:last]
		m.takeBack(d, d.at)
	}
	full, others := s.lent >= quota, s.shelved
	for ; n < most && len(s.out) > 0; n++ {
		d := s.out[0]
		if m.isOut(d) {
			if !full || others == 0 || now.Sub(d.at) < patience {
				break
			}
			m.takeBack(d, now)
			others--
		}
		s.out = s.out[1:]
	}
	if len(s.out) > 2*s.ready+1024 {
		m.tidyOut()
	}
	return n
}

// isOut says whether an entry of the lent that nobody holds still stands for one.
func (m *machine) isOut(d due) bool {
	r := m.liveSeq(d.seq)
	if r == nil {
		return false
	}
	t := r.tries[d.index]
	return t != nil && t.suspect == lent && t.since == d.at && r.sub.IsAvailable(d.index)
}

// takeBack shelves a lent chunk that nobody holds.
func (m *machine) takeBack(d due, at queue.Time) {
	if !m.isOut(d) {
		return
	}
	r := m.liveSeq(d.seq)
	t := r.tries[d.index]
	m.withdraw(r, d.index, false)
	m.acquit(r, t)
	m.shelve(r, d.index, t, at)
}

func (m *machine) tidyOut() {
	keep := make([]due, 0, m.suspects.ready)
	seen := map[due]bool{}
	for _, d := range m.suspects.out {
		if m.isOut(d) && !seen[d] {
			seen[d] = true
			keep = append(keep, d)
		}
	}
	m.suspects.out = keep
}

// borrow lends suspects to a reserve that found nothing else: those that its strategy matches, as it takes nothing from fresh
// work. It says whether there are any.
func (m *machine) borrow(q *Request, most int, now queue.Time) bool {
	s := &m.suspects
	if s.shelved == 0 {
		return false
	}
	lent := m.lend(now, tickMost)
	if m.strict() {
		return lent > 0
	}
	n := 0
	for _, d := range s.shelf[:min(borrowLooked, len(s.shelf))] {
		if n == most {
			break
		}
		if r, t := m.shelvedChunk(d); t != nil && matches(q.Plan, r.meta()) {
			m.lendOut(r, d.index, t, now)
			n++
		}
	}
	return lent+n > 0
}
