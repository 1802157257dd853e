package strategy_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// Scores order as the plugin interface says, for all that a float64 can be.
func TestRank(t *testing.T) {
	t.Parallel()
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		scores  []float64
		every   int
		emitted uint64
		want    string
	}{
		{[]float64{-inf, 5, nan, inf, 5}, 0, 0, "[3 1 4 0]"},
		{[]float64{math.Copysign(0, -1), 0, -1, 1e-300}, 0, 0, "[3 0 1 2]"},
		{nil, 3, 0, "[]"},
		{[]float64{nan, nan}, 1, 0, "[]"},
		{[]float64{0, 1, 2, 3, 4, 5}, 3, 0, "[5 4 0 3 2 1]"},
		{[]float64{nan, 1, 2, 3, 4, 5}, 3, 2, "[1 5 4 2 3]"},
		{[]float64{0, 1, 2}, 1, 0, "[0 1 2]"},
		{[]float64{0, 1, 2}, -1, 0, "[2 1 0]"},
	} {
		if got := fmt.Sprint(rank(c.scores, c.every, c.emitted, nil)); got != c.want {
			t.Errorf("Rank(%v, %d, %d) = %v, want %v", c.scores, c.every, c.emitted, got, c.want)
		}
	}
}

// FuzzRank holds for any bytes that a guest may leave as scores: every row that is no NaN comes once, none other; without exploring
// the order is that of a stable sort; with it, each n-th emission is the first row that is left.
func FuzzRank(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, uint8(3), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, every uint8, emitted uint64) {
		var scores []float64
		for ; len(raw) >= 8; raw = raw[8:] {
			scores = append(scores, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
		}
		var want []int
		for row, score := range scores {
			if score == score {
				want = append(want, row)
			}
		}
		slices.SortStableFunc(want, func(a, b int) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		if got := rank(scores, 0, emitted, nil); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v for %v", got, want, scores)
		}
		got := rank(scores, int(every), emitted, nil)
		left := slices.Sorted(slices.Values(want))
		for k, row := range got {
			if every > 0 && (emitted+uint64(k)+1)%uint64(every) == 0 && row != left[0] {
				t.Fatalf("emission %d is row %d, want the oldest %d", k, row, left[0])
			}
			at := slices.Index(left, row)
			if at < 0 {
				t.Fatalf("row %d comes twice or is skipped: %v", row, got)
			}
			left = slices.Delete(left, at, at+1)
		}
		if len(left) > 0 {
			t.Fatalf("rows %v never come: %v", left, got)
		}
	})
}

// BenchmarkRank is the order of a window of 256, all of it and the first four.
func BenchmarkRank(b *testing.B) {
	scores := make([]float64, 256)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range scores {
		scores[i] = rnd.NormFloat64()
	}
	var r strategy.Ranking
	for name, want := range map[string]int{"all": 256, "first4": 4} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Reset(scores, 16, 0)
				for range want {
					r.Next()
				}
			}
		})
	}
}

// rank appends all rows of a window to order, as Ranking gives them.
func rank(scores []float64, every int, emitted uint64, order []int) []int {
	var r strategy.Ranking
	r.Reset(scores, every, emitted)
	for {
		row, ok := r.Next()
		if !ok {
			return order
		}
		order = append(order, row)
	}
}
