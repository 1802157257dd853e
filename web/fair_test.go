package web

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// The behaviours that Fair promises, as a consumer sees them.

const byTenant = `Fair("t", OldestFirst)`

// alike checks that after every prefix of the list each tenant has its share of it, by weight, plus or minus `within`.
func alike(t *testing.T, list []api.Reservation, within float64, weights map[string]float64) {
	t.Helper()
	sum := 0.0
	for _, weight := range weights {
		sum += weight
	}
	got := map[string]float64{}
	for i := range list {
		got[tenant(&list[i])]++
		for name, weight := range weights {
			if want := float64(i+1) * weight / sum; math.Abs(got[name]-want) > within+1e-9 {
				t.Fatalf("after %d chunks %s has %v, want %.2f within %v; all: %v", i+1, name, got[name], want, within, got)
			}
		}
	}
}

// tenants are n names, all of weight 1.
func tenants(n int) map[string]float64 {
	weights := map[string]float64{}
	for i := range n {
		weights[fmt.Sprint("t", i)] = 1
	}
	return weights
}

// 1. A backlog of a million chunks delays no tenant that comes with ten.
func TestFairQuietBesideLoud(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.submit("loud", 1_000_000)
	s.take(byTenant, 50, 50)
	for name := range tenants(100) {
		s.submit(name, 10)
	}
	got := counts(s.take(byTenant, 1100, 100))
	for name := range tenants(100) {
		if got[name] != 10 {
			t.Errorf("%s has %d of its 10 chunks after 1,100", name, got[name])
		}
	}
}

// 2. Two with equal weight have half each, after every single reservation.
func TestFairAlternates(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.submit("a", 100_000)
	s.submit("b", 600)
	alike(t, s.take(byTenant, 1000, 1), 1, map[string]float64{"a": 1, "b": 1})
}

// 3. Weights of 1, 10 and 100 share 1 to 10 to 100, interleaved and not in runs.
func TestFairWeights(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	weights := map[string]float64{"a": 1, "b": 10, "c": 100}
	for name, weight := range weights {
		s.weigh(name, weight)
		s.submit(name, 10_000)
	}
	list := s.take(byTenant, 1110, 10)
	alike(t, list, 1, weights)
	got := counts(list)
	for name, weight := range weights {
		if math.Abs(float64(got[name])-10*weight) > 1 {
			t.Errorf("%s has %d of 1,110, want %v within 1", name, got[name], 10*weight)
		}
	}
}

// 4. A weight that is raised holds for what was queued before, from the next reservation on.
// 5. So does one that is lowered.
func TestFairWeightChanges(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name := range tenants(20) {
		s.submit(name, 10_000)
	}
	s.take(byTenant, 137, 20)
	s.weigh("t0", 10)
	if got := counts(s.take(byTenant, 290, 10))["t0"]; got < 98 || got > 102 {
		t.Errorf("with weight 10 beside 19 of weight 1: %d of 290 chunks, want 100 within 2", got)
	}
	s.weigh("t0", 0.1)
	want := 1000 * 0.1 / 19.1
	if got := counts(s.take(byTenant, 1000, 10))["t0"]; math.Abs(float64(got)-want) > 3 {
		t.Errorf("with weight 0.1: %d of 1,000 chunks, want %.1f within 3", got, want)
	}
}

// 6. A tenant that was idle for an hour has earned nothing: from the next reservation on both alternate.
func TestFairIdlenessEarnsNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.submit("a", 1)
	s.submit("b", 200_000)
	s.take(byTenant, 20_000, 1000)
	s.ahead.Add(int64(time.Hour))
	s.submit("a", 100_000)
	list := s.take(byTenant, 1000, 1)
	twice := 0
	for i := 1; i < len(list); i++ {
		if tenant(&list[i]) == "a" && tenant(&list[i-1]) == "a" {
			twice++
		}
	}
	if twice > 1 {
		t.Errorf("a has two in a row %d times, want at most once", twice)
	}
	alike(t, list, 1.5, map[string]float64{"a": 1, "b": 1})
}

// 7. A tenant that always has a single chunk queued gets its share, no more.
func TestFairOneAtATime(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name := range tenants(20) {
		s.submit(name, 10_000)
	}
	s.submit("a", 1)
	got := 0
	for range 2100 {
		if r := s.take(byTenant, 1, 1); tenant(&r[0]) == "a" {
			got++
			s.submit("a", 1)
		}
	}
	if got < 98 || got > 102 {
		t.Errorf("%d of 2,100 chunks, want 100 within 2", got)
	}
}

// 8. Work that failed is not held against its tenant.
func TestFairFailedSubmission(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.must("PATCH", queuePath("", ""), api.ChangeQueueRequest{Settings: api.QueueSettingsInput{OnExhausted: new("fail_submission")}}, nil)
	for name := range tenants(5) {
		s.submit(name, 10_000)
	}
	failed := s.submit("a", 100_000)
	for _, r := range s.take(byTenant, 600, 100) {
		if tenant(&r) == "a" {
			s.fail(true, r)
			break
		}
	}
	var got api.Submission
	if s.must("GET", "/v1/submissions/"+failed.ID, nil, &got); got.State != api.StateFailed {
		t.Fatalf("the submission is %s, want failed", got.State)
	}
	s.take(byTenant, 100, 10)
	s.submit("a", 100)
	if got := counts(s.take(byTenant, 12, 1))["a"]; got < 1 {
		t.Errorf("after two rounds of six tenants a has %d chunks, want at least 1", got)
	}
}

// 9. A tenant that was at its limit for long is neither starved nor paid back.
func TestFairAtTheLimit(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const limited = `Fair("t", MaxSimultaneous("t", 5, OldestFirst))`
	for name := range tenants(20) {
		s.submit(name, 100_000)
	}
	s.submit("a", 100_000)
	var held []api.Reservation
	for served := 0; served < 10_000; {
		list := s.take(limited, 50, 50)
		var done []api.Reservation
		for i := range list {
			if tenant(&list[i]) == "a" {
				held = append(held, list[i])
			} else {
				done = append(done, list[i])
			}
		}
		s.complete(done...)
		served += len(list)
	}
	if len(held) != 5 {
		t.Fatalf("a holds %d chunks, want 5, its limit", len(held))
	}
	s.complete(held...)
	last, run := map[string]int{}, 0
	for i := range 420 {
		r := s.take(limited, 1, 1)
		s.complete(r...)
		name := tenant(&r[0])
		if run++; name != "a" {
			run = 0
		}
		if last[name] = i; run > 5 {
			t.Errorf("a has %d in a row", run)
		}
		for other := range tenants(20) {
			if i-last[other] > 2*21 {
				t.Fatalf("%s has waited for %d reservations, want at most two rounds of 21", other, i-last[other])
			}
		}
	}
}
