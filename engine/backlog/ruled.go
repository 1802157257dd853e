package backlog

import "github.com/quern-queue/quern/engine/queue"

// Chunks under a rule are kept apart in two ways. No view offers them: a value under a rule has an
// operator's limit of 0, so its gates are shut in every view, and no pick searches behind them
// (settings.go); a submission with a rule of its own stands in no view; and while a rule covers the whole
// queue no view is asked. They are also counted apart: every shown submission has a ruling, which
// combines its own rule and those of its values, and its available chunks count under that ruling, in all
// and for each of its values.

// rulings are the rules in effect. The chunks that they cover are counted in two books: one is in effect;
// in the other a draft counts a change of a value's ruling in advance, slice by slice, so that the change
// itself is one step (draft.go).
type rulings struct {
	subs     *submissions
	values   *values
	bases    *bases
	oldest   *oldest
	changing func(*Submission) // is called before anything of a submission changes

	ofValues map[queue.MetaEntry]queue.Ruling
	whole    queue.Ruling // of the queue
	own      int          // submissions that have one of their own

	book int // the one in effect
	// by book: available ones of shown submissions, by the ruling of values and the submission
	chunks  [2][queue.BlockedByRule + 1]uint64
	draft   *draft
	changed func(s *Submission, book int, before, after queue.Ruling)
}

// OnChange has fn called whenever a book's ruling for a shown submission changes, by the rules of its
// values or its own. fn must not change the backlog.
func (r *rulings) OnChange(fn func(s *Submission, book int, before, after queue.Ruling)) {
	r.changed = fn
}

// Book is the book that is in effect, 0 or 1.
func (r *rulings) Book() int { return r.book }

// SetValue sets the ruling on one value of a key, from the next Take on. The value may be unknown yet. It
// costs a step for each gate that the value has in a view; and, unless a Draft prepared the change, one
// for each submission that has the value.
func (r *rulings) SetValue(entry queue.MetaEntry, ruling queue.Ruling) {
	if r.ofValues[entry] == ruling {
		return
	}
	limit := r.values.ownLimit(entry)
	if ruling == queue.Unruled {
		delete(r.ofValues, entry)
	} else {
		if r.ofValues == nil {
			r.ofValues = map[queue.MetaEntry]queue.Ruling{}
		}
		r.ofValues[entry] = ruling
	}
	if !r.turn(entry, ruling) {
		r.rebook(entry)
	}
	r.values.relimited(entry, limit)
}

// SetSubmission sets the ruling on one submission, from the next Take on.
func (r *rulings) SetSubmission(s *Submission, ruling queue.Ruling) {
	if s.home == nil || s.own == ruling {
		return
	}
	was := s.offered()
	switch {
	case s.own == queue.Unruled:
		r.own++
	case ruling == queue.Unruled:
		r.own--
	}
	if s.own = ruling; !s.Shown() {
		return
	}
	switch is := s.offered(); {
	case was && !is:
		r.bases.unoffer(s)
	case !was && is:
		r.bases.offer(s)
	}
	r.enter(s, 0)
	r.enter(s, 1)
}

// SetAll sets the effect of rules on the whole queue, from the next Take on. It stirs the watched
// views that can take work again.
func (r *rulings) SetAll(ruling queue.Ruling) {
	halted := r.whole != queue.Unruled
	r.whole = ruling
	if !halted || ruling != queue.Unruled {
		return
	}
	for v := range r.bases.views() {
		if !v.Empty() {
			v.stir()
		}
	}
}

// Halted says that a rule covers the whole queue.
func (r *rulings) Halted() bool { return r.whole != queue.Unruled }

// HeldByLimits says of an Empty view that limits hold back submissions that no rule covers.
func (v *View) HeldByLimits() bool { return v.size > v.ruled[v.Rules.book] }

// HeldByRules says that rules hold back submissions of the view, whether or not limits would.
func (v *View) HeldByRules() bool {
	return v.ruled[v.Rules.book] > 0 || v.Rules.Halted() && v.Gated()
}

// cover counts a submission that enters a view, or by -1 leaves it, under its ruling.
func (b *base) cover(s *Submission, by int) {
	if s.ruling == [2]queue.Ruling{} {
		return
	}
	for book, ruling := range s.ruling {
		if ruling != queue.Unruled {
			b.coverIn(book, by)
		}
	}
}

// coverIn counts submissions of the view that rules cover by a book; of a leaf, it counts them for the
// fair view as well.
func (b *base) coverIn(book, by int) {
	b.ruled[book] += by
	if b.outer != nil {
		b.outer.ruled[book] += by
	}
}

// offered says whether a submission that is shown stands in views.
func (s *Submission) offered() bool { return s.available > 0 && s.own == queue.Unruled }

// OwnRuling says that rules of its own cover the submission.
func (s *Submission) OwnRuling() bool { return s.own != queue.Unruled }

// rulingIn is a book's ruling on a submission, by the rules of its values and its own.
func (r *rulings) rulingIn(s *Submission, book int) queue.Ruling {
	ruling := s.own
	if len(r.ofValues) > 0 || r.draft != nil {
		for _, ref := range s.refs() {
			ruling = max(ruling, r.values.list[ref.term].ruling[book])
		}
	}
	return ruling
}

// enter determines a book's ruling on a shown submission again, and counts the submission there.
func (r *rulings) enter(s *Submission, book int) {
	before, after := s.ruling[book], r.rulingIn(s, book)
	if before != after {
		r.changing(s)
		r.coverIn(s, book, -int64(s.available))
		s.ruling[book] = after
		r.coverIn(s, book, int64(s.available))
		r.coverMembers(s, book, before, after)
		if r.changed != nil {
			r.changed(s, book, before, after)
		}
	}
	if book == r.book && after == queue.Unruled && s.oldestAt == none && s.offered() {
		r.oldest.add(s)
	}
}

// coverMembers tells the views of a submission that a book's rules begin or cease to cover it.
func (r *rulings) coverMembers(s *Submission, book int, before, after queue.Ruling) {
	by := 1
	switch {
	case (before == queue.Unruled) == (after == queue.Unruled):
		return
	case after == queue.Unruled:
		by = -1
	}
	for i := range s.members {
		r.bases.list[s.members[i].base].coverIn(book, by)
	}
}

// cover counts available chunks of a shown submission under its ruling.
func (r *rulings) cover(s *Submission, by int64) {
	r.coverIn(s, 0, by)
	r.coverIn(s, 1, by)
}

func (r *rulings) coverIn(s *Submission, book int, by int64) {
	ruling := s.ruling[book]
	r.chunks[book][ruling] += uint64(by)
	if ruling == queue.Unruled {
		return
	}
	for _, ref := range s.refs() {
		r.values.list[ref.term].covered[book][ruling-queue.PausedByRule] += uint64(by)
	}
}

// Ruling is the ruling on a submission by all rules: those of its values, its own and those of the queue.
func (s *Submission) Ruling() queue.Ruling {
	if s.home == nil {
		return queue.Unruled
	}
	if s.Shown() {
		return max(s.ruling[s.home.rules.book], s.home.rules.whole)
	}
	return max(s.home.rules.rulingIn(s, s.home.rules.book), s.home.rules.whole)
}

// Counted is the ruling under which a book counts the available chunks of a shown submission: Ruling
// without the rules of the queue.
func (s *Submission) Counted(book int) queue.Ruling { return s.ruling[book] }

// Amounts are available chunks of shown submissions, by ruling: the three add up to all.
type Amounts struct{ Ready, Paused, Blocked uint64 }

// under moves the chunks that a rule of the queue covers.
func (a Amounts) under(whole queue.Ruling) Amounts {
	switch whole {
	case queue.PausedByRule:
		return Amounts{Paused: a.Ready + a.Paused, Blocked: a.Blocked}
	case queue.BlockedByRule:
		return Amounts{Blocked: a.Ready + a.Paused + a.Blocked}
	}
	return a
}

// Amounts are the available chunks of all shown submissions, by ruling.
func (r *rulings) Amounts() Amounts {
	n := &r.chunks[r.book]
	return Amounts{n[queue.Unruled], n[queue.PausedByRule], n[queue.BlockedByRule]}.under(r.whole)
}

// amounts are those of the submissions that have the value.
func (t *term) amounts(r *rulings) Amounts {
	n := t.covered[r.book]
	return Amounts{t.available - n[0] - n[1], n[0], n[1]}.under(r.whole)
}
