package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A limit may count the submissions without a key as if they had one value. This value is a term of a key of its own,
// queue.Without of the other one. No submission has it: code that counts a submission by its terms goes through
// values.lacked as well, which is empty unless a view has such a limit. For all other code it is a term like others.

// limitBy is the key of a limit of one more base.
func (v *values) limitBy(name queue.MetaKey) *metaKey {
	key := v.internKey(name)
	key.limits++
	if key.of != nil && key.limits == 1 {
		v.lack(key)
	}
	return key
}

// unlimit is the inverse of limitBy.
func (v *values) unlimit(key *metaKey) {
	key.limits--
	if key.of != nil && key.limits == 0 {
		t := key.terms[0]
		t.uses--
		// A rate may remember the term beyond its last limit, and goes on counting reservations. So the term stays
		// among the counted ones until it is released.
		v.release(t)
	}
	v.releaseKey(key)
}

// lack begins to count the submissions without a key, or goes on with it. Their chunks in flight are all chunks in
// flight except those of the key's values. That looks at each value once. A walk over the submissions could look at
// many more of them.
func (v *values) lack(key *metaKey) {
	known := len(key.terms) > 0
	t := v.intern(key.name, queue.MetaValue{})
	t.uses++
	if known {
		return
	}
	flying := v.subs.flying
	for _, other := range key.of.terms {
		flying -= uint64(other.own())
	}
	t.counters[strategy.Simultaneous].count = uint32(flying)
	v.lacked = append(v.lacked, t)
}

// lackedGone is for a term that goes. Without that, every later pick would still ask whether its submission lacks the
// key.
func (v *values) lackedGone(t *term) {
	v.lacked = slices.DeleteFunc(v.lacked, func(other *term) bool { return other == t })
}

// lacks is the term of a key that stands for the lack of another one, if the submission lacks that other key, or nil.
func (s *Submission) lacks(key *metaKey) *term {
	for _, ref := range s.refs() {
		if s.home.list[ref.term].key == key.of {
			return nil
		}
	}
	return key.terms[0]
}

// A question may be about a strategy whose views are gone. Then the count is 0, as for a value that no one uses.
//
// countLacked is Count for the key that stands for the lack of another one.
func (s *Submission) countLacked(of queue.MetaKey, l strategy.Limit) (value queue.MetaValue, count uint32, has bool) {
	if _, has := s.Find(of); has {
		return value, 0, false
	}
	return value, s.home.Counts(l.Key, value)[l.Of], true
}
