package usage

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

func planText(t testing.TB, text string) *strategy.Plan {
	t.Helper()
	s, err := strategy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.Plan()
}

// A strategy is in use for an hour after its last reserve, however often it is compiled again, and its rates are those of the last minutes.
func TestUsage(t *testing.T) {
	t.Parallel()
	var u Usage
	now := queue.Time(1_000_000)
	u.Sample(now)
	show := func() (out string) {
		list, since := u.List(now)
		for _, x := range list {
			out += fmt.Sprintf("%s: %d consumers, %.1f/s, %.1f chunks/s, %s ago\n", x.Strategy, x.Consumers, x.ReservesPerSecond, x.ChunksPerSecond,
				now.Std().Sub(x.LastUsed.Time))
		}
		return out + "known for " + now.Sub(since).String()
	}
	for range 60 {
		now = now.Add(time.Second)
		u.Add(planText(t, "Random"), "a", 10)
		u.Add(planText(t, "Random"), "b", 0)
		u.Add(planText(t, `SelectOnly("mode", "preview", Random)`), "", 1)
		u.Sample(now)
	}
	want := "Random: 2 consumers, 2.0/s, 10.0 chunks/s, 0s ago\n" +
		"SelectOnly(\"mode\", \"preview\", Random): 1 consumers, 1.0/s, 1.0 chunks/s, 0s ago\nknown for 1m0s"
	if got := show(); got != want {
		t.Errorf("after a minute: got\n%s\nwant\n%s", got, want)
	}
	for range 59 * 60 {
		now = now.Add(time.Second)
		u.Sample(now)
	}
	u.Add(planText(t, "Random"), "c", 0)
	want = "Random: 1 consumers, 0.0/s, 0.0 chunks/s, 0s ago\n" +
		"SelectOnly(\"mode\", \"preview\", Random): 0 consumers, 0.0/s, 0.0 chunks/s, 59m0s ago\nknown for 1h0m0s"
	if got := show(); got != want {
		t.Errorf("after an hour: got\n%s\nwant\n%s", got, want)
	}
	now = now.Add(2 * time.Minute)
	want = "Random: 1 consumers, 0.0/s, 0.0 chunks/s, 2m0s ago\nknown for 1h0m0s"
	if got := show(); got != want {
		t.Errorf("later: got\n%s\nwant\n%s", got, want)
	}
}

// However many strategies there are, the memory is bounded. Nothing is claimed about the time before the last one that was dropped.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	var u Usage
	now := queue.Time(1_000_000)
	u.Sample(now)
	for i := range 3 * maxInUse {
		now = now.Add(time.Second)
		u.Add(planText(t, fmt.Sprintf(`SelectOnly("company", %d, Random)`, i)), "a", 1)
		u.Sample(now)
	}
	list, since := u.List(now)
	if len(list) != maxInUse || now.Sub(since) != maxInUse*time.Second-time.Millisecond {
		t.Errorf("got %d strategies, known for %s; want %d, for the time that they take", len(list), now.Sub(since), maxInUse)
	}
}

// The estimate of names is exact for a few, and off by a few percent for a thousand.
func TestUsageCountsConsumers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 5, 10, 1000} {
		var u Usage
		plan := planText(t, "Random")
		for range 3 {
			for i := range n {
				u.Add(plan, fmt.Sprintf("worker-%d.zone.internal", i), 1)
			}
		}
		u.Sample(1)
		list, _ := u.List(2)
		if got := list[0].Consumers; got < n-n/20 || got > n+n/20 {
			t.Errorf("%d consumers: got %d", n, got)
		}
	}
}

// A reserve counts without an allocation, a lock or a map, with as many strategies as are counted.
func TestUsageAllocatesNothing(t *testing.T) {
	var u Usage
	var plans []*strategy.Plan
	for i := range maxInUse {
		plans = append(plans, planText(t, fmt.Sprintf(`SelectOnly("company", %d, Random)`, i)))
	}
	all := func() {
		for _, plan := range plans {
			u.Add(plan, "worker-17", 1)
		}
	}
	all()
	if n := testing.AllocsPerRun(10, all); n != 0 {
		t.Errorf("a reserve by each of %d strategies allocates %v times in all", len(plans), n)
	}
}

func BenchmarkUsage(b *testing.B) {
	var u Usage
	plan := planText(b, "Random")
	for b.Loop() {
		u.Add(plan, "worker-17.zone.internal", 1)
	}
}
