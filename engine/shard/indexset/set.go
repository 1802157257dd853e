// Package indexset is an ordered set of chunk indexes. It is pure.
//
//quern:tests pure
package indexset

import "slices"

// Set is an ordered set of chunk indexes that is walked in slices: sorted leaves of bounded size, so
// that adding, removing and going on from anywhere cost the same at any size. The zero value is empty.
type Set struct {
	leaves [][]uint32 // none is empty; each is behind the one before
	n      int
}

// leafMost is how many indexes a leaf holds before it is cut in two.
const leafMost = 512

// Len is how many indexes there are.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.n
}

// leaf is the number of the leaf for an index: the first one that ends at or behind it, or the last.
func (s *Set) leaf(index uint32) int {
	at, _ := slices.BinarySearchFunc(s.leaves, index, func(leaf []uint32, index uint32) int {
		if leaf[len(leaf)-1] < index {
			return -1
		}
		return 1
	})
	return min(at, len(s.leaves)-1)
}

// Add adds an index; one that is already there changes nothing.
func (s *Set) Add(index uint32) {
	if len(s.leaves) == 0 {
		s.leaves, s.n = [][]uint32{{index}}, 1
		return
	}
	l := s.leaf(index)
	at, there := slices.BinarySearch(s.leaves[l], index)
	if there {
		return
	}
	s.n++
	leaf := slices.Insert(s.leaves[l], at, index)
	s.leaves[l] = leaf
	if len(leaf) > leafMost {
		s.leaves[l] = leaf[: leafMost/2 : leafMost/2]
		s.leaves = slices.Insert(s.leaves, l+1, slices.Clone(leaf[leafMost/2:]))
	}
}

// Remove removes an index; one that is not there changes nothing.
func (s *Set) Remove(index uint32) {
	if s.Len() == 0 {
		return
	}
	l := s.leaf(index)
	at, there := slices.BinarySearch(s.leaves[l], index)
	if !there {
		return
	}
	s.n--
	if s.leaves[l] = slices.Delete(s.leaves[l], at, at+1); len(s.leaves[l]) == 0 {
		s.leaves = slices.Delete(s.leaves, l, l+1)
	}
}

// From appends up to `most` indexes at or behind `first`, ascending. first may be past the largest index.
func (s *Set) From(first uint64, most int, dst []uint32) []uint32 {
	if s.Len() == 0 || first > 1<<32-1 {
		return dst
	}
	for l := s.leaf(uint32(first)); l < len(s.leaves) && most > 0; l++ {
		at, _ := slices.BinarySearch(s.leaves[l], uint32(first))
		part := s.leaves[l][at:]
		part = part[:min(most, len(part))]
		dst = append(dst, part...)
		most -= len(part)
	}
	return dst
}
