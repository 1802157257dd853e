package strategy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The bytes counted for a plan are no less than its memory. The test is not parallel, as it measures
// the heap.
func TestPlanBytes(t *testing.T) {
	nest := func(n int, block, inner string) string {
		for k := range n {
			inner = fmt.Sprintf(block, k, inner)
		}
		return inner
	}
	const leaf, copies = `SelectOnly("z", "v%d", Random)`, 300
	for name, build := range map[string]func(n int) string{
		"one branch": func(n int) string { return fmt.Sprintf(leaf, n) },
		"formula":    func(n int) string { return fmt.Sprintf(`Score(priority + %d, Random)`, n) },
		"long formula": func(n int) string {
			return fmt.Sprintf(`Score(%s%d, Random)`, strings.Repeat("priority + ", 120), n)
		},
		"alternatives": func(n int) string {
			return nest(30, `OrElse(SelectOnly("k%d", "x", Random), %s)`, fmt.Sprintf(leaf, n))
		},
		"filters": func(n int) string {
			return nest(6, `SelectOnly("k%d", "value", %s)`, nest(24, `OrElse(SelectOnly("q%d", "x", Random), %s)`, fmt.Sprintf(leaf, n)))
		},
		"limits": func(n int) string { return nest(15, `MaxSimultaneous("k%d", 3, %s)`, fmt.Sprintf(leaf, n)) },
	} {
		var plans []*Plan
		counted := 0
		before := heapBytes()
		for n := range copies {
			s, err := Parse(build(n))
			if err != nil {
				t.Fatal(err)
			}
			plan := s.Plan()
			counted += plan.Bytes()
			plans = append(plans, plan)
		}
		if took := int(heapBytes() - before); took > counted {
			t.Errorf("%s: %d plans took %d bytes, and %d were counted", name, copies, took, counted)
		}
		runtime.KeepAlive(plans)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
