package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// served is one chunk that was handed out. Its number is in the token: the server numbers reservations in their order.
type served struct {
	sequence uint64
	tenant   int
}

// 15. Zipf backlogs, drained by 16 consumers at once: no tenant is ever more than two chunks from the ideal, and at every 1 % Jain's index
// of received/ideal is at least 0.999. Whole chunks cost something of that index: of those who should have 1.5 some have 1 and some
// 2, so it is taken over the tenants that should have at least 16 by then. `quern-bench fair` does the same with 10^4 tenants and
// 10^6 chunks, without HTTP.
//
//quern:overlapping
func TestFairZipf(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const tenantCount, consumers, batch = 500, 16, 200
	backlogs, total := zipf(tenantCount, 100*tenantCount)
	var group sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < tenantCount; i = int(next.Add(1)) - 1 {
				var got api.Submission
				if err := s.ask(t.Context(), "POST", insertPath, submission(uint32(backlogs[i]), "t", fmt.Sprint(i)), &got); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	lists := make([][]served, consumers)
	for i := range consumers {
		group.Go(func() {
			var err error
			if lists[i], err = s.drain(t.Context(), byTenant, batch); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(x, y served) int { return cmp.Compare(x.sequence, y.sequence) })
	if len(all) != total {
		t.Fatalf("%d chunks were handed out, want %d", len(all), total)
	}
	checkShares(t, all, backlogs)
}

// zipf are backlogs of about `chunks` in all, in no order of size.
func zipf(tenants, chunks int) (backlogs []int, total int) {
	sum := 0.0
	for rank := 1; rank <= tenants; rank++ {
		sum += math.Pow(float64(rank), -1.1)
	}
	for _, at := range rand.New(rand.NewPCG(1, 2)).Perm(tenants) {
		n := int(math.Ceil(float64(chunks) * math.Pow(float64(at+1), -1.1) / sum))
		backlogs, total = append(backlogs, n), total+n
	}
	return backlogs, total
}

// drain is a consumer that completes what it has and takes the next in one call, until there is nothing.
func (s *shop) drain(ctx context.Context, strategy string, batch int) (list []served, err error) {
	ask := request(strategy, batch)
	exchange := api.ExchangeRequest{Reserve: &ask}
	for {
		var got api.ExchangeResponse
		if err := s.ask(ctx, "POST", reservePath+"/exchange", exchange, &got); err != nil {
			return list, err
		}
		for i := range got.Complete {
			if got.Complete[i].Status != api.StatusOK {
				return list, fmt.Errorf("completing: %+v", got.Complete[i])
			}
		}
		if len(got.Reservations) == 0 {
			return list, nil
		}
		exchange.Complete = exchange.Complete[:0]
		for i := range got.Reservations {
			r := &got.Reservations[i]
			token, ok := queue.ParseToken([]byte(r.Token))
			if !ok {
				return list, fmt.Errorf("%q is no token", r.Token)
			}
			one := served{sequence: token.Sequence}
			if _, err := fmt.Sscan(tenant(r), &one.tenant); err != nil {
				return list, err
			}
			list = append(list, one)
			exchange.Complete = append(exchange.Complete, api.CompleteItem{Token: r.Token})
		}
	}
}

// checkShares compares the chunks that were handed out with the ideal of equal weights that all began at once: by the
// k-th chunk each has its backlog or the level, whichever is less, where the level is such that these are k in all.
func checkShares(t *testing.T, all []served, backlogs []int) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(backlogs))
	gone, drained := 0, 0 // tenants whose backlog is below the level, and their chunks
	received := make([]float64, len(backlogs))
	least, worst := 1.0, 0.0
	for k, one := range all {
		received[one.tenant]++
		level := float64(k+1-drained) / float64(len(sorted)-gone)
		for gone < len(sorted)-1 && float64(sorted[gone]) < level {
			drained += sorted[gone]
			gone++
			level = float64(k+1-drained) / float64(len(sorted)-gone)
		}
		worst = max(worst, math.Abs(min(float64(backlogs[one.tenant]), level)-received[one.tenant]))
		if (k+1)%(len(all)/100) != 0 {
			continue
		}
		var sum, squares, n float64
		for i := range received {
			ideal := min(float64(backlogs[i]), level)
			worst = max(worst, math.Abs(ideal-received[i]))
			if ideal >= 16 {
				ratio := received[i] / ideal
				sum, squares, n = sum+ratio, squares+ratio*ratio, n+1
			}
		}
		if n > 0 {
			least = min(least, sum*sum/(n*squares))
		}
	}
	t.Logf("largest lag %.3f chunks, least Jain index %.6f", worst, least)
	if worst > 2 {
		t.Errorf("the largest lag is %.3f chunks, want at most 2", worst)
	}
	if least < 0.999 {
		t.Errorf("the least Jain index at a 1 %% checkpoint is %.6f, want at least 0.999", least)
	}
}
