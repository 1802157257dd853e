package recount

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// This file compares the results of a recount with the counters, and corrects these. A submission's own counters are
// corrected at once: they were counted from the chunks themselves. A total is corrected when two rounds in a row find
// the same difference: meanwhile a round has looked at everything that the total counts.

// suspicionOf names a total that differs.
type suspicionOf struct {
	counter Counter
	book    uint8
	entry   queue.MetaEntry
}

// own is one of a submission's own counters.
type own struct {
	counter     Counter
	kept, found uint32
	set         func(n uint32) bool
}

// compareOwn compares and corrects a submission's own counters. Done has no source of its own: it is the number of
// chunks that remain when all other states are counted.
func (p *Part) compareOwn() {
	m := p.m
	r, sum := m.Counting.Of, &m.Counting.Sum
	m.Counting.Of = nil
	p.Compared(OfSubmission, 1)
	held, counted := m.Holds.EndRecount()
	available := r.Sub.Recounted()
	set := func(n *uint32) func(uint32) bool {
		return func(to uint32) bool { *n = to; return true }
	}
	list := []own{
		{OwnWaiting, r.Waiting, sum.Waiting, set(&r.Waiting)},
		{OwnDead, r.Dead, sum.Dead, func(n uint32) bool { r.Dead = n; p.Relist(r); return true }},
		{OwnSkipped, r.Skips, sum.Skips, set(&r.Skips)},
		{OwnShelved, r.Shelved, sum.Shelved, set(&r.Shelved)},
		{OwnLent, r.Lent, sum.Lent, set(&r.Lent)},
		{OwnLentReady, r.Ready, sum.Ready, set(&r.Ready)},
		{OwnReserved, r.Holds.Len(), held, func(n uint32) bool { r.Holds.SetLen(n); return true }},
		{OwnInFlight, r.Sub.InFlight(), counted, func(n uint32) bool { m.Backlog.SetInFlight(r.Sub, n); return true }},
		{OwnAvailable, r.Sub.Available(), available, func(n uint32) bool { return m.Backlog.SetAvailable(r.Sub, n) }},
	}
	taken := uint64(available) + uint64(held) + uint64(sum.Waiting) + uint64(sum.Dead) + uint64(sum.Skips)
	if held == counted && taken <= uint64(r.Chunks) {
		list = append(list, own{OwnDone, r.Done, r.Chunks - uint32(taken), set(&r.Done)})
	} else { // a late completion is on its way, for a chunk that may also be counted as waiting
		p.Skipped(SkipLate, 1)
	}
	for _, x := range list {
		if x.kept != x.found {
			m.Counting.Changing(r)
			corrected := x.set(x.found)
			m.Touch(r)
			p.Judged(x.counter, &Drift{Counter: x.counter, Submission: r.ID, Kept: uint64(x.kept),
				Found: uint64(x.found), Corrected: corrected})
		}
	}
	if !r.Ending {
		m.Finish(r) // with the right counters it may have ended before
	}
}

// endTotals compares the totals of the queue.
func (p *Part) endTotals() {
	m := p.m
	for i, total := range &p.kept {
		switch counter := firstOfQueue + Counter(i); {
		case total.Kept == nil: // the backlog's
		case p.unknown[i]:
			p.Skipped(SkipMany, 1)
		default:
			p.Compared(OfQueue, 1)
			p.judge(suspicionOf{counter: counter}, p.sums[i], total.Kept(), total.Add)
		}
	}
	d := m.Backlog.Recount.End()
	p.judge(suspicionOf{counter: QueueAvailable}, d.Available, m.Backlog.Available(),
		func(by int64) { m.Backlog.Recount.CorrectTotals(backlog.Sums{Available: by}) })
	for book := range d.Chunks {
		for ruling, counter := range [...]Counter{queue.Unruled: QueueReady, queue.PausedByRule: QueuePaused,
			queue.BlockedByRule: QueueBlocked} {
			p.judge(suspicionOf{counter: counter, book: uint8(book)}, d.Chunks[book][ruling],
				m.Backlog.Rules.InBook(book, queue.Ruling(ruling)), func(by int64) {
					var add backlog.Sums
					add.Chunks[book][ruling] = by
					m.Backlog.Recount.CorrectTotals(add)
				})
		}
	}
	p.Compared(OfQueue, 1+2*int(queue.BlockedByRule+1))
}

// judgeValue judges a value whose totals differ.
func (p *Part) judgeValue(entry queue.MetaEntry, d backlog.ValueSums) {
	kept := p.m.Backlog.Recount.Kept(entry)
	each := func(counter Counter, book int, by, kept int64, add backlog.ValueSums) {
		p.judge(suspicionOf{counter, uint8(book), entry}, by, uint64(kept),
			func(int64) { p.m.Backlog.Recount.CorrectValue(entry, add) })
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

// mostSuspects bounds how many differing totals of one round are remembered. A later round finds the others. A fault
// that makes more totals wrong shows in any of them.
const mostSuspects = 10_000

// judge judges a total that differs from its counter by so much; correct adds the difference, nil: it cannot be
// corrected. One round alone may differ because something changed between the count of a submission and the look at the
// total; the same difference twice is no coincidence.
func (p *Part) judge(of suspicionOf, by int64, kept uint64, correct func(by int64)) {
	switch {
	case by == 0:
	case p.Suspects[of] != by:
		if len(p.next) < mostSuspects {
			p.next[of] = by
		}
		p.Judged(of.counter, nil)
	default:
		if correct != nil {
			correct(by)
		}
		p.Judged(of.counter, &Drift{Counter: of.counter, Entry: of.entry, Kept: kept, Found: kept + uint64(by),
			Corrected: correct != nil})
	}
}
