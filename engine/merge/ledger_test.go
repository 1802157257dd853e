package merge

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

func named(value int64) backlog.TenantName { return backlog.TenantName{Value: queue.IntValue(value)} }

// A tenant competes as long as one shard has chunks of it to give, is blocked while all shards that have chunks hold them back, and leaves
// when no shard has any.
func TestLedgerJoinsShards(t *testing.T) {
	t.Parallel()
	const shards, tenants = 5, 7
	rnd := rand.New(rand.NewPCG(39, 1))
	x := NewLedger(&strategy.Branch{Fair: "user"})
	var offers, gated [tenants][shards]bool
	for step := range 20_000 {
		at := rnd.IntN(shards)
		fresh := rnd.IntN(50) == 0
		var news []backlog.TenantNews
		for tenant := range tenants {
			if fresh || rnd.IntN(3) == 0 {
				offers[tenant][at] = rnd.IntN(3) == 0
				gated[tenant][at] = !offers[tenant][at] && rnd.IntN(2) == 0
				if one := (backlog.TenantNews{TenantName: named(int64(tenant)), Offers: offers[tenant][at], Gated: gated[tenant][at]}); !fresh ||
					one.Offers || one.Gated {
					news = append(news, one)
				}
			}
		}
		x.Hear(news, at+1, fresh)
		if turn, ok := x.Begin(); ok && rnd.IntN(4) == 0 {
			if x.Fail(&turn) {
				x.Resume(&turn)
			}
		}
		for tenant := range tenants {
			some, held := false, false
			for i := range shards {
				some, held = some || offers[tenant][i], held || gated[tenant][i]
			}
			state := fair.Idle
			if number, known := x.numbers[named(int64(tenant))]; known {
				state = x.Info(number).State
			}
			want := map[bool]fair.State{true: fair.Active, false: fair.Blocked}[some]
			if (some || held) && state != want || !some && !held && state != fair.Idle && state != fair.Owing {
				t.Fatalf("step %d: tenant %d is %v, with something in %v and held back in %v", step, tenant, state, offers[tenant], gated[tenant])
			}
		}
		if lags := x.SumOfLags(); lags != 0 {
			t.Fatalf("step %d: the lags add up to %d", step, lags)
		}
	}
}

// Tenants that have nothing and owe nothing are forgotten, so that memory follows the number of present ones.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	x := NewLedger(&strategy.Branch{Fair: strategy.SubmissionKey})
	for i := range int64(100_000) {
		x.Hear([]backlog.TenantNews{{TenantName: backlog.TenantName{Submission: queue.SubmissionID(i + 1)}, Offers: true}}, 1, false)
		if _, ok := x.Begin(); !ok {
			t.Fatal("no one competes")
		}
		x.Hear([]backlog.TenantNews{{TenantName: backlog.TenantName{Submission: queue.SubmissionID(i + 1)}}}, 1, false)
	}
	if len(x.tenants) > 2*sweepFrom || len(x.numbers) > 2*sweepFrom {
		t.Errorf("%d tenants and %d numbers are kept after all have left", len(x.tenants), len(x.numbers))
	}
}
