package backlog

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// sharing makes a backlog of n companies with a fair view, some chunks of which are taken.
func sharing(tb testing.TB, n int, text string) *Backlog {
	tb.Helper()
	b := New()
	for i := range 2 * n {
		meta := queue.Meta{{Key: "company", Value: queue.IntValue(int64(i % n))}, {Key: "zone", Value: queue.IntValue(int64(i % 3))}}
		b.Show(b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 5, Key: OrderKey(5, 1), Meta: meta}))
	}
	s, err := strategy.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range s.Plan().Branches {
		v := finished(b, s.Plan().Branches[i])
		for range 2*n + n/2 {
			b.Take(v, rnd)
		}
	}
	return b
}

// The sums of the ledgers agree with those of their tenants one by one, and the lags add up to 0; with more tenants
// than may be looked at the lags are left out, and nothing else.
func TestLedgerSums(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`Fair("company", Random)`, `MaxSimultaneous("company", 2, Fair("company", OldestFirst))`, `Fair("zone", Fair("company", OldestFirst))`, `Fair("$submission", NewestFirst)`} {
		b := sharing(t, 20, text)
		want := LedgerSums{Whole: true}
		looked := 0
		var walk func(d *division)
		walk = func(d *division) {
			for _, x := range d.shares {
				want.Ledgers++
				looked += len(x.tenants) + 1
				Share{x}.Tenants(0, math.MaxInt, func(tenant Tenant) {
					switch tenant.State {
					case fair.Active:
						want.Active++
					case fair.Owing:
						want.Owing++
					case fair.Blocked:
						want.Blocked++
					}
					want.Most = max(want.Most, math.Abs(tenant.Lag))
				})
			}
			for _, a := range d.arms {
				if a.inner != nil {
					walk(a.inner)
				}
			}
		}
		for _, v := range b.Views.fair {
			walk(v.fair.root)
		}
		got, shares := b.Ledgers.Sums(looked, nil)
		for _, x := range shares {
			for from, more := 0, true; more; more = from != 0 {
				var lag float64
				lag, from = x.MostLag(from, 3)
				got.Most = max(got.Most, lag)
			}
		}
		if math.Abs(got.Lag) > 1e-6 {
			t.Errorf("%s: the lags add up to %v", text, got.Lag)
		}
		got.Lag = 0
		if got != want || want.Ledgers == 0 || want.Active+want.Blocked == 0 {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
		if few, _ := b.Ledgers.Sums(looked-1, nil); few.Whole || few.Active != want.Active || few.Ledgers != want.Ledgers {
			t.Errorf("%s: with one look too few got %+v, want all but the lags of %+v", text, few, want)
		}
	}
}

// Each submission that Take examines is counted for the block that Take was called for, and the submissions that an
// operator's limit moves out of the way are counted as limited. Previews count for nothing.
func TestWorkIsCounted(t *testing.T) {
	t.Parallel()
	b := New()
	for i := range 60 {
		meta := queue.Meta{{Key: "company", Value: queue.IntValue(int64(i % 3))}}
		b.Show(b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 2, Key: OrderKey(2, 1), Meta: meta}))
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	views := map[int]*View{}
	for kind, text := range []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority", `Fair("company", OldestFirst)`} {
		s, err := strategy.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		views[kind] = finished(b, s.Plan().Branches[0])
	}
	limit := queue.NoSettings()
	limit.Limit = 0
	b.Values.Set("company", queue.IntValue(1), limit)
	for kind, v := range views {
		for range 15 {
			if _, _, ok := b.Take(v, rnd); !ok {
				t.Fatalf("%s has nothing to give", KindName(kind))
			}
		}
	}
	all, limited := uint64(0), uint64(0)
	for kind := range Kinds {
		w := b.Work(kind)
		if w.Examined < 15 {
			t.Errorf("%s: %d were looked at for 15 chunks", KindName(kind), w.Examined)
		}
		all += w.Examined
		limited += w.Limited
	}
	if all != b.Examined() {
		t.Errorf("the blocks looked at %d, all together at %d", all, b.Examined())
	}
	if limited == 0 {
		t.Error("a limit holds a third of the submissions back, and nothing was moved out of the way")
	}
	before := b.meter.work
	for kind := range Kinds {
		b.Preview([]*View{views[kind]}, 5, rnd, nil, nil)
	}
	if b.meter.work != before {
		t.Errorf("previews count: %+v, before %+v", b.meter.work, before)
	}
}

func BenchmarkLedgerSums(b *testing.B) {
	x := sharing(b, 10_000, `Fair("company", OldestFirst)`)
	for b.Loop() {
		x.Ledgers.Sums(math.MaxInt, nil)
	}
}
