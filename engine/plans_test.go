package engine

import (
	"fmt"
	"strings"
	"testing"
)

// Plans are kept within their number and within bytes; those of one strategy are one as long as it is kept.
func TestPlansAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	var p plans
	read := func(n, terms int) asked {
		raw := fmt.Sprintf(`"Score(%s%d, Random)"`, strings.Repeat("priority + ", terms), n)
		got, err := p.read([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, most, dropped := read(0, 120), 0, false
	if again := read(0, 120); again.plan != first.plan || p.kept() == 0 {
		t.Fatalf("the same strategy has two plans, or nothing is counted: %d bytes", p.kept())
	}
	for n := 1; n < maxPlans && !dropped; n++ {
		before := p.kept()
		read(n, 120)
		most, dropped = max(most, p.kept()), p.kept() < before
	}
	if !dropped || most > maxPlanBytes || most < maxPlanBytes/2 {
		t.Errorf("at most %d bytes were kept, dropped %v; want the plans dropped at %d, before there are %d", most, dropped, maxPlanBytes, maxPlans)
	}
	if again := read(0, 120); again.plan == first.plan {
		t.Error("a plan that was dropped is there")
	}
}
