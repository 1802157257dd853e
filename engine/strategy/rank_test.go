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
		scores []float64
		want   string
	}{
		{[]float64{-inf, 5, nan, inf, 5}, "[3 1 4 0]"},
		{[]float64{math.Copysign(0, -1), 0, -1, 1e-300}, "[3 0 1 2]"},
		{nil, "[]"},
		{[]float64{nan, nan}, "[]"},
		{[]float64{0, 1, 2, 3, 4, 5}, "[5 4 3 2 1 0]"},
		{[]float64{0, 1, 2}, "[2 1 0]"},
	} {
		if got := fmt.Sprint(rank(c.scores)); got != c.want {
			t.Errorf("Rank(%v) = %v, want %v", c.scores, got, c.want)
		}
	}
}

// FuzzRank holds for any bytes that a guest may leave as scores: every row that is no NaN comes once, none other, in the order of a
// stable sort.
func FuzzRank(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f})
	f.Fuzz(func(t *testing.T, raw []byte) {
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
		if got := rank(scores); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v for %v", got, want, scores)
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
				r.Reset(scores)
				for range want {
					r.Next()
				}
			}
		})
	}
}

// rank is all rows of a window, as Ranking gives them.
func rank(scores []float64) (order []int) {
	var r strategy.Ranking
	r.Reset(scores)
	for {
		row, ok := r.Next()
		if !ok {
			return order
		}
		order = append(order, row)
	}
}
