package fair

import "testing"

// The first time is the average, and each later one moves it by an eighth. A tenant without an ended chunk has the estimate of the others.
func TestPace(t *testing.T) {
	t.Parallel()
	var tenant, all Pace
	if got := Likely(tenant, all); got != 1000 {
		t.Errorf("before any chunk ended: %d ms, want 1000", got)
	}
	all.Learn(2)
	if got := Likely(tenant, all); got != 2000 {
		t.Errorf("after one of another tenant: %d ms, want 2000", got)
	}
	tenant.Learn(0.5)
	tenant.Learn(4.5)
	if got := Likely(tenant, all); got != 1000 {
		t.Errorf("after its own of 0.5 and 4.5 s: %d ms, want 1000", got)
	}
	tenant = 0.0001
	if got := Likely(tenant, all); got != 1 {
		t.Errorf("after very short ones: %d ms, want 1, as a chunk costs something", got)
	}
}
