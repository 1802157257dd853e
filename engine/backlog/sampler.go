package backlog

import "math/bits"

// sampler draws entries with a probability proportional to their weight, exactly, in O(1)
// expected time, while weights change. Entries stand in buckets by a bound that covers their
// weight, of which there are four to a power of two: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16,
// 20 ... A number drawn from 0..total-1 falls on an entry and on a place below the bound
// within it; the caller rejects places at or beyond the weight (a fifth at most) and draws
// again. An entry moves only when its weight crosses a bound. (With powers of two alone two
// draws in five were rejected, and each costs a look at a submission anywhere in memory.)
//
// There are very many samplers of one bucket, so the first is part of the sampler itself:
// it costs neither an allocation nor a look elsewhere in memory.
type sampler struct {
	bucket        // of the largest exp; empty only if there is no entry at all
	total  uint64 // sum of the bounds of all entries
	// the others, largest exp first, none empty; those beyond the length keep small memory
	// for reuse. nil: none yet
	rest *[]bucket
}

type bucket struct {
	entries []entry
	exp     uint8
}

// count is how many buckets there are that are not empty.
func (s *sampler) count() int {
	switch {
	case len(s.entries) == 0:
		return 0
	case s.rest == nil:
		return 1
	}
	return 1 + len(*s.rest)
}

// nth is one of them, largest exp first.
func (s *sampler) nth(i int) *bucket {
	if i == 0 {
		return &s.bucket
	}
	return &(*s.rest)[i-1]
}

// entry stands for a submission in a gate (its slot, and which of its members this is) or
// for a gate in a view's top (its number).
type entry struct{ of, at uint32 }

// exponent numbers the smallest bound that covers the weight: 0 for weights 0 and 1.
func exponent(weight uint64) uint8 {
	if weight <= 4 {
		return uint8(max(weight, 1) - 1)
	}
	octave := bits.Len64(weight-1) - 1 // 2^octave < weight <= 2^(octave+1)
	quarter := (weight - 1 - 1<<octave) >> (octave - 2)
	return uint8(4*(octave-1)) + uint8(quarter)
}

// bound is the bound of that number.
func bound(exp uint8) uint64 {
	if exp < 4 {
		return uint64(exp) + 1
	}
	return uint64(5+exp%4) << (exp/4 - 1)
}

// add puts x into the bucket of exp and returns its place there.
func (s *sampler) add(exp uint8, x entry) (place uint32) {
	s.total += bound(exp)
	i := s.search(exp)
	if i == s.count() || s.nth(i).exp != exp {
		s.open(i, exp)
	}
	b := s.nth(i)
	b.entries = append(b.entries, x)
	return uint32(len(b.entries) - 1)
}

// remove takes out the entry at a place of the bucket of exp. The bucket's last entry
// moves there; it is returned if it is another one.
func (s *sampler) remove(exp uint8, place uint32) (moved entry, ok bool) {
	s.total -= bound(exp)
	i := s.search(exp)
	b := s.nth(i)
	last := len(b.entries) - 1
	if int(place) != last {
		moved, ok = b.entries[last], true
		b.entries[place] = moved
	}
	b.entries = trimmed(b.entries[:last])
	if last == 0 {
		s.close(i)
	}
	return moved, ok
}

// find is the entry on which a number below total falls, and the place within its bound.
func (s *sampler) find(number uint64) (x entry, rest uint64) {
	for i := range s.count() {
		b := s.nth(i)
		each := bound(b.exp)
		span := uint64(len(b.entries)) * each
		if number < span {
			return b.entries[number/each], number % each
		}
		number -= span
	}
	panic("backlog: a number beyond the sampler's total")
}

// search is the index of the bucket of exp, or where it belongs.
func (s *sampler) search(exp uint8) int {
	i := 0
	for n := s.count(); i < n && s.nth(i).exp > exp; {
		i++
	}
	return i
}

// open makes an empty bucket at i, reusing one that was closed.
func (s *sampler) open(i int, exp uint8) {
	if s.count() == 0 {
		s.exp = exp
		return
	}
	if s.rest == nil {
		s.rest = new([]bucket)
	}
	all := *s.rest
	fresh := bucket{exp: exp}
	if last := len(all); last < cap(all) {
		fresh.entries = all[:last+1][last].entries[:0]
	}
	if i == 0 {
		s.bucket, fresh = fresh, s.bucket
	} else {
		i--
	}
	all = append(all, bucket{})
	copy(all[i+1:], all[i:])
	all[i] = fresh
	*s.rest = all
}

// close removes the empty bucket at i and keeps its memory, if small, behind the last one.
func (s *sampler) close(i int) {
	empty := s.nth(i)
	if cap(empty.entries) > keepCap {
		empty.entries = nil
	}
	if s.rest == nil || len(*s.rest) == 0 {
		return
	}
	all := *s.rest
	last, gone := len(all)-1, *empty
	if i == 0 {
		s.bucket = all[0]
	} else {
		i--
	}
	copy(all[i:], all[i+1:])
	all[last] = gone
	*s.rest = all[:last]
}
