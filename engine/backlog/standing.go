package backlog

import "github.com/quern-queue/quern/engine/strategy"

// Offered goes through the submissions of a view that no limit holds back, in no useful order, until it has met `most`
// submissions or gates. It reports whether that were all. fn must not change the backlog.
func (b *Backlog) Offered(v *View, most int, fn func(*Submission)) (all bool) {
	visit := func(x entry) {
		if s := b.subs[x.of]; !v.limitedNow(s) {
			fn(s)
		}
	}
	for i := range v.gates {
		g := &v.gates[i]
		if most--; most < 0 {
			return false
		}
		if !g.isOpen() {
			continue
		}
		lists := [][]entry{g.heap}
		for j := range g.buckets {
			lists = append(lists, g.buckets[j].entries)
		}
		for _, list := range lists {
			for _, x := range list {
				if most--; most < 0 {
					return false
				}
				visit(x)
			}
		}
	}
	return true
}

func (v *View) limitedNow(s *Submission) bool {
	for _, l := range v.limits {
		if t := s.termOf(l.key); t != nil && t.inFlight >= l.max {
			return true
		}
	}
	return false
}

// Standing is about where an available chunk of a view stands: under an order, how many chunks it would give before this
// one; under Random, how many chunks it may give now, this one among them. Limits that are reached on the way are not
// foreseen. It looks at `most` submissions and gates; ok is false when there are more.
func (b *Backlog) Standing(v *View, s *Submission, index uint32, most int) (n uint64, ok bool) {
	random := v.order == strategy.Random
	ok = b.Offered(v, most, func(x *Submission) {
		switch {
		case random || x != s && v.before(x, s):
			n += uint64(x.available)
		case x == s:
			n += uint64(s.availableBefore(index))
		}
	})
	return n, ok
}

// availableBefore is how many chunks of the submission an ordered view gives before this available one.
func (s *Submission) availableBefore(index uint32) (n uint32) {
	if s.back.find(index) >= 0 {
		for _, x := range s.back.heap {
			if x < index {
				n++
			}
		}
		return n
	}
	// Unvisited: all that is put back, and those from the cursor on that Random's cursor did not visit either.
	n = uint32(s.back.len()) + index - s.l
	n -= countBelow(s.chunks, s.mul, s.add, s.p, index) - countBelow(s.chunks, s.mul, s.add, s.p, s.l)
	for _, x := range s.ahead.appendKeys(nil) {
		if x < index {
			n--
		}
	}
	return n
}
