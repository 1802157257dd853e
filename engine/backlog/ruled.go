package backlog

import "github.com/quern-queue/quern/engine/queue"

// What rules cover is kept apart in two ways. No view gives it: a value under a rule has an operator's limit of 0, so its gates are
// shut, in every view, and nothing is looked for (settings.go); a submission with a rule of its own stands in no view; and while a rule
// covers the whole queue no view is asked. And it is counted apart: every shown submission knows what the rules of its values and its own
// say, and its available chunks count for that, in all and for each of its values.

// rulings are what rules say. What they cover is counted in two books: one is in effect, in the other a change of what rules say of a
// value is counted beforehand, slice by slice, so that the change itself is one step (draft.go).
type rulings struct {
	values map[queue.MetaEntry]queue.Ruling
	whole  queue.Ruling // of the queue
	own    int          // submissions that have one of their own

	book    int                                // the one in effect
	chunks  [2][queue.BlockedByRule + 1]uint64 // by book: available ones of shown submissions, by what values and the submission say
	draft   *draft
	changed func(s *Submission, book int, before, after queue.Ruling)
}

// OnRuling has fn called whenever it changes what a book has of the rules of values and its own for a shown submission. fn must not
// change the backlog.
func (b *Backlog) OnRuling(fn func(s *Submission, book int, before, after queue.Ruling)) {
	b.ruled.changed = fn
}

// Book is the book that is in effect, 0 or 1.
func (b *Backlog) Book() int { return b.ruled.book }

// RuleValue says what rules say of one value of a key, from the next Take on. The value may be unknown yet. It costs a step for each
// gate that the value has in a view; and, unless the change was prepared by a Draft, one for each submission that has the value.
func (b *Backlog) RuleValue(entry queue.MetaEntry, ruling queue.Ruling) {
	if b.ruled.values[entry] == ruling {
		return
	}
	limit := b.limitOf(entry)
	if ruling == queue.Unruled {
		delete(b.ruled.values, entry)
	} else {
		if b.ruled.values == nil {
			b.ruled.values = map[queue.MetaEntry]queue.Ruling{}
		}
		b.ruled.values[entry] = ruling
	}
	if !b.turn(entry, ruling) {
		b.rebook(entry)
	}
	b.relimited(entry, limit)
}

// RuleSubmission says what rules of its own say of a submission, from the next Take on.
func (b *Backlog) RuleSubmission(s *Submission, ruling queue.Ruling) {
	if s.home == nil || s.own == ruling {
		return
	}
	was := s.offered()
	switch {
	case s.own == queue.Unruled:
		b.ruled.own++
	case ruling == queue.Unruled:
		b.ruled.own--
	}
	if s.own = ruling; !s.Shown() {
		return
	}
	switch is := s.offered(); {
	case was && !is:
		b.unoffer(s)
	case !was && is:
		b.offer(s)
	}
	b.enterBook(s, 0)
	b.enterBook(s, 1)
}

// RuleAll says what rules say of the whole queue, from the next Take on. Watched views that have something to take again are stirred.
func (b *Backlog) RuleAll(ruling queue.Ruling) {
	halted := b.ruled.whole != queue.Unruled
	b.ruled.whole = ruling
	if !halted || ruling != queue.Unruled {
		return
	}
	for v := range b.standing() {
		if !v.Empty() {
			v.stir()
		}
	}
}

// Halted says that a rule covers the whole queue.
func (b *Backlog) Halted() bool { return b.ruled.whole != queue.Unruled }

// HeldByLimits says that of an Empty view limits keep submissions from being taken that no rule covers.
func (v *View) HeldByLimits() bool { return v.size > v.ruled[v.in.ruled.book] }

// HeldByRules says that rules keep submissions of the view from being taken, whether or not limits would.
func (v *View) HeldByRules() bool { return v.ruled[v.in.ruled.book] > 0 || v.in.Halted() && v.Gated() }

// cover counts a submission that enters a view, or by -1 leaves it, for what rules say of it.
func (f *frame) cover(s *Submission, by int) {
	if s.ruling == [2]queue.Ruling{} {
		return
	}
	for book, ruling := range s.ruling {
		if ruling != queue.Unruled {
			f.coverIn(book, by)
		}
	}
}

// coverIn counts submissions of the view that by a book rules cover, of a leaf for the view that it is a leaf of as well.
func (f *frame) coverIn(book, by int) {
	f.ruled[book] += by
	if f.outer != nil {
		f.outer.ruled[book] += by
	}
}

// offered says whether a submission that is shown stands in views.
func (s *Submission) offered() bool { return s.available > 0 && s.own == queue.Unruled }

// rulingIn is what by a book the rules of its values and its own say of a submission.
func (b *Backlog) rulingIn(s *Submission, book int) queue.Ruling {
	ruling := s.own
	if len(b.ruled.values) > 0 || b.ruled.draft != nil {
		for _, ref := range s.refs() {
			ruling = max(ruling, b.terms[ref.term].ruling[book])
		}
	}
	return ruling
}

// enterBook determines again what the rules of a book say of a shown submission, and counts it there.
func (b *Backlog) enterBook(s *Submission, book int) {
	before, after := s.ruling[book], b.rulingIn(s, book)
	if before != after {
		b.Changing(s)
		b.coverIn(s, book, -int64(s.available))
		s.ruling[book] = after
		b.coverIn(s, book, int64(s.available))
		b.coverMembers(s, book, before, after)
		if b.ruled.changed != nil {
			b.ruled.changed(s, book, before, after)
		}
	}
	if book == b.ruled.book && after == queue.Unruled && s.oldestAt == none && s.offered() {
		b.oldest = heapPush(byID{b}, b.oldest, s.slot)
	}
}

// coverMembers tells the views in which a submission stands that by a book rules begin or cease to cover it.
func (b *Backlog) coverMembers(s *Submission, book int, before, after queue.Ruling) {
	by := 1
	switch {
	case (before == queue.Unruled) == (after == queue.Unruled):
		return
	case after == queue.Unruled:
		by = -1
	}
	for i := range s.members {
		b.frames[s.members[i].frame].coverIn(book, by)
	}
}

// cover counts available chunks of a shown submission for what rules say of it.
func (b *Backlog) cover(s *Submission, by int64) {
	b.coverIn(s, 0, by)
	b.coverIn(s, 1, by)
}

func (b *Backlog) coverIn(s *Submission, book int, by int64) {
	ruling := s.ruling[book]
	b.ruled.chunks[book][ruling] += uint64(by)
	if ruling == queue.Unruled {
		return
	}
	for _, ref := range s.refs() {
		b.terms[ref.term].covered[book][ruling-queue.PausedByRule] += uint64(by)
	}
}

// Ruling is what all rules say of a submission: those of its values, its own and those of the queue.
func (s *Submission) Ruling() queue.Ruling {
	if s.home == nil {
		return queue.Unruled
	}
	if s.Shown() {
		return max(s.ruling[s.home.ruled.book], s.home.ruled.whole)
	}
	return max(s.home.rulingIn(s, s.home.ruled.book), s.home.ruled.whole)
}

// Counted is how by a book the available chunks of a shown submission are counted: Ruling without the rules of the queue.
func (s *Submission) Counted(book int) queue.Ruling { return s.ruling[book] }

// Amounts are available chunks of shown submissions, by what rules say of them: the three sum up.
type Amounts struct{ Ready, Paused, Blocked uint64 }

// under moves what a rule of the queue covers.
func (a Amounts) under(whole queue.Ruling) Amounts {
	switch whole {
	case queue.PausedByRule:
		return Amounts{Paused: a.Ready + a.Paused, Blocked: a.Blocked}
	case queue.BlockedByRule:
		return Amounts{Blocked: a.Ready + a.Paused + a.Blocked}
	}
	return a
}

// Amounts are the available chunks of all shown submissions, by what rules say of them.
func (b *Backlog) Amounts() Amounts {
	n := &b.ruled.chunks[b.ruled.book]
	return Amounts{n[queue.Unruled], n[queue.PausedByRule], n[queue.BlockedByRule]}.under(b.ruled.whole)
}

// amounts are those of the submissions that have the value.
func (t *term) amounts(b *Backlog) Amounts {
	n := t.covered[b.ruled.book]
	return Amounts{t.available - n[0] - n[1], n[0], n[1]}.under(b.ruled.whole)
}
