package backlog

import "github.com/quern-queue/quern/engine/queue"

// draft is a change of what rules say of a value that is being counted in the book that is not in effect:
//
//	Draft, Prepare ...   every shown submission that has the value is entered there as it will be
//	RuleValue            the books change places: the change is one step, and all counts are exact before and after it
//	Reconcile ...        the other book is brought up to it
//
// Reconcile also undoes a draft that comes to nothing. At any time anything may happen to the backlog: whatever is counted is counted in
// both books, each submission by what the book says of its values. Only OldestAvailable may miss what came out of a rule until that is
// reconciled.
type draft struct {
	entry  queue.MetaEntry
	ruling queue.Ruling
	ready  bool // all are entered
}

// Draft begins to prepare a RuleValue. There is one draft at a time: the one before has to be reconciled.
func (b *Backlog) Draft(entry queue.MetaEntry, ruling queue.Ruling) {
	if b.ruled.draft != nil {
		panic("backlog: a draft is begun before the last one is reconciled")
	}
	b.ruled.draft = &draft{entry: entry, ruling: ruling}
	if t := b.termOf(entry.Key, entry.Value); t != nil {
		t.ruling[1-b.ruled.book] = ruling
	}
}

// rulingsOf is what the books say of a value.
func (b *Backlog) rulingsOf(entry queue.MetaEntry) (r [2]queue.Ruling) {
	r = [2]queue.Ruling{b.ruled.values[entry], b.ruled.values[entry]}
	if d := b.ruled.draft; d != nil && d.entry == entry {
		r[1-b.ruled.book] = d.ruling
	}
	return r
}

// Prepare enters up to `most` submissions of the draft's value in the other book, from the place `from` (-1: the end) of its list down, and
// returns the place to go on from; 0 when all are entered.
func (b *Backlog) Prepare(from, most int) (next int) {
	d := b.ruled.draft
	if d == nil {
		return 0
	}
	next = b.EachOf(d.entry, from, most, func(s *Submission) { b.enterBook(s, 1-b.ruled.book) })
	d.ready = next == 0
	return next
}

// EachOf calls fn for up to `most` shown submissions that have a value, from a place of its list down, and returns where to go on.
func (b *Backlog) EachOf(entry queue.MetaEntry, from, most int, fn func(*Submission)) (next int) {
	t := b.termOf(entry.Key, entry.Value)
	if t == nil {
		return 0
	}
	if from < 0 {
		from = len(t.shown)
	}
	for next = min(from, len(t.shown)); most > 0 && next > 0; most-- {
		next--
		fn(b.subs[t.shown[next]])
	}
	return next
}

// turn has the books change places if the change was prepared, and says whether it was.
func (b *Backlog) turn(entry queue.MetaEntry, ruling queue.Ruling) bool {
	d := b.ruled.draft
	if d == nil || !d.ready || d.entry != entry || d.ruling != ruling {
		return false
	}
	b.ruled.book = 1 - b.ruled.book
	d.ruling, d.ready = b.ruled.values[entry], false // what the other book says from now on, once it is reconciled
	return true
}

// rebook enters all submissions of a value whose ruling changed in both books at once. A draft about it comes to nothing.
func (b *Backlog) rebook(entry queue.MetaEntry) {
	if d := b.ruled.draft; d != nil && d.entry == entry {
		d.ruling, d.ready = b.ruled.values[entry], false
	}
	if t := b.termOf(entry.Key, entry.Value); t != nil {
		t.ruling = b.rulingsOf(entry)
		for _, slot := range t.shown {
			b.enterBook(b.subs[slot], 0)
			b.enterBook(b.subs[slot], 1)
		}
	}
}

// Reconcile brings the other book up to the one in effect, of up to `most` submissions of the draft's value, from the place `from` (-1: the
// end, with which it begins) of its list down, and returns the place to go on from; 0 when there is no draft any more.
func (b *Backlog) Reconcile(from, most int) (next int) {
	d := b.ruled.draft
	if d == nil {
		return 0
	}
	if from < 0 {
		d.ruling, d.ready = b.ruled.values[d.entry], false
		if t := b.termOf(d.entry.Key, d.entry.Value); t != nil {
			t.ruling = b.rulingsOf(d.entry)
		}
	}
	next = b.EachOf(d.entry, from, most, func(s *Submission) {
		b.enterBook(s, 0)
		b.enterBook(s, 1)
	})
	if next == 0 {
		b.ruled.draft = nil
	}
	return next
}
