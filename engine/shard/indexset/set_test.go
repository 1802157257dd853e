package indexset

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The set equals a sorted list of distinct numbers, read from anywhere in pieces of any size.
func TestSetIsSorted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.SampledFrom([]uint32{10, 2000, 100_000, math.MaxUint32}).Draw(t, "span")
		var s Set
		model := map[uint32]bool{}
		for range rapid.IntRange(0, 3000).Draw(t, "steps") {
			index := rapid.Uint32Max(span).Draw(t, "index")
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				s.Remove(index)
				delete(model, index)
			} else {
				s.Add(index)
				model[index] = true
			}
		}
		var want []uint32
		for index := range model {
			want = append(want, index)
		}
		slices.Sort(want)
		if got := s.From(0, math.MaxInt, nil); !slices.Equal(got, want) || s.Len() != len(want) {
			t.Fatalf("all of it: got %d of len %d, want %d", len(got), s.Len(), len(want))
		}
		first, most := rapid.Uint64Max(uint64(span)+1).Draw(t, "first"), rapid.IntRange(0, 700).Draw(t, "most")
		at, _ := slices.BinarySearchFunc(want, first, func(index uint32, first uint64) int {
			if uint64(index) < first {
				return -1
			}
			return 1
		})
		part := want[at:]
		if got := s.From(first, most, nil); !slices.Equal(got, part[:min(most, len(part))]) {
			t.Fatalf("%d from %d on: got %v, want %v", most, first, got, part[:min(most, len(part))])
		}
		for _, leaf := range s.leaves {
			if len(leaf) == 0 || len(leaf) > leafMost {
				t.Fatalf("a leaf holds %d indexes, want 1 to %d", len(leaf), leafMost)
			}
		}
	})
}
