package machine

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file keeps chunks whose last try burnt a whole reservation from crowding out fresh work. A chunk that expired is
// a suspect until it is finished. When its back-off is over, it is not offered at once but shelved. From the shelf it
// is lent as long as the lent suspects are no more than a share of the live consumer slots: the other slots are for
// fresh work. With nothing else ready, all are lent. A lent suspect is offered at its natural place, so no strategy
// needs to know. Measured in a discrete-event model of 100 consumers: a share of 0.3 is the smallest that costs no
// submission its finish, and a burst leaves 70 % of the slots to fresh work.

// suspicion says whether a chunk is a suspect, and shelved or lent. It is only in memory. After a restart, the end of
// the last try says again whether a chunk is a suspect.
type suspicion uint8

const (
	cleared suspicion = iota // it is no suspect
	Shelved                  // it is due, and held back
	Lent                     // it is offered or held, and not finished
)

// Suspects are the suspects of a shard. Entries of the lists are not removed when they become moot.
type Suspects struct {
	shard    lender
	settings *queue.Settings
	backlog  *backlog.Backlog
	stats    *Stats
	counting *Counting
	delays   *delays

	shelf   dueHeap // those that are shelved, by when they came due
	out     []Due   // those that are lent and that no one holds, in the order in which they were put out
	Shelved int
	Lent    int
	Ready   int // of the lent, those that no one holds
	slots   slots
}

// lender is the shard as its suspects ask about it and have it offer chunks.
type lender interface {
	LiveSeq(seq uint32) *Record
	IsHeld(r *Record, index uint32) bool
	InFlight() uint64                                                 // reservations of open submissions
	PutBack(r *Record, index uint32)                                  // offers a taken chunk
	Withdraw(r *Record, index uint32, bounded bool) backlog.Withdrawn // takes an available one
}

const (
	// patience is how long a lent suspect that no one takes keeps others from being lent.
	patience = 5 * time.Second
	// LendMost bounds how many suspects one input lends in passing.
	LendMost = 32
	// borrowLooked is how many shelved suspects a reserve that found nothing else looks at.
	borrowLooked = 256
)

// suspicious says whether a chunk whose last try ended so is a suspect, as the queue is set now.
func (p *Suspects) suspicious(reason journal.ReturnReason) bool {
	tail := p.settings.Requeue == queue.Tail
	switch reason {
	case journal.Expired:
		return tail || p.settings.SuspectShare < 1
	case journal.Failed, journal.Lost:
		return tail
	}
	return false
}

// strict says that suspects go behind all that was ready when they came due.
func (p *Suspects) strict() bool {
	return p.settings.Requeue == queue.Tail || p.settings.SuspectShare <= 0
}

// LiveSlots is how many chunks consumers can be expected to hold at once.
func (p *Suspects) LiveSlots(now queue.Time) float64 { return p.slots.live(p.shard.InFlight(), now) }

// Quota is how many suspects may be lent while there is other work. At least one: with few consumers a share rounds
// to none, and suspects would wait for ever. The tiny addend keeps a product such as 0.3 × 10 from falling below 3.
func (p *Suspects) Quota(now queue.Time) int {
	return max(1, int(p.settings.SuspectShare*p.LiveSlots(now)+1e-9))
}

// shelve holds a chunk back that is taken and due.
func (p *Suspects) shelve(r *Record, index uint32, t *Try, at queue.Time) {
	p.counting.Changing(r)
	p.delays.begin(r, index, t)
	if t.Suspect != Shelved {
		t.Suspect = Shelved
		r.Shelved++
		p.counting.tallied(r, t).Shelved++
		p.Shelved++
	}
	t.since = at
	p.shelf.push(Due{At: at, Seq: r.Seq, index: index})
}

// unshelve notes that a shelved chunk waits no longer.
func (p *Suspects) unshelve(r *Record, t *Try) {
	if t.Suspect == Shelved {
		t.Suspect = cleared
		r.Shelved--
		p.counting.tallied(r, t).Shelved--
		p.Shelved--
	}
}

// lendOut offers a shelved chunk.
func (p *Suspects) lendOut(r *Record, index uint32, t *Try, now queue.Time) {
	p.counting.Changing(r)
	p.delays.end(r, index, t)
	p.lends(r, t, now)
	p.shard.PutBack(r, index)
}

// lends notes that a suspect is lent.
func (p *Suspects) lends(r *Record, t *Try, now queue.Time) {
	t.Suspect, t.since = Lent, now
	r.Lent++
	p.counting.tallied(r, t).Lent++
	p.Lent++
}

// acquit notes that a try of a chunk is over, whatever its result.
func (p *Suspects) acquit(r *Record, t *Try) {
	if t.Suspect == Lent {
		p.counting.Changing(r)
		t.Suspect = cleared
		r.Lent--
		p.counting.tallied(r, t).Lent--
		p.Lent--
	}
}

// offered notes that a chunk is available.
func (p *Suspects) offered(r *Record, index uint32) {
	if t := r.Tries[index]; t != nil && t.Suspect == Lent {
		r.Ready++
		p.counting.tallied(r, t).Ready++
		p.Ready++
		p.out = append(p.out, Due{At: t.since, Seq: r.Seq, index: index})
	}
}

// taken notes that a chunk is available no longer.
func (p *Suspects) taken(r *Record, index uint32) {
	if t := r.Tries[index]; t != nil && t.Suspect == Lent {
		r.Ready--
		p.counting.tallied(r, t).Ready--
		p.Ready--
	}
}

// acquitAll forgets the suspects of a submission that ends. Their entries in the lists become moot, and are passed
// over when they are met.
func (p *Suspects) acquitAll(r *Record) {
	p.Shelved -= int(r.Shelved)
	p.Lent -= int(r.Lent)
	p.Ready -= int(r.Ready)
	r.Shelved, r.Lent, r.Ready = 0, 0, 0
}

// chunk is the chunk of an entry of the shelf; nil: the entry is moot.
func (p *Suspects) chunk(d Due) (r *Record, t *Try) {
	if r = p.shard.LiveSeq(d.Seq); r == nil {
		return nil, nil
	}
	t = r.Tries[d.index]
	if t == nil || t.Suspect != Shelved || t.since != d.At || p.shard.IsHeld(r, d.index) {
		// held: a late completion is on its way
		return nil, nil
	}
	return r, t
}

// Lend puts suspects out, or back on the shelf, depending on the queue's settings and the other work; it moves at most
// `most` and says how many.
func (p *Suspects) Lend(now queue.Time, most int) (n int) {
	if p.Shelved == 0 && p.Ready == 0 {
		p.shelf, p.out = p.shelf[:0], p.out[:0]
		return 0
	}
	fresh, quota := false, math.MaxInt
	if !p.strict() && p.settings.SuspectShare < 1 && p.backlog.Available() > uint64(p.Ready) {
		fresh, quota = true, p.Quota(now)
		n = p.recall(now, quota, most)
	}
	for ; n < most; n++ {
		d, there := p.shelf.first()
		if !there || fresh && p.Lent >= quota || p.strict() && p.before(d) {
			break
		}
		p.shelf.pop()
		if r, t := p.chunk(d); t != nil {
			p.lendOut(r, d.index, t, now)
			p.stats.Acted(KindSuspect, true)
		}
	}
	return n
}

// before says whether a chunk is ready that was already ready when a suspect came due.
func (p *Suspects) before(d Due) bool {
	oldest, there := p.backlog.OldestAvailable()
	return there && oldest.Time() <= d.At
}

// recall puts lent suspects that no one took back on the shelf: those beyond the quota, which were lent while there was
// no other work, and those that were out for long, each in exchange for a shelved one.
func (p *Suspects) recall(now queue.Time, quota, most int) (n int) {
	for ; n < most && p.Lent > quota && p.Ready > 0 && len(p.out) > 0; n++ {
		last := len(p.out) - 1
		d := p.out[last]
		p.out = p.out[:last]
		p.takeBack(d, d.At)
	}
	full, others := p.Lent >= quota, p.Shelved
	for ; n < most && len(p.out) > 0; n++ {
		d := p.out[0]
		if p.isOut(d) {
			if !full || others == 0 || now.Sub(d.At) < patience {
				break
			}
			p.takeBack(d, now)
			others--
		}
		p.out = p.out[1:]
	}
	if len(p.out) > 2*p.Ready+1024 {
		p.tidyOut()
	}
	return n
}

// isOut says whether an entry of `out` still is a lent suspect that no one holds.
func (p *Suspects) isOut(d Due) bool {
	r := p.shard.LiveSeq(d.Seq)
	if r == nil {
		return false
	}
	t := r.Tries[d.index]
	return t != nil && t.Suspect == Lent && t.since == d.At && r.Sub.IsAvailable(d.index)
}

// takeBack shelves a lent chunk that no one holds.
func (p *Suspects) takeBack(d Due, at queue.Time) {
	if !p.isOut(d) {
		return
	}
	r := p.shard.LiveSeq(d.Seq)
	t := r.Tries[d.index]
	p.shard.Withdraw(r, d.index, false)
	p.acquit(r, t)
	p.shelve(r, d.index, t, at)
}

func (p *Suspects) tidyOut() {
	keep := make([]Due, 0, p.Ready)
	seen := map[Due]bool{}
	for _, d := range p.out {
		if p.isOut(d) && !seen[d] {
			seen[d] = true
			keep = append(keep, d)
		}
	}
	p.out = keep
}

// Borrow lends suspects to a reserve that found nothing else: those that its strategy matches, as this takes no slot
// from fresh work. It says whether there are any.
func (p *Suspects) Borrow(q *Request, most int, now queue.Time) bool {
	if p.Shelved == 0 {
		return false
	}
	lent := p.Lend(now, TickMost)
	if p.strict() {
		return lent > 0
	}
	n := 0
	for _, d := range p.shelf[:min(borrowLooked, len(p.shelf))] {
		if n == most {
			break
		}
		if r, t := p.chunk(d); t != nil && Matches(q.Plan, r.Meta()) {
			p.lendOut(r, d.index, t, now)
			n++
		}
	}
	return lent+n > 0
}
