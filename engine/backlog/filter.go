package backlog

import "github.com/quern-queue/quern/engine/strategy"

// filter is a filter of a branch with the terms of its index: they admit a submission that
// has one of them. Without an index, the filter decides.
type filter struct {
	strategy.Filter
	index []*term
}

// newFilter counts its use of the terms, until release.
func (v *values) newFilter(of strategy.Filter) filter {
	f := filter{Filter: of}
	for _, value := range of.Index() {
		t := v.intern(of.Key, value)
		t.uses++
		f.index = append(f.index, t)
	}
	return f
}

func (v *values) releaseFilter(f filter) {
	for _, t := range f.index {
		t.uses--
		v.release(t)
	}
}

func (f *filter) admits(s *Submission) bool {
	if len(f.index) == 1 {
		return s.hasTerm(f.index[0].number)
	}
	return f.Admits(s.Find(f.Key))
}

// shownIn is how many submissions the terms have that are shown.
func shownIn(index []*term) (n int) {
	for _, t := range index {
		n += len(t.shown)
	}
	return n
}
