package backlog

import (
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// This file counts the totals again, in all and for each value, in slices between which anything
// may happen to the backlog. The recount counts the backlog as it was when the recount began. It meets
// a submission in that state, either by the walk or, before that, at the submission's first change
// (Changing); from then on a change costs a look at one bit. Submissions that come later do not belong
// to that moment, and are born met. The recount copies the kept totals as it begins. It copies those
// of a value when it meets the first of its submissions, or when a new one is born with the value;
// until then nothing of the value can have changed. So found and kept are of one moment, however long
// the walk takes.

// recount is one under way.
//
//	found and kept are of the moment of Begin:
//
//	Begin: copies the totals ──── slices of the walk ──── end: found − kept must be 0
//	                 a submission changes before the walk comes to it ─► it is met now, as it still is
//	                 a new submission                                 ─► born met: it is of later
//
// Anything that changes a counted value must call Changing first. A path that forgets it would show as
// a drift that is none, and the recount would "correct" a right number; so a total is corrected only
// after two rounds agree.
type recount struct {
	subs    *submissions
	values  *values
	rules   *rulings
	running bool
	seen    []uint64 // by slot, a bit: the submission was met, or is of later
	at, end uint32   // slots that the walk has yet to look at
	each    func(*Submission)
	totals  Sums
	lacked  []*term               // as the recount began: those that come later are not compared
	sums    []*[sumsPage]valueSum // by number of the term; a nil page: none of them was met
	mixed   bool                  // one sum has two terms, which cannot be: the sums of values are worth nothing
}

// Sums are differences: the recounted value minus the counter.
type Sums struct {
	Available int64                             // chunks of shown submissions
	Chunks    [2][queue.BlockedByRule + 1]int64 // of them, by book and by the ruling of values and submissions
}

// ValueSums are those of one value.
type ValueSums struct {
	Available   int64
	Covered     [2][2]int64 // of them, by book: those under pauses, those under blocks
	InFlight    int64
	Submissions int64
}

type valueSum struct {
	of *term
	ValueSums
}

// sumsPage is how many sums are made at once: few, because a slice may meet scattered values.
const sumsPage = 16

// Begin begins a recount; one that is under way is forgotten. Begin has `each` called for every
// submission that is met, before anything of it changes; it must not change the backlog.
func (r *recount) Begin(each func(*Submission)) {
	seen := r.seen[:0]
	if words := (len(r.subs.list) + 63) / 64; words <= cap(seen) {
		seen = seen[:words]
		clear(seen)
	} else {
		seen = make([]uint64, words)
	}
	*r = recount{subs: r.subs, values: r.values, rules: r.rules, running: true, seen: seen,
		end: uint32(len(r.subs.list)), each: each,
		sums: make([]*[sumsPage]valueSum, (len(r.values.list)+sumsPage-1)/sumsPage)}
	r.lacked = slices.Clone(r.values.lacked)
	for _, t := range r.lacked {
		r.sumOf(t)
	}
	t := &r.totals
	t.Available = -int64(r.subs.available)
	for book := range t.Chunks {
		for ruling := range t.Chunks[book] {
			t.Chunks[book][ruling] = -int64(r.rules.chunks[book][ruling])
		}
	}
}

// Changing must be called before a value that a recount counts changes for a submission. This includes
// values that `each` was told.
func (r *recount) Changing(s *Submission) {
	if r.running {
		r.changing(s)
	}
}

func (r *recount) changing(s *Submission) {
	if s.home != nil && r.seen[s.slot/64]>>(s.slot%64)&1 == 0 {
		r.meet(s)
	}
}

// Next goes on with the walk: it takes about `most` steps and says how many; more: some
// submissions are left.
func (r *recount) Next(most int) (steps int, more bool) {
	for ; steps < most && r.at < r.end; r.at++ {
		steps++
		if s := r.subs.list[r.at]; s != nil {
			steps += s.MetaLen()
			r.Changing(s)
		}
	}
	return steps, r.at < r.end
}

// meet counts a submission.
func (r *recount) meet(s *Submission) {
	r.seen[s.slot/64] |= 1 << (s.slot % 64)
	shown, available := s.Shown(), int64(s.available)
	if shown {
		r.totals.Available += available
		for book := range r.totals.Chunks {
			r.totals.Chunks[book][s.ruling[book]] += available
		}
	}
	for _, ref := range s.refs() {
		sum := r.sumOf(r.values.list[ref.term])
		r.mixed = r.mixed || sum.of != r.values.list[ref.term]
		sum.Submissions++
		sum.InFlight += int64(s.inFlight)
		if !shown {
			continue
		}
		sum.Available += available
		for book, ruling := range s.ruling {
			if ruling != queue.Unruled {
				sum.Covered[book][ruling-queue.PausedByRule] += available
			}
		}
	}
	for _, t := range r.lacked {
		if r.values.list[t.number] == t && s.termOf(t.key) != nil {
			r.sumOf(t).InFlight += int64(s.inFlight)
		}
	}
	r.each(s)
}

// born is for a submission that comes during a recount, before it is counted anywhere.
func (r *recount) born(s *Submission) {
	for int(s.slot/64) >= len(r.seen) {
		r.seen = append(r.seen, 0)
	}
	r.seen[s.slot/64] |= 1 << (s.slot % 64)
}

// sumOf is the sum of a term; it starts with the kept totals. If another term went and this one has
// its number now, the sum is the other's: then all submissions with this one came during the recount.
func (r *recount) sumOf(t *term) *valueSum {
	page := int(t.number / sumsPage)
	for page >= len(r.sums) {
		r.sums = append(r.sums, nil)
	}
	if r.sums[page] == nil {
		r.sums[page] = new([sumsPage]valueSum)
	}
	sum := &r.sums[page][t.number%sumsPage]
	if sum.of == nil {
		sum.of = t
		sum.Available, sum.InFlight, sum.Submissions = -int64(t.available), -int64(t.own()), -int64(t.all)
		for book, covered := range t.covered {
			sum.Covered[book] = [2]int64{-int64(covered[0]), -int64(covered[1])}
		}
	}
	return sum
}

// Progress is how many slots of submissions the walk has looked at, and how many it has to look at.
func (r *recount) Progress() (at, end uint32) { return r.at, r.end }

// End ends the walk and returns the differences in all. Values goes through those of values.
func (r *recount) End() Sums {
	r.running, r.each = false, nil
	return r.totals
}

// Values calls fn for values whose counters differed, after looking at up to `most`, from
// the place `from` on, and returns the place to go on from; 0 when all were looked at. fn
// may call CorrectValue. looked is how many values were compared.
func (r *recount) Values(from, most int, fn func(queue.MetaEntry, ValueSums)) (next, looked int) {
	if r.mixed {
		r.sums = nil
	}
	for number := from; number < len(r.values.list) && number < len(r.sums)*sumsPage; number++ {
		if number-from == most {
			return number, looked
		}
		t, d := r.values.list[number], ValueSums{}
		if page := r.sums[number/sumsPage]; page != nil && page[number%sumsPage].of == t {
			d = page[number%sumsPage].ValueSums
		} else if t != nil && t.all == 0 { // no submission has it: views ask for it
			d = ValueSums{Available: -int64(t.available), InFlight: -int64(t.own())}
			for book, covered := range t.covered {
				d.Covered[book] = [2]int64{-int64(covered[0]), -int64(covered[1])}
			}
		}
		if t == nil || t.key.of != nil && !slices.Contains(r.lacked, t) {
			continue
		}
		if looked++; d != (ValueSums{}) {
			fn(queue.MetaEntry{Key: t.key.name, Value: t.value}, d)
		}
	}
	r.sums = nil
	return 0, looked
}

// CorrectTotals adds differences to the totals.
func (r *recount) CorrectTotals(d Sums) {
	r.subs.available += uint64(d.Available)
	for book := range d.Chunks {
		for ruling, by := range d.Chunks[book] {
			r.rules.chunks[book][ruling] += uint64(by)
		}
	}
}

// CorrectValue adds differences to the counters of a value. Its gates open and shut accordingly.
func (r *recount) CorrectValue(entry queue.MetaEntry, d ValueSums) {
	t := r.values.find(entry.Key, entry.Value)
	if t == nil {
		return
	}
	t.available += uint64(d.Available)
	for book := range d.Covered {
		t.covered[book][0] += uint64(d.Covered[book][0])
		t.covered[book][1] += uint64(d.Covered[book][1])
	}
	if d.InFlight != 0 {
		r.values.correct(tally{t, strategy.Simultaneous}, d.InFlight)
	}
	if d.Submissions != 0 {
		t.all = uint32(int64(t.all) + d.Submissions)
		r.values.release(t)
	}
}

// Slots bounds the slots of submissions, for InSlot.
func (b *Backlog) Slots() uint32 { return uint32(len(b.subs.list)) }

// InSlot is the submission in a slot below Slots; nil when there is none. A submission keeps its slot.
func (b *Backlog) InSlot(slot uint32) *Submission { return b.subs.list[slot] }

// Recounted is how many chunks are available, counted again from the cursors and the exceptions.
func (s *Submission) Recounted() uint32 {
	return s.chunks - (s.p - s.both) - s.l - uint32(s.ahead.len()) + uint32(s.back.len())
}

// SetAvailable corrects how many chunks of a submission are available; totals stay as they
// are. false: its place in views is unknown by now, and nothing is changed.
func (b *Backlog) SetAvailable(s *Submission, n uint32) bool {
	weight, known := s.weight()
	if !known {
		return false
	}
	b.Recount.Changing(s)
	if s.oldestAt != none || len(s.members) > 0 {
		s.available = weight
		b.bases.unoffer(s)
	}
	s.available = n
	if s.Shown() && s.offered() {
		b.bases.offer(s)
	}
	return true
}

// weight is a number of available chunks that fits the submission's places in all Random views.
func (s *Submission) weight() (weight uint32, known bool) {
	weight = max(s.available, 1)
	if len(s.members) == 0 {
		return weight, true
	}
	for exp := -1; exp < int(exponent(math.MaxUint32))+1; exp++ {
		if exp >= 0 { // first as it is counted
			weight = uint32(min(bound(uint8(exp)), math.MaxUint32))
		}
		if !slices.ContainsFunc(s.members, func(m member) bool { return !s.stands(m, exponent(uint64(weight))) }) {
			return weight, true
		}
	}
	return 0, false
}

// stands reports whether a member's entry is in the right place for this exponent.
func (s *Submission) stands(m member, exp uint8) bool {
	b := s.home.bases.list[m.base]
	if b.order != strategy.Random {
		return true
	}
	p := b.poolOf(m.gate)
	i := p.search(exp)
	if i == p.count() || p.nth(i).exp != exp {
		return false
	}
	entries := p.nth(i).entries
	return int(m.place) < len(entries) && entries[m.place].of == s.slot
}

// SetInFlight corrects the number of chunks of a submission that are in flight. The counts of its
// values stay as they are.
func (b *Backlog) SetInFlight(s *Submission, n uint32) {
	b.Recount.Changing(s)
	b.subs.flying += uint64(n) - uint64(s.inFlight)
	s.inFlight = n
}

// InBook is how many available chunks of shown submissions a book has under a ruling of
// values and submissions.
func (r *rulings) InBook(book int, ruling queue.Ruling) uint64 { return r.chunks[book][ruling] }

// Kept are the counters of one value.
func (r *recount) Kept(entry queue.MetaEntry) (kept ValueSums) {
	if t := r.values.find(entry.Key, entry.Value); t != nil {
		kept = ValueSums{Available: int64(t.available), InFlight: int64(t.own()), Submissions: int64(t.all)}
		for book, covered := range t.covered {
			kept.Covered[book] = [2]int64{int64(covered[0]), int64(covered[1])}
		}
	}
	return kept
}
