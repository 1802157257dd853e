package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// This file compares what a recount found with what is kept, and corrects that. What a submission keeps of its own is corrected at once:
// it was counted from the chunks themselves. A total is corrected when two rounds in a row find the same difference: the round between has
// looked at all that the total is made of.

// suspicionOf names a total that differs.
type suspicionOf struct {
	counter Counter
	book    uint8
	entry   queue.MetaEntry
}

// keptTotal is one that the machine keeps.
type keptTotal struct {
	now func() uint64
	add func(by int64) // nil: it cannot be corrected
}

// keptTotals are in the order of the counters from firstOfQueue on, without those that the backlog keeps.
func (p *recount) keptTotals() [queueCounters]keptTotal {
	m := p.m
	of := func(n *uint64) keptTotal {
		return keptTotal{func() uint64 { return *n }, func(by int64) { *n += uint64(by) }}
	}
	ofInt := func(n *int) keptTotal {
		return keptTotal{func() uint64 { return uint64(*n) }, func(by int64) { *n += int(by) }}
	}
	c, s := &m.stats, &m.suspects
	var list [queueCounters]keptTotal
	for counter, kept := range map[Counter]keptTotal{
		QueueWaiting: of(&c.waiting), QueueRunAt: of(&c.parked), QueueDead: of(&c.dead), QueueDone: of(&c.completed),
		QueueSkipped:    of(&c.skipped),
		QueueOperations: of(&c.operations), QueueCovered: of(&c.covered[0]), QueueCoveredNext: of(&c.covered[1]),
		QueueSweeping: of(&c.orphaned), QueueEndedLetters: of(&c.endedLetters),
		QueueShelved: ofInt(&s.shelved), QueueLent: ofInt(&s.lent), QueueLentReady: ofInt(&s.ready),
		QueueReserved: {func() uint64 { return uint64(m.holds.Len()) }, nil}, // the size of a table
	} {
		list[counter-firstOfQueue] = kept
	}
	return list
}

// own is one of a submission's own counters.
type own struct {
	counter     Counter
	kept, found uint32
	set         func(n uint32) bool
}

// endOwn compares and corrects what a submission keeps of its own.
func (p *recount) endOwn() {
	m := p.m
	r := p.of
	p.of = nil
	p.compared(OfSubmission, 1)
	held, counted := m.holds.EndRecount()
	available := r.sub.Recounted()
	set := func(n *uint32) func(uint32) bool {
		return func(to uint32) bool { *n = to; return true }
	}
	list := []own{
		{OwnWaiting, r.waiting, p.sum.waiting, set(&r.waiting)},
		{OwnDead, r.dead, p.sum.dead, func(n uint32) bool { p.setDead(r, n); return true }},
		{OwnSkipped, r.skips, p.sum.skips, set(&r.skips)},
		{OwnShelved, r.shelved, p.sum.shelved, set(&r.shelved)},
		{OwnLent, r.lent, p.sum.lent, set(&r.lent)},
		{OwnLentReady, r.ready, p.sum.ready, set(&r.ready)},
		{OwnReserved, r.holds.Len(), held, func(n uint32) bool { r.holds.SetLen(n); return true }},
		{OwnInFlight, r.sub.InFlight(), counted, func(n uint32) bool { m.backlog.SetInFlight(r.sub, n); return true }},
		{OwnAvailable, r.sub.Available(), available, func(n uint32) bool { return m.backlog.SetAvailable(r.sub, n) }},
	}
	taken := uint64(available) + uint64(held) + uint64(p.sum.waiting) + uint64(p.sum.dead) + uint64(p.sum.skips)
	if held == counted && taken <= uint64(r.chunks) {
		list = append(list, own{OwnDone, r.done, r.chunks - uint32(taken), set(&r.done)})
	} else { // a late completion is on its way, of a chunk that may wait as well
		p.skipped(SkipLate, 1)
	}
	for _, x := range list {
		if x.kept != x.found {
			m.changing(r)
			corrected := x.set(x.found)
			m.touch(r)
			p.judged(x.counter, &Drift{Counter: x.counter, Submission: r.id, Kept: uint64(x.kept),
				Found: uint64(x.found), Corrected: corrected})
			if x.counter == OwnDone && r.over() && !r.ending {
				m.finish(r) // it had been over, had the counter been right
			}
		}
	}
}

// setDead corrects how many dead chunks a submission has, and with it whether it is listed for that.
func (p *recount) setDead(r *record, n uint32) {
	m := p.m
	r.dead = n
	switch at := m.letters.index.below(r.id); {
	case n == 0:
		m.letters.index.remove(r)
	case at >= len(m.letters.index.ids) || m.letters.index.list[at] != r:
		m.letters.index.add(r)
	}
}

// endTotals compares the totals of the queue.
func (p *recount) endTotals() {
	m := p.m
	for i, kept := range p.keptTotals() {
		switch counter := firstOfQueue + Counter(i); {
		case kept.now == nil: // the backlog's
		case p.unknown[i]:
			p.skipped(SkipMany, 1)
		default:
			p.compared(OfQueue, 1)
			p.judge(suspicionOf{counter: counter}, p.queue[i], kept.now(), kept.add)
		}
	}
	d := m.backlog.EndRecount()
	p.judge(suspicionOf{counter: QueueAvailable}, d.Available, m.backlog.Available(),
		func(by int64) { m.backlog.CorrectTotals(backlog.Sums{Available: by}) })
	for book := range d.Chunks {
		for ruling, counter := range [...]Counter{queue.Unruled: QueueReady, queue.PausedByRule: QueuePaused,
			queue.BlockedByRule: QueueBlocked} {
			p.judge(suspicionOf{counter: counter, book: uint8(book)}, d.Chunks[book][ruling],
				m.backlog.InBook(book, queue.Ruling(ruling)), func(by int64) {
					var add backlog.Sums
					add.Chunks[book][ruling] = by
					m.backlog.CorrectTotals(add)
				})
		}
	}
	p.compared(OfQueue, 1+2*int(queue.BlockedByRule+1))
}

// judgeValue is for a value whose totals differ.
func (p *recount) judgeValue(entry queue.MetaEntry, d backlog.ValueSums) {
	kept := p.m.backlog.KeptOf(entry)
	each := func(counter Counter, book int, by, kept int64, add backlog.ValueSums) {
		p.judge(suspicionOf{counter, uint8(book), entry}, by, uint64(kept), func(int64) { p.m.backlog.CorrectValue(entry, add) })
	}
	each(ValueAvailable, 0, d.Available, kept.Available, backlog.ValueSums{Available: d.Available})
	each(ValueInFlight, 0, d.InFlight, kept.InFlight, backlog.ValueSums{InFlight: d.InFlight})
	for book := range d.Covered {
		for i, counter := range [2]Counter{ValuePaused, ValueBlocked} {
			var add backlog.ValueSums
			add.Covered[book][i] = d.Covered[book][i]
			each(counter, book, d.Covered[book][i], kept.Covered[book][i], add)
		}
	}
	each(ValueSubmissions, 0, d.Submissions, kept.Submissions, backlog.ValueSums{Submissions: d.Submissions})
}

// mostSuspects bounds how many totals of one round are remembered to differ. Those beyond are found by a later one.
const mostSuspects = 10_000

// judge is for a total that is found to differ from what is kept by so much; correct adds that, nil: it cannot be.
func (p *recount) judge(of suspicionOf, by int64, kept uint64, correct func(by int64)) {
	switch {
	case by == 0:
	case p.suspects[of] != by:
		if len(p.next) < mostSuspects {
			p.next[of] = by
		}
		p.judged(of.counter, nil)
	default:
		if correct != nil {
			correct(by)
		}
		p.judged(of.counter, &Drift{Counter: of.counter, Entry: of.entry, Kept: kept, Found: kept + uint64(by), Corrected: correct != nil})
	}
}
