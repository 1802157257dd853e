package host_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
)

// openRaw opens a module as it is, without scan and rewriting.
func openRaw(t testing.TB, module []byte, o host.Options) (*host.Version, error) {
	t.Helper()
	compiled, err := compile.InProcess(t.Context(), module, 256)
	if err != nil {
		t.Fatal(err)
	}
	v, err := host.Open(t.Context(), compiled, o)
	if err == nil {
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return v, err
}

// FuzzRank holds for any bytes that a guest may leave as scores: every row that is no NaN comes once, none other; without exploring
// the order is that of a stable sort; with it, each n-th emission is the first row that is left.
func FuzzRank(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, uint8(3), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, every uint8, emitted uint64) {
		var scores []float64
		for ; len(raw) >= 8; raw = raw[8:] {
			scores = append(scores, math.Float64frombits(abi.ReadU64(raw)))
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
		if got := host.Rank(scores, 0, emitted, nil); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v for %v", got, want, scores)
		}
		got := host.Rank(scores, int(every), emitted, nil)
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

func bitsOf(score float64) uint64 { return math.Float64bits(score) }
