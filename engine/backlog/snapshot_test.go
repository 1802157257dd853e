package backlog

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// After a restart exactly the chunks that were available or held are available. Cursors and exceptions come back as
// they were, so a second snapshot has the same bytes.
func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 40))
		n := 1 + r.Uint32N(400)
		b := New()
		s := b.add(n, 0)
		random, ordered := finished(b, filtered(0)), finished(b, filtered(1))
		var held []uint32
		for range r.IntN(int(n) + 1) {
			v := random
			if r.IntN(3) == 0 {
				v = ordered
			}
			switch r.IntN(5) {
			case 0:
				b.Withdraw(s, r.Uint32N(n), true)
			case 1:
				if index := r.Uint32N(n); b.TakeChunk(s, index) {
					held = append(held, index)
				}
			case 2:
				if len(held) > 0 {
					i := r.IntN(len(held))
					b.PutBack(s, held[i])
					b.Land(s)
					held = slices.Delete(held, i, i+1)
				}
			default:
				if _, index, ok := b.Take(v, r); ok {
					held = append(held, index)
				}
			}
		}
		out := held[:r.IntN(len(held)+1)]
		snapshot := s.AppendSnapshot([]byte("before"), append(slices.Clone(out), out...))
		into := New()
		spec := Spec{Seq: s.Seq(), ID: s.ID(), Chunks: n, Key: s.key}
		back, err := into.Restore(spec, snapshot[len("before"):])
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		count := uint32(0)
		for index := range n {
			want := s.IsAvailable(index) || slices.Contains(out, index)
			if got := back.IsAvailable(index); got != want {
				t.Fatalf("seed %d: chunk %d of %d: available %v, want %v (out: %v)", seed, index, n, got, want, out)
			}
			if want {
				count++
			}
		}
		if back.Available() != count || back.InFlight() != 0 || back.Shown() {
			t.Fatalf("seed %d: %d available, %d in flight, shown %v, want %d, 0, false", seed, back.Available(), back.InFlight(), back.Shown(), count)
		}
		if again := back.AppendSnapshot([]byte("before"), nil); !bytes.Equal(again, snapshot) {
			t.Fatalf("seed %d: the second snapshot is %x, the first %x", seed, again, snapshot)
		}
	}
}

// Restore refuses bytes that AppendSnapshot cannot have written, and leaves the backlog as it was.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	good := Spec{Seq: 1, ID: 1, Chunks: 10, Key: 0x9876543210} // in the order of the indexes
	numbers := func(numbers ...uint64) (snapshot []byte) {
		for _, x := range numbers {
			snapshot = binary.AppendUvarint(snapshot, x)
		}
		return snapshot
	}
	for name, test := range map[string]struct {
		change   func(*Spec)
		snapshot []byte
	}{
		"nothing":              {snapshot: nil},
		"version 0":            {snapshot: numbers(0, 0, 0, 0, 0, 0)},
		"newer version":        {snapshot: numbers(2, 0, 0, 0, 0, 0)},
		"cut off":              {snapshot: numbers(1, 5, 5, 5, 1, 3)},
		"cut in a number":      {snapshot: append(numbers(1, 5), 0x80)},
		"more after it":        {snapshot: numbers(1, 5, 5, 5, 0, 0, 0)},
		"cursor too far":       {snapshot: numbers(1, 11, 0, 0, 0, 0)},
		"both, miscounted":     {snapshot: numbers(1, 5, 5, 4, 0, 0)},
		"index too large":      {snapshot: numbers(1, 10, 0, 0, 1, 10, 0)},
		"index twice":          {snapshot: numbers(1, 10, 0, 0, 2, 3, 0, 0)},
		"sum beyond the end":   {snapshot: numbers(1, 10, 0, 0, 2, 9, 9, 0)},
		"count too large":      {snapshot: numbers(1, 10, 0, 0, 9, 1, 1)},
		"put back, unvisited":  {snapshot: numbers(1, 0, 5, 0, 1, 5, 0)},
		"skipped, but visited": {snapshot: numbers(1, 0, 5, 0, 0, 1, 4)},
		"huge number":          {snapshot: numbers(1, math.MaxUint64, 0, 0, 0, 0)},
		"bad permutation":      {change: func(s *Spec) { s.Key = 5 }, snapshot: numbers(1, 0, 0, 0, 0, 0)},
		"known id":             {change: func(s *Spec) { s.ID = 70 }, snapshot: numbers(1, 0, 0, 0, 0, 0)},
		"known seq":            {change: func(s *Spec) { s.Seq = 7 }, snapshot: numbers(1, 0, 0, 0, 0, 0)},
	} {
		b := New()
		b.Insert(Spec{Seq: 7, ID: 70, Chunks: 1})
		spec := good
		if test.change != nil {
			test.change(&spec)
		}
		if s, err := b.Restore(spec, test.snapshot); err == nil {
			t.Errorf("%s: restored %+v, want an error", name, s)
		}
		if b.Len() != 1 || b.exceptions.putBack != 0 {
			t.Errorf("%s: %d submissions and %d put back afterwards, want 1 and 0", name, b.Len(), b.exceptions.putBack)
		}
	}
}

// No bytes make Restore panic, allocate without bound or build a submission that contradicts itself.
func FuzzRestore(f *testing.F) {
	f.Add(uint32(10), uint64(1), []byte{1, 5, 5, 3, 1, 3, 0})
	f.Add(uint32(math.MaxUint32), uint64(2), []byte{1, 5, 5, 0, 0, 1, 200, 1})
	f.Add(uint32(1), uint64(3), []byte{1, 1, 1, 1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, n uint32, seed uint64, snapshot []byte) {
		if n == 0 {
			return
		}
		key := OrderKey(n, seed)
		b := New()
		s, err := b.Restore(Spec{Seq: 1, ID: 1, Chunks: n, Key: key}, snapshot)
		if err != nil {
			return
		}
		if n <= 1000 {
			count := uint32(0)
			for index := range n {
				if s.IsAvailable(index) {
					count++
				}
			}
			if count != s.Available() {
				t.Fatalf("%d available, %d counted, from %x", s.Available(), count, snapshot)
			}
		}
		b.Show(s)
		v := finished(b, filtered(0))
		rnd := rand.New(rand.NewPCG(seed, 1))
		left := s.Available()
		if n > 1000 {
			left = 0 // with cursors far in a large submission, chunks that both have visited are not counted
		}
		for range min(left, 100) {
			if _, index, ok := b.Take(v, rnd); !ok || s.IsAvailable(index) {
				t.Fatalf("of %d available, Take gave %d, %v", left, index, ok)
			}
		}
	})
}

// After a replay the cursors move over densely completed chunks, in either order, and few exceptions are left: about
// one per chunk that was held at the crash. A completion far away changes nothing about that. The same chunks stay
// available.
func TestShrinkSkips(t *testing.T) {
	t.Parallel()
	const n, done, heldAtCrash = 1_000_000, 20_000, 300
	for _, test := range []struct {
		name            string
		random, ordered int
		far             bool
	}{{"random", 1, 0, false}, {"ordered", 0, 1, false}, {"both", 2, 1, false}, {"far", 1, 1, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, 41))
			live := New()
			was := live.add(n, 0)
			random, ordered := finished(live, filtered(0)), finished(live, filtered(1))
			var held, completed []uint32
			for range done + heldAtCrash {
				v := ordered
				if r.IntN(test.random+test.ordered) < test.random {
					v = random
				}
				_, index, _ := live.Take(v, r)
				if held = append(held, index); len(held) > heldAtCrash {
					i := r.IntN(len(held))
					completed = append(completed, held[i])
					held = slices.Delete(held, i, i+1)
				}
			}
			if test.far {
				completed = append(completed, was.at(n-5), n-3)
			}
			b := New()
			s := b.Insert(Spec{Seq: 1, ID: 1, Chunks: n, Key: was.key})
			for _, index := range completed {
				b.Withdraw(s, index, false)
			}
			before := s.Available()
			b.ShrinkSkips(s)
			if got := s.ahead.len() + s.back.len(); got > 2*heldAtCrash {
				t.Errorf("%d skipped and %d put back after %d completions with %d held, want at most %d", s.ahead.len(), s.back.len(), done, heldAtCrash, 2*heldAtCrash)
			}
			if s.Available() != before || before != uint32(n-len(completed)) || b.exceptions.putBack != s.back.len() {
				t.Errorf("%d available (%d before), %d put back counted, want %d", s.Available(), before, b.exceptions.putBack, n-len(completed))
			}
			slices.Sort(completed)
			for index := range uint32(n) {
				_, gone := slices.BinarySearch(completed, index)
				if s.IsAvailable(index) == gone {
					t.Fatalf("chunk %d: available %v, completed %v", index, !gone, gone)
				}
			}
		})
	}
}
