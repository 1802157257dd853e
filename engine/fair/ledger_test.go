package fair

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// serve picks and charges chunks, and counts them by tenant.
func serve(t *testing.T, l *Ledger, chunks int) map[uint32]int {
	t.Helper()
	got := map[uint32]int{}
	for slot := range chunks {
		tenant, ok := l.Pick()
		if !ok {
			t.Fatalf("slot %d of %d: no tenant to pick", slot, chunks)
		}
		l.Charge(tenant, Chunk)
		got[tenant]++
	}
	audit(t, l)
	return got
}

func joined(weights ...float64) *Ledger {
	l := new(Ledger)
	for i, w := range weights {
		l.SetWeight(uint32(i), WeightOf(w))
		l.Join(uint32(i))
	}
	return l
}

func expectCounts(t *testing.T, got, want map[uint32]int) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
}

func equal(n int) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 1
	}
	return weights
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	l := new(Ledger)
	l.Leave(3)
	l.Refund(5, Chunk)
	l.Forget(99)
	if tenant, ok := l.Pick(); ok {
		t.Errorf("picked %d of no tenants", tenant)
	}
	if got, want := l.Info(1000), (Info{Tenant: 1000, Weight: DefaultWeight}); got != want {
		t.Errorf("a tenant never heard of: got %+v, want %+v", got, want)
	}
	l.Charge(7, Chunk) // alone: owed to no one
	if got := l.Info(7); got.State != Idle || got.Received != 1 || got.Lag != 0 {
		t.Errorf("charged while no tenant competes: got %+v, want idle, 1 received, no lag", got)
	}
	audit(t, l)
}

// Weights 1:10:100 are interleaved, not served in runs.
func TestWeights(t *testing.T) {
	t.Parallel()
	l := joined(1, 10, 100)
	received := map[uint32]float64{}
	for slot := 1; slot <= 1110; slot++ {
		for tenant := range serve(t, l, 1) {
			received[tenant]++
		}
		for tenant, weight := range []float64{1, 10, 100} {
			if want, got := float64(slot)*weight/111, received[uint32(tenant)]; math.Abs(got-want) > 1 {
				t.Errorf("after %d picks tenant %d has %v, want %.2f within 1", slot, tenant, got, want)
			}
		}
	}
}

// Of tenants that are owed the same, the one whose next pick is expected to cost least goes first, whether Expect comes before or after
// Join. 0, and less, is the unit.
func TestCheaperGoesFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, second Cost
		want          uint32
	}{{3 * Chunk, 2 * Chunk, 1}, {2 * Chunk, 3 * Chunk, 0}, {2 * Chunk, 0, 1}, {2 * Chunk, -9 * Chunk, 1}, {0, Chunk / 2, 1}} {
		l := new(Ledger)
		l.Expect(0, c.first)
		l.Join(0)
		l.Join(1)
		l.Expect(1, c.second)
		if got, ok := l.Pick(); !ok || got != c.want {
			t.Errorf("expected costs %d and %d: got %d, %v; want %d", c.first, c.second, got, ok, c.want)
		}
		audit(t, l)
	}
}

// A tenant that was idle while others were served comes back with no credit and no debt.
func TestIdlenessEarnsNothing(t *testing.T) {
	t.Parallel()
	l := joined(1, 1)
	l.Leave(0)
	expectCounts(t, serve(t, l, 100_000), map[uint32]int{1: 100_000})
	l.Join(0)
	for range 50 {
		expectCounts(t, serve(t, l, 2), map[uint32]int{0: 1, 1: 1})
	}
}

// Leaving after every pick and coming back is worth nothing: the debt stays until the others have caught up.
func TestLeavingAndComingBack(t *testing.T) {
	t.Parallel()
	l := joined(equal(21)...)
	got := 0
	for range 2100 {
		tenant, _ := l.Pick()
		l.Charge(tenant, Chunk)
		if tenant == 0 {
			got++
			l.Leave(0)
			if state := l.Info(0).State; state != Owing {
				t.Fatalf("left with lag %v: state %v, want owing", l.Info(0).Lag, state)
			}
			l.Join(0)
		}
	}
	if got < 98 || got > 102 {
		t.Errorf("of 2100 picks among 21 tenants it got %d, want 100 within 2", got)
	}
	audit(t, l)
}

// An owing tenant is forgotten when the others have caught up, not before.
func TestOwing(t *testing.T) {
	t.Parallel()
	l := joined(1, 1, 1)
	first, _ := l.Pick()
	l.Charge(first, Chunk)
	l.Leave(first)
	if got := l.Totals(); got.Active != 2 || got.Owing != 1 || got.Weight != 3 {
		t.Errorf("one left while ahead: got %+v, want 2 active, 1 owing, weight 3", got)
	}
	if got, want := l.Lag(first).In(Chunk), -2.0/3; math.Abs(got-want) > 1e-11 {
		t.Errorf("it has lag %v, want %v", got, want)
	}
	serve(t, l, 2)
	if got := l.Totals(); got.Owing != 0 || got.Weight != 2 || got.Leaves != 1 {
		t.Errorf("the others have caught up: got %+v, want none owing, weight 2, 1 leave", got)
	}
}

// A change of weight counts from the next pick on, also for work that was there before.
func TestWeightOfABacklog(t *testing.T) {
	t.Parallel()
	l := joined(equal(20)...)
	serve(t, l, 1000)
	l.SetWeight(0, WeightOf(10))
	if got := serve(t, l, 290)[0]; got < 98 || got > 102 {
		t.Errorf("weight 1 to 10: it got %d of the next 290, want 100 within 2", got)
	}
	l.SetWeight(0, WeightOf(0.1))
	if got := serve(t, l, 1000)[0]; got < 2 || got > 9 {
		t.Errorf("weight 10 to 0.1: it got %d of the next 1000, want 5 within 3", got)
	}
}

// A tenant that was blocked for long does not catch up the chunks that it could not take, and keeps the lag that it had.
func TestBlocked(t *testing.T) {
	t.Parallel()
	l := joined(1, 1, 2)
	for serve(t, l, 1)[0] == 0 {
	}
	lag := l.Lag(0)
	l.Block(0)
	if got := serve(t, l, 9999); got[0] != 0 || got[2] < 6664 || got[2] > 6668 {
		t.Errorf("the others are served %v, want 1:2", got)
	}
	if got := l.Info(0); got.State != Blocked || l.Lag(0) != lag || got.Share != 0 {
		t.Errorf("while blocked: got %+v (lag %d), want blocked, lag %d, no share", got, l.Lag(0), lag)
	}
	l.SetWeight(0, WeightOf(5))
	l.SetWeight(0, WeightOf(1))
	l.Join(0)
	if got := l.Lag(0); math.Abs(float64(got-lag)) > 2 {
		t.Errorf("after it: lag %d, want %d within rounding", got, lag)
	}
	if got := serve(t, l, 400)[0]; got < 98 || got > 102 {
		t.Errorf("it got %d of the next 400, want 100 within 2", got)
	}
}

// With all blocked, no tenant is picked; with the last competitor gone, the blocked owe nothing.
func TestAllBlocked(t *testing.T) {
	t.Parallel()
	l := joined(1, 1, 3)
	serve(t, l, 1)
	for tenant := range uint32(3) {
		l.Block(tenant)
		audit(t, l)
	}
	if tenant, ok := l.Pick(); ok {
		t.Errorf("picked %d of none", tenant)
	}
	for tenant := range uint32(3) {
		if l.Lag(tenant) > 0 { // it is owed
			l.Leave(tenant)
			audit(t, l)
		}
	}
	if got := l.Totals(); got.Blocked != 1 || got.Active != 0 {
		t.Errorf("got %+v, want 1 blocked", got)
	}
	l.Charge(0, Chunk)
	l.Charge(1, Chunk)
	l.Charge(2, Chunk)
	audit(t, l)
	for tenant := range uint32(3) {
		l.Leave(tenant)
		l.Join(tenant)
	}
	if got := serve(t, l, 500)[2]; got < 297 || got > 303 {
		t.Errorf("after it tenant 2 got %d of 500, want 300 within 3", got)
	}
}

// Picks that are given back, in any order and with others between them, leave no trace in the lags.
func TestRefund(t *testing.T) {
	t.Parallel()
	s := seed(t)
	for i := range 200 {
		rnd := rand.New(rand.NewPCG(s, uint64(i)))
		l := new(Ledger)
		n := 2 + rnd.IntN(30)
		for tenant, w := range randomWeights(rnd, n) {
			l.SetWeight(uint32(tenant), w)
			l.Join(uint32(tenant))
		}
		for range rnd.IntN(200) {
			serve(t, l, 1)
		}
		l.Block(uint32(rnd.IntN(n)))
		untouched := l.Clone()
		var picked []uint32
		for range 1 + rnd.IntN(100) {
			tenant, _ := l.Pick()
			l.Charge(tenant, Chunk)
			picked = append(picked, tenant)
		}
		rnd.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
		for _, tenant := range picked {
			l.Refund(tenant, Chunk)
		}
		audit(t, l)
		l.counts = untouched.counts
		if !reflect.DeepEqual(l, untouched) {
			t.Fatalf("instance %d: after %d picks and refunds the ledger is another", i, len(picked))
		}
	}
}

// The last chunk of a tenant is given back: it is offered again, and the tenant stands as before.
func TestRefundAfterLeave(t *testing.T) {
	t.Parallel()
	l := joined(1, 2, 3)
	serve(t, l, 7)
	tenant, _ := l.Pick()
	before := l.Lag(tenant)
	l.Charge(tenant, Chunk)
	l.Leave(tenant)
	l.Join(tenant)
	l.Refund(tenant, Chunk)
	if got, ok := l.Pick(); got != tenant || !ok || l.Lag(tenant) != before {
		t.Errorf("picked %d with lag %d, want %d with lag %d", got, l.Lag(got), tenant, before)
	}
	audit(t, l)
}

// Consumer time: a tenant whose chunks take ten times as long gets its share of the time, whether their length is known before or only at
// their ends. A hundred chunks are under way at once.
func TestTime(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		s := seed(t)
		rnd := rand.New(rand.NewPCG(s, 1))
		const tenants, consumers, slots = 10, 100, 20_000
		l := &Ledger{Unit: Second}
		type work struct {
			tenant         uint32
			charged, takes Cost
		}
		var held []work
		var estimate [tenants]Cost
		for tenant := range uint32(tenants) {
			l.Join(tenant)
			estimate[tenant] = Second
		}
		for range slots {
			if len(held) == consumers {
				i := rnd.IntN(len(held))
				w := held[i]
				l.Correct(w.tenant, w.charged, w.takes)
				if known {
					estimate[w.tenant] += (w.takes - estimate[w.tenant]) / 8
					l.Expect(w.tenant, estimate[w.tenant])
				}
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
			tenant, _ := l.Pick()
			takes := Time(time.Second/2 + time.Duration(rnd.Int64N(int64(time.Second))))
			if tenant == 0 {
				takes *= 10
			}
			l.Charge(tenant, estimate[tenant])
			held = append(held, work{tenant, estimate[tenant], takes})
		}
		audit(t, l)
		sum := 0.0
		l.Each(func(i Info) bool { sum += i.Received; return true })
		for tenant := range uint32(tenants) {
			if got, want := l.Info(tenant).Received, sum/tenants; math.Abs(got-want) > 10*consumers {
				t.Errorf("estimates %t, seed %d: tenant %d held %.0f s, want %.0f within %d", known, s, tenant, got, want, 10*consumers)
			}
		}
	}
}

// Two levels: the tenants share, and within a tenant its submissions.
func TestTwoLevels(t *testing.T) {
	t.Parallel()
	tenants := joined(1, 3)
	submissions := []*Ledger{joined(1, 1, 1), joined(1, 5)}
	want := [][]float64{{1. / 12, 1. / 12, 1. / 12}, {1. / 8, 5. / 8}}
	for slot := 1; slot <= 2400; slot++ {
		tenant, _ := tenants.Pick()
		submission, _ := submissions[tenant].Pick()
		tenants.Charge(tenant, Chunk)
		submissions[tenant].Charge(submission, Chunk)
		for i, shares := range want {
			for j, share := range shares {
				if got, want := submissions[i].Info(uint32(j)).Received, share*float64(slot); math.Abs(got-want) > 2 {
					t.Fatalf("after %d picks submission %d of tenant %d has %v, want %.2f within 2", slot, j, i, got, want)
				}
			}
		}
	}
}

// A prompt ledger picks a tenant that joins before those that have been there for long.
func TestPrompt(t *testing.T) {
	t.Parallel()
	for _, prompt := range []bool{false, true} {
		l := joined(equal(50)...)
		l.Prompt = prompt
		serve(t, l, 75)
		l.SetWeight(50, WeightOf(0.5))
		l.Join(50)
		waited := 1
		for serve(t, l, 1)[50] == 0 {
			waited++
		}
		if prompt && waited > 1 || !prompt && waited < 20 {
			t.Errorf("prompt %t: picked as number %d, want the first if prompt, otherwise after 20 others or more", prompt, waited)
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	l := joined(1, 5, 1)
	serve(t, l, 1)
	for tenant := range uint32(3) {
		if tenant == 1 {
			l.Block(tenant)
		}
		l.Forget(tenant)
		if got, want := l.Info(tenant), (Info{Tenant: tenant, Weight: DefaultWeight}); got != want {
			t.Errorf("forgotten: got %+v, want %+v", got, want)
		}
		audit(t, l)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	l := joined(1, 3)
	tenant, _ := l.Pick() // 1: its deadline is first
	l.Charge(tenant, Chunk)
	got := []Info{}
	l.Each(func(i Info) bool { got = append(got, i); return true })
	want := []Info{
		{Tenant: 0, State: Active, Weight: 1000, Share: 0.25, Received: 0, Entitled: 0.25, Lag: 0.25, Next: 3},
		{Tenant: 1, State: Active, Weight: 3000, Share: 0.75, Received: 1, Entitled: 0.75, Lag: -0.25, Next: 5. / 3},
	}
	for i := range want {
		got[i].Next = math.Round(got[i].Next*1e6) / 1e6
		want[i].Next = math.Round(want[i].Next*1e6) / 1e6
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	totals := l.Totals()
	if math.Abs(totals.VirtualTime-0.25) > 1e-9 {
		t.Errorf("virtual time %v, want 0.25", totals.VirtualTime)
	}
	totals.VirtualTime = 0
	if want := (Totals{Active: 2, Weight: 4, Charges: 1, Joins: 2}); totals != want {
		t.Errorf("got %+v, want %+v", totals, want)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for w, want := range map[float64]Weight{1: 1000, 0: 1, -3: 1, 0.0004: 1, 0.0016: 2, 1000: 1e6, 1e9: 1e6, math.Inf(1): 1e6, math.NaN(): 1} {
		if got := WeightOf(w); got != want {
			t.Errorf("WeightOf(%v) = %d, want %d", w, got, want)
		}
	}
	for d, want := range map[time.Duration]Cost{0: 0, -time.Hour: 0, time.Second: Second, 1500 * time.Millisecond: Second * 3 / 2, math.MaxInt64: MaxCost, 100 * 24 * time.Hour: 100 * 86400 * Second} {
		if got := Time(d); got != want {
			t.Errorf("Time(%v) = %d, want %d", d, got, want)
		}
	}
	if got := WeightOf(1); got != DefaultWeight {
		t.Errorf("the default weight is %d, want that of 1, %d", DefaultWeight, got)
	}
}
