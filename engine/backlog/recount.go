package backlog

import (
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// This file counts the totals again, in all and for each value, in slices between which anything may happen to the backlog. What is
// counted is the moment at which the recount began: a submission is met as it was then, either by the walk or, before that, by the
// first change of it (Changing); from then on it costs a look at one bit. What comes later is not of that moment, and is born met. The
// kept totals of that moment are copied as the recount begins; those of a value when the first of its submissions is met, or a new one
// born with it, as up to then nothing of it can have changed. So found and kept are of one moment, however long the walk takes.

// recount is one under way.
type recount struct {
	of      *Backlog
	running bool
	seen    []uint64 // by slot, a bit: the submission was met, or is of later
	at, end uint32   // slots that the walk has yet to look at
	each    func(*Submission)
	totals  Sums
	values  []*[sumsPage]valueSum // by number of the term; a nil page: none of them was met
	mixed   bool                  // a sum is of two terms, which cannot be: those of values are worth nothing
}

// Sums are differences: what is found, less what is kept.
type Sums struct {
	Available int64                             // chunks of shown submissions
	Chunks    [2][queue.BlockedByRule + 1]int64 // of them, by book and by what rules about values and submissions say
}

// ValueSums are those of one value.
type ValueSums struct {
	Available   int64
	Covered     [2][2]int64 // of them, by book what pauses and what blocks cover
	InFlight    int64
	Submissions int64
}

type valueSum struct {
	of *term
	ValueSums
}

// sumsPage is how many sums are made at once: few, so that a slice that meets values all over the place does not make many.
const sumsPage = 16

// Begin begins a recount; one that is under way is forgotten. each is told of every submission that is met, before anything of
// it changes; it must not change the backlog.
func (c *recount) Begin(each func(*Submission)) {
	seen := c.seen[:0]
	if words := (len(c.of.subs) + 63) / 64; words <= cap(seen) {
		seen = seen[:words]
		clear(seen)
	} else {
		seen = make([]uint64, words)
	}
	*c = recount{of: c.of, running: true, seen: seen, end: uint32(len(c.of.subs)), each: each,
		values: make([]*[sumsPage]valueSum, (len(c.of.Values.list)+sumsPage-1)/sumsPage)}
	t := &c.totals
	t.Available = -int64(c.of.available)
	for book := range t.Chunks {
		for ruling := range t.Chunks[book] {
			t.Chunks[book][ruling] = -int64(c.of.Rules.chunks[book][ruling])
		}
	}
}

// Changing has to be called before anything that a recount counts changes for a submission, also in what each was told of.
func (c *recount) Changing(s *Submission) {
	if c.running {
		c.changing(s)
	}
}

func (c *recount) changing(s *Submission) {
	if s.home != nil && c.seen[s.slot/64]>>(s.slot%64)&1 == 0 {
		c.meet(s)
	}
}

// Next goes on with the walk: it takes about `most` steps and says how many; more: some submissions are left.
func (c *recount) Next(most int) (steps int, more bool) {
	for ; steps < most && c.at < c.end; c.at++ {
		steps++
		if s := c.of.subs[c.at]; s != nil {
			steps += s.MetaLen()
			c.Changing(s)
		}
	}
	return steps, c.at < c.end
}

// meet counts a submission.
func (c *recount) meet(s *Submission) {
	c.seen[s.slot/64] |= 1 << (s.slot % 64)
	shown, available := s.Shown(), int64(s.available)
	if shown {
		c.totals.Available += available
		for book := range c.totals.Chunks {
			c.totals.Chunks[book][s.ruling[book]] += available
		}
	}
	for _, ref := range s.refs() {
		sum := c.sumOf(c.of.Values.list[ref.term])
		c.mixed = c.mixed || sum.of != c.of.Values.list[ref.term]
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
	c.each(s)
}

// born is for a submission that comes during a recount, before it is counted anywhere.
func (c *recount) born(s *Submission) {
	for int(s.slot/64) >= len(c.seen) {
		c.seen = append(c.seen, 0)
	}
	c.seen[s.slot/64] |= 1 << (s.slot % 64)
}

// sumOf is the sum of a term; at first what is kept is copied. It is that of another term if that one went and this one has its number
// now: then all that have this one came during the recount.
func (c *recount) sumOf(t *term) *valueSum {
	page := int(t.number / sumsPage)
	for page >= len(c.values) {
		c.values = append(c.values, nil)
	}
	if c.values[page] == nil {
		c.values[page] = new([sumsPage]valueSum)
	}
	sum := &c.values[page][t.number%sumsPage]
	if sum.of == nil {
		sum.of = t
		sum.Available, sum.InFlight, sum.Submissions = -int64(t.available), -int64(t.inFlight), -int64(t.all)
		for book, covered := range t.covered {
			sum.Covered[book] = [2]int64{-int64(covered[0]), -int64(covered[1])}
		}
	}
	return sum
}

// Progress is how many slots of submissions the walk has looked at, and how many it has to look at.
func (c *recount) Progress() (at, end uint32) { return c.at, c.end }

// End ends the walk and returns the differences in all. Those of values are gone through with Values.
func (c *recount) End() Sums {
	c.running, c.each = false, nil
	return c.totals
}

// Values calls fn for values whose counters differed, after looking at up to `most`, from the place `from` on, and returns the
// place to go on from; 0 when all were looked at. fn may call CorrectValue. looked is how many values were compared.
func (c *recount) Values(from, most int, fn func(queue.MetaEntry, ValueSums)) (next, looked int) {
	if c.mixed {
		c.values = nil
	}
	for number := from; number < len(c.of.Values.list) && number < len(c.values)*sumsPage; number++ {
		if number-from == most {
			return number, looked
		}
		t, d := c.of.Values.list[number], ValueSums{}
		if page := c.values[number/sumsPage]; page != nil && page[number%sumsPage].of == t {
			d = page[number%sumsPage].ValueSums
		} else if t != nil && t.all == 0 { // no submission has it: views ask for it
			d = ValueSums{Available: -int64(t.available), InFlight: -int64(t.inFlight)}
			for book, covered := range t.covered {
				d.Covered[book] = [2]int64{-int64(covered[0]), -int64(covered[1])}
			}
		}
		if t == nil {
			continue
		}
		if looked++; d != (ValueSums{}) {
			fn(queue.MetaEntry{Key: t.key.name, Value: t.value}, d)
		}
	}
	c.values = nil
	return 0, looked
}

// CorrectTotals adds differences to what is kept in all.
func (c *recount) CorrectTotals(d Sums) {
	c.of.available += uint64(d.Available)
	for book := range d.Chunks {
		for ruling, by := range d.Chunks[book] {
			c.of.Rules.chunks[book][ruling] += uint64(by)
		}
	}
}

// CorrectValue adds differences to what is kept of one value. Gates open and shut by it.
func (c *recount) CorrectValue(entry queue.MetaEntry, d ValueSums) {
	t := c.of.Values.find(entry.Key, entry.Value)
	if t == nil {
		return
	}
	t.available += uint64(d.Available)
	for book := range d.Covered {
		t.covered[book][0] += uint64(d.Covered[book][0])
		t.covered[book][1] += uint64(d.Covered[book][1])
	}
	if d.InFlight != 0 {
		t.inFlight = uint32(int64(t.inFlight) + d.InFlight)
		c.of.Values.openGates(t)
		c.of.Values.shutGates(t)
	}
	if d.Submissions != 0 {
		t.all = uint32(int64(t.all) + d.Submissions)
		c.of.Values.release(t)
	}
}

// Slots bounds the slots of submissions, for InSlot.
func (b *Backlog) Slots() uint32 { return uint32(len(b.subs)) }

// InSlot is the submission in a slot below Slots; nil when there is none. A submission keeps its slot.
func (b *Backlog) InSlot(slot uint32) *Submission { return b.subs[slot] }

// Recounted is how many chunks are available, counted again from the cursors and the exceptions.
func (s *Submission) Recounted() uint32 {
	return s.chunks - (s.p - s.both) - s.l - uint32(s.ahead.len()) + uint32(s.back.len())
}

// SetAvailable corrects how many chunks of a submission are available; totals stay as they are. false: where it stands in views cannot
// be told any more, and nothing is changed.
func (b *Backlog) SetAvailable(s *Submission, n uint32) bool {
	weight, known := s.weight()
	if !known {
		return false
	}
	b.Recount.Changing(s)
	if s.oldestAt != none || len(s.members) > 0 {
		s.available = weight
		b.unoffer(s)
	}
	s.available = n
	if s.Shown() && s.offered() {
		b.offer(s)
	}
	return true
}

// weight is a number of available chunks with which the submission stands where it does in all Random views.
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

// stands says whether a member's entry is where a submission of this exponent has it.
func (s *Submission) stands(m member, exp uint8) bool {
	f := s.home.Views.frames[m.frame]
	if f.order != strategy.Random {
		return true
	}
	p := f.poolOf(m.gate)
	i := p.search(exp)
	if i == p.count() || p.nth(i).exp != exp {
		return false
	}
	entries := p.nth(i).entries
	return int(m.place) < len(entries) && entries[m.place].of == s.slot
}

// SetInFlight corrects how many chunks of a submission are in flight; what is kept of its values stays as it is.
func (b *Backlog) SetInFlight(s *Submission, n uint32) {
	b.Recount.Changing(s)
	s.inFlight = n
}

// InBook is how many available chunks of shown submissions a book has under a ruling of values and submissions.
func (r *rulings) InBook(book int, ruling queue.Ruling) uint64 { return r.chunks[book][ruling] }

// Kept is what is kept of one value.
func (c *recount) Kept(entry queue.MetaEntry) (kept ValueSums) {
	if t := c.of.Values.find(entry.Key, entry.Value); t != nil {
		kept = ValueSums{Available: int64(t.available), InFlight: int64(t.inFlight), Submissions: int64(t.all)}
		for book, covered := range t.covered {
			kept.Covered[book] = [2]int64{int64(covered[0]), int64(covered[1])}
		}
	}
	return kept
}
