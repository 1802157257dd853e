package backlog

import "github.com/quern-queue/quern/engine/queue"

// What rules cover is kept apart in two ways. No view gives it: a value under a rule has an operator's limit of 0, so its gates are
// shut, in every view, and nothing is looked for (settings.go); a submission with a rule of its own stands in no view; and while a rule
// covers the whole queue no view is asked. And it is counted apart: every shown submission knows what the rules of its values and its own
// say, and its available chunks count for that, in all and for each of its values.

// rulings are what rules say.
type rulings struct {
	values map[queue.MetaEntry]queue.Ruling
	whole  queue.Ruling // of the queue
	own    int          // submissions that have one of their own

	chunks [queue.BlockedByRule + 1]uint64 // available ones of shown submissions, by what values and the submission say
	told   func(s *Submission, before, after queue.Ruling)
}

// OnRuling has fn called whenever it changes what the rules of values and its own say of a shown submission. fn must not change the
// backlog.
func (b *Backlog) OnRuling(fn func(s *Submission, before, after queue.Ruling)) { b.ruled.told = fn }

// RuleValue says what rules say of one value of a key, from the next Take on. The value may be unknown yet. It costs a step for each
// gate that the value has in a view, and one for each submission that has it: to count them.
func (b *Backlog) RuleValue(entry queue.MetaEntry, ruling queue.Ruling) {
	before := b.ruled.values[entry]
	if before == ruling {
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
	t := b.termOf(entry.Key, entry.Value)
	if t != nil {
		t.ruling = ruling
	}
	b.relimited(entry, limit)
	if t != nil {
		for _, slot := range t.shown {
			b.rule(b.subs[slot])
		}
	}
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
	b.rule(s)
}

// RuleAll says what rules say of the whole queue, from the next Take on. Watched views that have something to take again are stirred.
func (b *Backlog) RuleAll(ruling queue.Ruling) {
	halted := b.ruled.whole != queue.Unruled
	b.ruled.whole = ruling
	if !halted || ruling != queue.Unruled {
		return
	}
	for _, v := range b.views { // the map has no order
		if v != nil && !v.Empty() {
			v.stir()
		}
	}
}

// Halted says that a rule covers the whole queue.
func (b *Backlog) Halted() bool { return b.ruled.whole != queue.Unruled }

// HeldByLimits says that limits keep submissions of an Empty view from being taken, and HeldByRules that rules do. Either looks at a
// bounded part of the view.
func (v *View) HeldByLimits() (is bool) {
	if len(v.in.ruled.values) == 0 {
		return v.Gated()
	}
	v.Saturated(func(queue.Saturated) bool {
		is = true
		return false
	})
	return is
}

// HeldByRules is beside HeldByLimits.
func (v *View) HeldByRules() bool {
	return v.Gated() && (v.in.Halted() || len(v.in.ruled.values) > 0 && !v.HeldByLimits())
}

// offered says whether a submission that is shown stands in views.
func (s *Submission) offered() bool { return s.available > 0 && s.own == queue.Unruled }

// rulingOf is what the rules of its values and its own say of a submission.
func (b *Backlog) rulingOf(s *Submission) queue.Ruling {
	ruling := s.own
	if len(b.ruled.values) > 0 {
		for _, ref := range s.refs() {
			ruling = max(ruling, b.terms[ref.term].ruling)
		}
	}
	return ruling
}

// rule finds out anew what rules say of a shown submission, and counts it there.
func (b *Backlog) rule(s *Submission) {
	before, after := s.ruling, b.rulingOf(s)
	if before == after {
		return
	}
	b.cover(s, -int64(s.available))
	s.ruling = after
	b.cover(s, int64(s.available))
	if b.ruled.told != nil {
		b.ruled.told(s, before, after)
	}
	if before != queue.Unruled && after == queue.Unruled && s.offered() && s.oldestAt == none {
		b.oldest = heapPush(byID{b}, b.oldest, s.slot)
	}
}

// cover counts available chunks of a shown submission for what rules say of it.
func (b *Backlog) cover(s *Submission, by int64) {
	b.ruled.chunks[s.ruling] += uint64(by)
	if s.ruling == queue.Unruled {
		return
	}
	for _, ref := range s.refs() {
		t := b.terms[ref.term]
		if s.ruling == queue.BlockedByRule {
			t.blocked += uint64(by)
		} else {
			t.paused += uint64(by)
		}
	}
}

// Ruling is what all rules say of a submission: those of its values, its own and those of the queue.
func (s *Submission) Ruling() queue.Ruling {
	if s.home == nil {
		return queue.Unruled
	}
	if s.Shown() {
		return max(s.ruling, s.home.ruled.whole)
	}
	return max(s.home.rulingOf(s), s.home.ruled.whole)
}

// Counted is the part of Ruling by which the available chunks of a shown submission are counted: without the rules of the queue.
func (s *Submission) Counted() queue.Ruling { return s.ruling }

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
	n := &b.ruled.chunks
	return Amounts{n[queue.Unruled], n[queue.PausedByRule], n[queue.BlockedByRule]}.under(b.ruled.whole)
}

// amounts are those of the submissions that have the value.
func (t *term) amounts(b *Backlog) Amounts {
	return Amounts{t.available - t.paused - t.blocked, t.paused, t.blocked}.under(b.ruled.whole)
}
