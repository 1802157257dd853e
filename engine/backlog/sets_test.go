package backlog

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A table behaves as a Go map does.
func TestTable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		got, want := newTable(seed%2 == 0), map[uint32]uint32{}
		span := 1 + r.Uint32N(3000)
		for range 6000 {
			key := r.Uint32N(span)
			if r.IntN(2) == 0 {
				value := r.Uint32()
				got.put(key, value)
				want[key] = value
			} else {
				_, there := want[key]
				delete(want, key)
				if got.delete(key) != there {
					t.Fatalf("seed=%d: delete(%d) = %v, want %v", seed, key, !there, there)
				}
			}
			if got.len() != len(want) {
				t.Fatalf("seed=%d: %d keys, want %d", seed, got.len(), len(want))
			}
		}
		for key := range span {
			value, there := want[key]
			if got.has(key) != there {
				t.Fatalf("seed=%d: has(%d) = %v, want %v", seed, key, !there, there)
			}
			if !got.bare {
				if v, ok := got.find(key); ok != there || v != value {
					t.Fatalf("seed=%d: find(%d) = %d, %v, want %d, %v", seed, key, v, ok, value, there)
				}
			}
		}
		if keys := got.appendKeys(nil); len(keys) != len(want) {
			t.Fatalf("seed=%d: %d keys listed, want %d", seed, len(keys), len(want))
		}
	}
}

// A pile knows its members, its smallest and their places while it grows past the size that needs a table and back.
func TestPile(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4))
		var p pile
		var want []uint32 // sorted
		high := 1 + r.IntN(300)
		growing := true
		for range 4000 {
			if growing = growing && len(want) < high || len(want) == 0; growing || r.IntN(4) == 0 {
				index := r.Uint32N(1000)
				at, there := slices.BinarySearch(want, index)
				if (p.find(index) >= 0) != there {
					t.Fatalf("seed=%d: find(%d) = %d with %v", seed, index, p.find(index), want)
				}
				if !there {
					p.add(index)
					want = slices.Insert(want, at, index)
				}
				continue
			}
			place := r.IntN(len(want))
			if r.IntN(2) == 0 {
				place = 0
			}
			index := p.takeAt(place)
			at, there := slices.BinarySearch(want, index)
			if !there || place == 0 && at != 0 {
				t.Fatalf("seed=%d: took %d at place %d of %v", seed, index, place, want)
			}
			want = slices.Delete(want, at, at+1)
		}
		if p.len() != len(want) {
			t.Fatalf("seed=%d: %d left, want %d", seed, p.len(), len(want))
		}
		for _, index := range want {
			if got := p.takeAt(0); got != index {
				t.Fatalf("seed=%d: smallest is %d, want %d", seed, got, index)
			}
		}
	}
}

// A sampler knows where everything is, and every number below the total falls on the entry whose range it is in.
func TestSampler(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 5))
		var p sampler
		type spot struct {
			exp   uint8
			place uint32
		}
		spots := map[uint32]spot{}
		var ids []uint32
		for step := range uint32(2000) {
			if r.IntN(3) > 0 && len(ids) < 200 {
				exp := uint8(r.IntN(12))
				spots[step] = spot{exp, p.add(exp, entry{of: step})}
				ids = append(ids, step)
			} else if len(ids) > 0 {
				i := r.IntN(len(ids))
				s := spots[ids[i]]
				delete(spots, ids[i])
				ids = slices.Delete(ids, i, i+1)
				if moved, ok := p.remove(s.exp, s.place); ok {
					spots[moved.of] = s
				}
			}
			var total uint64
			for _, s := range spots {
				total += bound(s.exp)
			}
			if p.total != total {
				t.Fatalf("seed=%d step=%d: total %d, want %d", seed, step, p.total, total)
			}
		}
		hits := map[uint32]uint64{}
		for number := range p.total {
			x, rest := p.find(number)
			if rest >= bound(spots[x.of].exp) {
				t.Fatalf("seed=%d: number %d leaves %d in the bucket %d", seed, number, rest, spots[x.of].exp)
			}
			hits[x.of]++
		}
		for id, s := range spots {
			if hits[id] != bound(s.exp) {
				t.Fatalf("seed=%d: entry %d is hit %d times, want %d", seed, id, hits[id], bound(s.exp))
			}
		}
	}
}

func TestExponent(t *testing.T) {
	t.Parallel()
	for weight, want := range map[uint64]uint8{0: 0, 1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 8: 7, 9: 8, 10: 8, 11: 9, 16: 11, 1 << 31: 119, 1<<31 + 1: 120, 1<<32 - 1: 123, 1 << 52: 203} {
		if got := exponent(weight); got != want {
			t.Errorf("exponent(%d) = %d, want %d", weight, got, want)
		}
	}
}
