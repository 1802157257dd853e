package backlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

func fairly(key string, order strategy.Order, limits ...strategy.Limit) strategy.Branch {
	return strategy.Branch{Fair: key, Inner: []strategy.Branch{{Order: order, Limits: limits}}}
}

// tenants is a backlog in which submissions have a company.
type tenants struct {
	*testing.T
	b    *Backlog
	rnd  *rand.Rand
	next uint32
}

func newTenants(t *testing.T) *tenants {
	return &tenants{t, New(), rand.New(rand.NewPCG(1, 60)), 1}
}

func (x *tenants) submit(company int64, chunks uint32) *Submission {
	spec := Spec{Seq: x.next, ID: queue.SubmissionID(x.next), Chunks: chunks, Meta: queue.Meta{{Key: "company", Value: queue.IntValue(company)}, {Key: "site", Value: queue.IntValue(company % 2)}}}
	if company < 0 {
		spec.Meta = nil
	}
	spec.Key = OrderKey(chunks, uint64(x.next))
	x.next++
	s := x.b.Insert(spec)
	x.b.Show(s)
	return s
}

// take takes a chunk and says whose; -1 has no company.
func (x *tenants) take(v *View) (company int64, s *Submission, index uint32) {
	x.Helper()
	s, index, ok := x.b.Take(v, x.rnd)
	if !ok {
		x.Fatalf("%s found nothing", v.key)
	}
	company = -1
	if value, has := s.Meta().Find("company"); has {
		company = value.Int()
	}
	return company, s, index
}

// Tenants with 10 and with 1,000,000 chunks, and those without a company as one more, are served alike at every moment.
func TestFairWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	for _, order := range []strategy.Order{strategy.OldestFirst, strategy.Random} {
		x := newTenants(t)
		for range 20 {
			x.submit(1, 50_000)
		}
		x.submit(2, 1000)
		x.submit(-1, 500)
		x.submit(-1, 500)
		v := finished(x.b, fairly("company", order))
		got := map[int64]int{}
		for i := 1; i <= 1500; i++ {
			company, s, _ := x.take(v)
			x.b.Land(s)
			got[company]++
			for _, company := range []int64{1, 2, -1} {
				if 3*got[company] < i-3 || 3*got[company] > i+3 {
					t.Fatalf("%v: after %d takes %d are of company %d, want a third within 1", order, i, got[company], company)
				}
			}
		}
	}
}

// A tenant that comes late, or comes back, shares from then on and gets nothing for the time it was away. Others get
// the share that it cannot use.
func TestFairLateTenantDoesNotHoard(t *testing.T) {
	t.Parallel()
	x := newTenants(t)
	x.submit(1, 100_000)
	x.submit(2, 100_000)
	v := finished(x.b, fairly("company", strategy.OldestFirst))
	for range 10_000 {
		_, s, _ := x.take(v)
		x.b.Land(s)
	}
	late := x.submit(3, 100_000)
	for round := range 3 {
		got := map[int64]int{}
		for i := 1; i <= 900; i++ {
			company, s, _ := x.take(v)
			x.b.Land(s)
			got[company]++
			if 3*got[3] < i-6 || 3*got[3] > i+6 {
				t.Fatalf("round %d: of %d takes %d are of the one that came late, want a third within 2", round, i, got[3])
			}
		}
		x.b.Hide(late)
		for range 500 {
			if company, _, _ := x.take(v); company == 3 {
				t.Fatal("a hidden submission was taken from")
			}
		}
		x.b.Show(late)
	}
}

// A tenant at its limit is passed over, gets nothing for it when it may again, and never has more in flight.
func TestFairUnderLimits(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"company", "site"} {
		x := newTenants(t)
		for company := range int64(4) {
			x.submit(company, 100_000)
		}
		v := finished(x.b, fairly("company", strategy.OldestFirst, strategy.Limit{Key: key, Max: 2}))
		var stuck []*Submission // company 0 never finishes
		for range 3000 {
			company, s, _ := x.take(v)
			if n := x.b.Values.Counts(key, queue.IntValue(0))[strategy.Simultaneous]; n > 2 {
				t.Fatalf("%s: %d in flight, want at most 2", key, n)
			}
			if company == 0 {
				stuck = append(stuck, s)
			} else {
				x.b.Land(s)
			}
		}
		if len(stuck) != 2 {
			t.Fatalf("%s: company 0 got %d chunks, want 2", key, len(stuck))
		}
		for _, s := range stuck {
			x.b.Land(s)
		}
		got := map[int64]int{}
		for i := 1; i <= 400; i++ {
			company, s, _ := x.take(v)
			x.b.Land(s)
			got[company]++
			if 4*got[0] > i+12 {
				t.Fatalf("%s: of %d takes after it was blocked %d are of company 0, want a quarter within 3", key, i, got[0])
			}
		}
		if got[0] < 97 {
			t.Errorf("%s: company 0 got %d of 400, want 100 within 3", key, got[0])
		}
	}
}

// A chunk that is given back unworked costs its tenant nothing; one that was worked on does. The ledger of a dropped
// view is gone, and so are the charges in it.
func TestFairRefund(t *testing.T) {
	t.Parallel()
	for _, refund := range []bool{true, false} {
		x := newTenants(t)
		for company := range int64(3) {
			x.submit(company, 10_000)
		}
		br := fairly("company", strategy.OldestFirst)
		v := finished(x.b, br)
		worked := map[int64]int{}
		for range 3000 {
			company, s, index := x.take(v)
			x.b.Land(s)
			if company == 0 && x.rnd.IntN(2) == 0 {
				x.b.PutBack(s, index)
				if refund {
					x.b.Ledgers.Refund(s, v.Charged())
				}
				continue
			}
			worked[company]++
		}
		if refund && worked[0] < worked[1]-2 || !refund && worked[0] > worked[1]*2/3 {
			t.Errorf("refund %v: company 0 worked on %d chunks, company 1 on %d", refund, worked[0], worked[1])
		}
		_, s, _ := x.take(v)
		old := v.Charged()
		x.b.Views.Drop(0)
		again := finished(x.b, br)
		if x.b.Ledgers.Refund(s, old); again.fair.name == old.Ledger || again.fair.root.shares[0].Totals().Refunds != 0 {
			t.Errorf("the new view's ledger has the name %d, the dropped one %d; %d refunds, want 0", again.fair.name, old.Ledger, again.fair.root.shares[0].Totals().Refunds)
		}
	}
}

// Tenants that come, are served and go forever: numbers are used again, gates too.
func TestFairNumbersStayDense(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"company", "$submission"} {
		x := newTenants(t)
		x.submit(0, 1_000_000)
		v := finished(x.b, fairly(key, strategy.OldestFirst, strategy.Limit{Key: "site", Max: 1_000_000}))
		var alive []*Submission
		for company := range int64(20_000) {
			if alive = append(alive, x.submit(1+company, 3)); len(alive) > 50 {
				x.b.Remove(alive[0])
				alive = alive[1:]
			}
			for range 4 {
				_, s, _ := x.take(v)
				x.b.Land(s)
			}
		}
		if leaf := v.fair.leaves[0]; len(leaf.groups) > 300 || len(leaf.gates) > 900 || len(leaf.gateOf) > 600 || len(v.fair.root.shares[0].tenants) > 300 {
			t.Errorf("%s: %d groups and %d gates for 50 tenants at once", key, len(leaf.groups), len(leaf.gates))
		}
	}
}

// 64 ledgers and not one more, whatever the way to the 65th; a view that was not used for long makes room, one that is waited
// on does not.
func TestFairLedgersAreBounded(t *testing.T) {
	t.Parallel()
	x := newTenants(t)
	plan := func(i int) *strategy.Plan {
		s, err := strategy.Parse(fmt.Sprintf(`OrElse(SelectOnly("company", %d, Fair("site", Random)), Random)`, i))
		if err != nil {
			t.Fatal(err)
		}
		return s.Plan()
	}
	for i := range MaxLedgers {
		if err := x.b.Views.Admit(plan(i)); err != nil {
			t.Fatalf("ledger %d: %v", i, err)
		}
	}
	var refused *queue.Error
	for _, i := range []int{MaxLedgers, MaxLedgers + 1} {
		if err := x.b.Views.Admit(plan(i)); !errors.As(err, &refused) || refused.Code != queue.CodeConflict {
			t.Fatalf("ledger %d: got %v, want a conflict", i, err)
		}
	}
	if err := x.b.Views.Admit(plan(3)); err != nil {
		t.Errorf("a plan whose ledger exists: %v", err)
	}
	first := x.b.Views.Of(&plan(0).Branches[0])
	first.Watch = true
	second := x.b.Views.Of(&plan(1).Branches[0])
	for i := 2; i < MaxLedgers; i++ {
		x.b.Views.Of(&plan(i).Branches[0])
	}
	x.b.Views.uses += idleUses
	if err := x.b.Views.Admit(plan(MaxLedgers)); err != nil || first.state == dropped || second.state != dropped {
		t.Errorf("after long: %v; the view that is waited on is dropped: %v, the least recently used other: %v", err, first.state == dropped, second.state == dropped)
	}
}

// The number of submissions that a fair take examines does not grow with tenants, with blocked tenants, or with the
// submissions before theirs.
func TestFairExamined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		br   strategy.Branch
		most float64
	}{
		{fairly("company", strategy.OldestFirst), 1}, {fairly("company", strategy.Random), 3}, {fairly("$submission", strategy.Random), 3},
		{fairly("company", strategy.OldestFirst, strategy.Limit{Key: "company", Max: 1}), 1},
		{fairly("company", strategy.CustomPriority, strategy.Limit{Key: "company", Max: 2}, strategy.Limit{Key: "kind", Max: 1000}), 2},
	} {
		for _, size := range []int{2_000, 20_000} {
			b := filled(size, 10)
			x := &cycle{b: b, v: finished(b, c.br), rnd: rand.New(rand.NewPCG(1, 61)), hold: 8}
			before := b.Examined()
			const takes = 4000
			for range takes {
				if !x.once() {
					t.Fatalf("%s among %d found nothing", c.br.Key(), size)
				}
			}
			if got := float64(b.Examined()-before) / takes; got > c.most {
				t.Errorf("%s: %.2f submissions examined per take among %d, want at most %v", c.br.Key(), got, size, c.most)
			}
			if sum := x.v.fair.root.shares[0].SumOfLags(); sum != 0 {
				t.Errorf("%s: the sum of lags is %v chunks, want 0", c.br.Key(), sum.In(fair.Chunk))
			}
		}
	}
}
