package backlog

import "github.com/quern-queue/quern/engine/queue"

// draft is a change of what rules say of a value that is being counted in the book that is not in effect:
//
//	Draft, Prepare ...   every shown submission that has the value is entered there as it will be
//	SetValue             the books change places: the change is one step, and all counts are exact before and after it
//	Reconcile ...        the other book is brought up to it
//
// Reconcile also undoes a draft that comes to nothing. The backlog may change at any time: every change
// counts in both books, each submission by the book's rulings on its values. Only OldestAvailable may
// miss submissions that came out of a rule, until Reconcile is through.
type draft struct {
	entry  queue.MetaEntry
	ruling queue.Ruling
	ready  bool // all are entered
}

// Draft begins to prepare a SetValue. There is one draft at a time: the one before has to be reconciled.
func (r *rulings) Draft(entry queue.MetaEntry, ruling queue.Ruling) {
	if r.draft != nil {
		panic("backlog: a draft is begun before the last one is reconciled")
	}
	r.draft = &draft{entry: entry, ruling: ruling}
	if t := r.values.find(entry.Key, entry.Value); t != nil {
		t.ruling[1-r.book] = ruling
	}
}

// rulingsOf returns the rulings of a value from the books.
func (r *rulings) rulingsOf(entry queue.MetaEntry) (said [2]queue.Ruling) {
	said = [2]queue.Ruling{r.ofValues[entry], r.ofValues[entry]}
	if d := r.draft; d != nil && d.entry == entry {
		said[1-r.book] = d.ruling
	}
	return said
}

// Prepare enters up to `most` submissions of the draft's value in the other book, from the place
// `from` (-1: the end) of its list down, and returns the place to go on from; 0 when all are entered.
func (r *rulings) Prepare(from, most int) (next int) {
	d := r.draft
	if d == nil {
		return 0
	}
	next = r.values.EachShown(d.entry, from, most, func(s *Submission) { r.enter(s, 1-r.book) })
	d.ready = next == 0
	return next
}

// turn has the books change places if the change was prepared, and says whether it was.
func (r *rulings) turn(entry queue.MetaEntry, ruling queue.Ruling) bool {
	d := r.draft
	if d == nil || !d.ready || d.entry != entry || d.ruling != ruling {
		return false
	}
	r.book = 1 - r.book
	d.ruling, d.ready = r.ofValues[entry], false // what the other book says from now on, once it is reconciled
	return true
}

// rebook enters all submissions of a value whose ruling changed in both books at once. A
// draft about it comes to nothing.
func (r *rulings) rebook(entry queue.MetaEntry) {
	if d := r.draft; d != nil && d.entry == entry {
		d.ruling, d.ready = r.ofValues[entry], false
	}
	if t := r.values.find(entry.Key, entry.Value); t != nil {
		t.ruling = r.rulingsOf(entry)
		for _, slot := range t.shown {
			r.enter(r.subs.list[slot], 0)
			r.enter(r.subs.list[slot], 1)
		}
	}
}

// Reconcile brings the other book up to the one in effect, of up to `most` submissions of
// the draft's value, from the place `from` (-1: the end, with which it begins) of its list
// down, and returns the place to go on from; 0 when there is no draft any more.
func (r *rulings) Reconcile(from, most int) (next int) {
	d := r.draft
	if d == nil {
		return 0
	}
	if from < 0 {
		d.ruling, d.ready = r.ofValues[d.entry], false
		if t := r.values.find(d.entry.Key, d.entry.Value); t != nil {
			t.ruling = r.rulingsOf(d.entry)
		}
	}
	next = r.values.EachShown(d.entry, from, most, func(s *Submission) {
		r.enter(s, 0)
		r.enter(s, 1)
	})
	if next == 0 {
		r.draft = nil
	}
	return next
}
