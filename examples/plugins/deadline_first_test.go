package plugins_test

import (
	"math"
	"testing"
)

// deadlineFirst is deadline-first's arithmetic outside of any sandbox.
func deadlineFirst(weight, horizon, grace float64) func(table, int) float64 {
	return func(b table, i int) float64 {
		priority, _ := b.i64("priority", i)
		due, dated := b.i64("meta_i64:deadline_ms", i)
		cost, _ := b.i64("meta_i64:cost_ms", i)
		score := float64(priority) - float64(b.u32("attempts", i))
		if !dated {
			return score
		}
		left := float64(due - b.Now)
		if grace >= 0 && -left > grace {
			return math.NaN()
		}
		return score + weight*horizon/(horizon+max(0, left-float64(cost)))
	}
}

// A plugin in Go, built by the plain toolchain, scores in the sandbox as it does outside.
func TestDeadlineFirst(t *testing.T) {
	t.Parallel()
	module := goModule(t, "deadline-first")
	t.Run("defaults", func(t *testing.T) { agree(t, load(t, module, `{}`, still), deadlineFirst(100, 60_000, -1)) })
	t.Run("configured", func(t *testing.T) {
		agree(t, load(t, module, `{"weight":7.5,"horizon_ms":1000,"grace_ms":20000}`, still), deadlineFirst(7.5, 1000, 20_000))
	})
}
