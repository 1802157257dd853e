package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// A thousand consumers fight for values of which two chunks at a time may be in flight. No value ever has more: neither
// by the chunks that consumers certainly hold, from the answer of the reserve until they send the complete, nor by the
// server's numbers at any moment. And every chunk is done, once.
//
//quern:overlapping
func TestLimitRace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const consumers, values, each, limit = 1000, 40, 60, 2
	for i := range values {
		s.submit(fmt.Sprint(i), each)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &limitRace{shop: s, values: map[string]*atomic.Int32{}, left: values * each, ended: cancel}
	for i := range values {
		r.values[fmt.Sprint(i)] = new(atomic.Int32)
	}
	strategies := []string{
		`MaxSimultaneous("t", 2, Random)`, `MaxSimultaneous("t", 2, OldestFirst)`, `MaxSimultaneous("t", 2, PreferDistinct("t", 1, NewestFirst))`,
		`Fair("t", MaxSimultaneous("t", 2, Random))`, `OrElse(SelectOnly("t", "7", MaxSimultaneous("t", 2, Random)), MaxSimultaneous("t", 1, Random))`,
	}
	var group sync.WaitGroup
	for i := range consumers {
		group.Go(func() { r.consume(ctx, strategies[i%len(strategies)], 1+i%3) })
	}
	polls, seen := 0, uint64(0)
	for ctx.Err() == nil {
		var page api.Page[api.ValueCount]
		if err := s.ask(ctx, "GET", "/v1/queues/default/meta-keys/t/values?limit=1000", nil, &page); err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			break
		}
		for i := range page.Items {
			if seen = max(seen, page.Items[i].InFlight); page.Items[i].InFlight > limit {
				t.Errorf("the server says %+v, want at most %d in flight", page.Items[i], limit)
			}
		}
		polls++
	}
	group.Wait()
	if r.most.Load() != limit || seen != limit || polls == 0 {
		t.Errorf("at most %d in flight of a value by the consumers, %d by %d looks at the server, want %d: it was no race", r.most.Load(), seen, polls, limit)
	}
	if got := s.stats(); r.left != 0 || got.DoneTotal != values*each || got.Reserved != 0 {
		t.Errorf("%d chunks are left, the server says %+v, want all %d done", r.left, got, values*each)
	}
}

// limitRace is the common knowledge of the consumers.
type limitRace struct {
	*shop
	values map[string]*atomic.Int32 // chunks that consumers certainly hold
	most   atomic.Int32
	mu     sync.Mutex
	left   int
	ended  func()
}

func (r *limitRace) consume(ctx context.Context, strategy string, batch int) {
	ask := request(strategy, batch)
	ask.WaitMS = 30_000
	for {
		var got api.ReserveResponse
		if err := r.ask(ctx, "POST", reservePath, ask, &got); err != nil {
			if !errors.Is(err, context.Canceled) {
				r.Error(err)
			}
			return
		}
		var body api.CompleteRequest
		for i := range got.Reservations {
			n := r.values[tenant(&got.Reservations[i])].Add(1)
			for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
			}
			if n > 2 {
				r.Errorf("%d consumers hold a chunk of value %s", n, tenant(&got.Reservations[i]))
			}
			body.Items = append(body.Items, api.CompleteItem{Token: got.Reservations[i].Token})
		}
		if !r.finishAll(got.Reservations, &body) {
			return
		}
	}
}

// finishAll completes the chunks that a consumer holds, and says whether to go on. The consumer that completes the last
// chunk ends the race.
func (r *limitRace) finishAll(held []api.Reservation, body *api.CompleteRequest) bool {
	if len(held) == 0 {
		return true
	}
	for i := range held {
		r.values[tenant(&held[i])].Add(-1)
	}
	var results api.ResultsResponse
	if err := r.ask(context.Background(), "POST", reservePath+"/complete", body, &results); err != nil {
		r.Error(err)
		return false
	}
	for i := range results.Results {
		if results.Results[i].Status != api.StatusOK {
			r.Errorf("completing: %+v", results.Results[i])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left -= len(held); r.left <= 0 {
		r.ended()
	}
	return true
}
