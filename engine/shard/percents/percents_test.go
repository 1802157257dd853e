package percents

import (
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// Calls that begin at the same number share a plan, and the plans that are kept have a bound.
func TestPlansAreKept(t *testing.T) {
	t.Parallel()
	s, err := strategy.Parse(`OrElse(MaxSimultaneous("a", "50%", Random), MaxSimultaneous("a", "99%", Random))`)
	if err != nil {
		t.Fatal(err)
	}
	var p Plans
	of := func(chunks int) *strategy.Plan {
		return p.Keep(s.Plan(), chunks, s.Plan().Now(chunks))
	}
	for chunks := range 10_000 {
		now := of(chunks)
		if again := of(chunks); again != now || p.Find(s.Plan(), chunks) != now {
			t.Fatalf("%d chunks: kept twice", chunks)
		}
		if len(p.of) > mostPlans {
			t.Fatalf("%d plans are kept, want at most %d", len(p.of), mostPlans)
		}
	}
	if of(4096) != of(4097) {
		t.Error("4096 and 4097 chunks have the same numbers, and two plans")
	}
}
