package backlog

import "math/bits"

// sampler draws entries with a probability proportional to their weight, exactly, in O(1) expected time, while weights
// change. Entries stand in buckets by a bound that covers their weight, of which there are four to a power of two: 1, 2, 3,
// 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 ... A number drawn from 0..total-1 falls on an entry and on a place below the bound
// within it; the caller rejects places at or beyond the weight (a fifth at most) and draws again. An entry moves only when
// its weight crosses a bound. (With powers of two alone two draws in five were rejected, and each costs a look at a
// submission that lies anywhere in memory.)
type sampler struct {
	total   uint64   // sum of the bounds of all entries
	buckets []bucket // largest exp first, none empty; buckets beyond the length keep small memory for reuse
}

type bucket struct {
	entries []entry
	exp     uint8
}

// entry stands for a submission in a gate (its slot, and which of its members this is) or for a gate in a view's top (its
// number).
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
func (p *sampler) add(exp uint8, x entry) (place uint32) {
	p.total += bound(exp)
	i := p.search(exp)
	if i == len(p.buckets) || p.buckets[i].exp != exp {
		p.open(i, exp)
	}
	b := &p.buckets[i]
	b.entries = append(b.entries, x)
	return uint32(len(b.entries) - 1)
}

// remove takes out the entry at a place of the bucket of exp. The bucket's last entry moves there; it is returned if it is
// another one.
func (p *sampler) remove(exp uint8, place uint32) (moved entry, ok bool) {
	p.total -= bound(exp)
	i := p.search(exp)
	b := &p.buckets[i]
	last := len(b.entries) - 1
	if int(place) != last {
		moved, ok = b.entries[last], true
		b.entries[place] = moved
	}
	b.entries = trimmed(b.entries[:last])
	if last == 0 {
		p.close(i)
	}
	return moved, ok
}

// find is the entry on which a number below total falls, and the place within its bound.
func (p *sampler) find(number uint64) (x entry, rest uint64) {
	for i := range p.buckets {
		b := &p.buckets[i]
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
func (p *sampler) search(exp uint8) int {
	i := 0
	for i < len(p.buckets) && p.buckets[i].exp > exp {
		i++
	}
	return i
}

// open makes an empty bucket at i, reusing one that was closed.
func (p *sampler) open(i int, exp uint8) {
	var fresh bucket
	if last := len(p.buckets); last < cap(p.buckets) {
		fresh.entries = p.buckets[:last+1][last].entries[:0]
	}
	p.buckets = append(p.buckets, bucket{})
	copy(p.buckets[i+1:], p.buckets[i:])
	fresh.exp = exp
	p.buckets[i] = fresh
}

// close removes the empty bucket at i and keeps its memory, if small, behind the last one.
func (p *sampler) close(i int) {
	empty := p.buckets[i]
	if cap(empty.entries) > keepCap {
		empty.entries = nil
	}
	last := len(p.buckets) - 1
	copy(p.buckets[i:], p.buckets[i+1:])
	p.buckets[last] = empty
	p.buckets = p.buckets[:last]
}
