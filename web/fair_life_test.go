package web

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// 10. A restart forgets which tenants were ahead: all start even. After a kill the held chunks are handed out again,
// and a completion with an old token counts, once.
func TestFairRestart(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const chunks = 30
	weights := tenants(50)
	for i := range 50 {
		s.submit(fmt.Sprint("t", i), chunks)
		if i%10 == 9 { // those who come later have had less
			s.complete(s.take(byTenant, 40, 8)...)
		}
	}
	held := s.take(byTenant, 60, 20)
	before := s.stats()
	s.kill()
	old := held[0]
	if got := s.finish(old, old); got[0] != api.StatusOK || got[1] != api.StatusAlready {
		t.Errorf("completing twice with a token of before the restart: %v, want ok, then already", got)
	}
	list := s.take(byTenant, 500, 25)
	alike(t, list, 2, weights)
	for name, got := range counts(list) {
		if got < 8 || got > 12 {
			t.Errorf("%s has %d of the 500 chunks after the restart, want 10 within 2", name, got)
		}
	}
	rest := int(before.Ready+before.Reserved) - 1 - len(list)
	list = append(list, s.take(byTenant, rest, 100)...)
	again := map[string]int{}
	for i := range list {
		again[chunk(&list[i])]++
	}
	for i, r := range held {
		if want := min(i, 1); again[chunk(&r)] != want {
			t.Errorf("chunk %s was held at the restart and handed out %d times after it, want %d", chunk(&r), again[chunk(&r)], want)
		}
	}
	for c, n := range again {
		if n != 1 {
			t.Errorf("chunk %s was handed out %d times after the restart", c, n)
		}
	}
	if got := s.one(byTenant); len(got.Reservations) != 0 {
		t.Errorf("all were handed out, and yet there is %+v", got.Reservations[0])
	}
}

// one reserves one chunk, or none.
func (s *shop) one(strategy string) (got api.ReserveResponse) {
	s.Helper()
	s.must("POST", reservePath, request(strategy, 1), &got)
	return got
}

// 11. A tenant whose chunks always fail, until each has been retried five times, uses up its own turns and no other tenant's.
func TestFairFailures(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.retryAtOnce()
	weights := tenants(5)
	for name := range weights {
		s.submit(name, 1000)
	}
	var list []api.Reservation
	most := uint32(0)
	for range 500 {
		r := s.take(byTenant, 1, 1)
		if list = append(list, r...); tenant(&r[0]) == "t0" && r[0].Attempt <= 5 {
			s.fail(false, r...)
		} else {
			s.complete(r...)
		}
		most = max(most, r[0].Attempt)
	}
	alike(t, list, 1, weights)
	if most != 6 {
		t.Errorf("the failing chunks were tried %d times, want 6", most)
	}
}

// 12. A deadline that passed has used its turn: nothing is paid back for it, and no chunk is lost.
func TestFairExpiries(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.retryAtOnce()
	s.submit("a", 250)
	s.submit("b", 1000)
	short := request(byTenant, 200)
	short.TimeoutMS = 60_000
	var late api.ReserveResponse
	s.must("POST", reservePath, short, &late)
	if got := counts(late.Reservations)["a"]; got != 100 {
		t.Fatalf("a has %d of 200 chunks, want 100", got)
	}
	var done []api.Reservation
	for _, r := range late.Reservations {
		if tenant(&r) == "b" {
			done = append(done, r)
		}
	}
	s.complete(done...)
	s.ahead.Add(int64(2 * time.Minute))
	for now := s.stats(); now.ExpiredTotal < 100 || now.Reserved > 0; now = s.stats() { // they are back once that is committed
		runtime.Gosched()
	}
	list := s.take(byTenant, 200, 20)
	alike(t, list, 1, map[string]float64{"a": 1, "b": 1})
	list = append(list, s.take(byTenant, 300, 50)...)
	seen := map[string]bool{}
	for i := range list {
		if tenant(&list[i]) == "a" {
			seen[chunk(&list[i])] = true
		}
	}
	if len(seen) != 250 || counts(list)["a"] != 250 {
		t.Errorf("of a's 250 chunks %d were handed out, %d times, after the deadlines; want each once", len(seen), counts(list)["a"])
	}
}

// 13. However many ask at once, nothing is given twice, and all have their shares.
//
//quern:overlapping
func TestFairCrowd(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name := range tenants(30) {
		s.submit(name, 10_000)
	}
	const consumers, calls, each = 100, 3, 50
	var group sync.WaitGroup
	lists := make([][]api.Reservation, consumers)
	for i := range consumers {
		group.Go(func() {
			for range calls {
				var got api.ReserveResponse
				if err := s.ask(t.Context(), "POST", reservePath, request(byTenant, each), &got); err != nil {
					t.Error(err)
					return
				}
				lists[i] = append(lists[i], got.Reservations...)
			}
		})
	}
	group.Wait()
	seen, got := map[string]bool{}, map[string]int{}
	for _, list := range lists {
		for i := range list {
			if seen[chunk(&list[i])] {
				t.Fatalf("chunk %s was given twice", chunk(&list[i]))
			}
			seen[chunk(&list[i])] = true
			got[tenant(&list[i])]++
		}
	}
	for name := range tenants(30) {
		if want := float64(consumers * calls * each / 30); math.Abs(float64(got[name])-want) > 2 {
			t.Errorf("%s has %d chunks, want %v within 2", name, got[name], want)
		}
	}
}

// 14. Under OrElse each side is fair in itself, the first goes first, and nothing is left while a consumer asks.
func TestFairUnderOrElse(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	weights := tenants(3)
	var got api.Submission
	for i := range 3 {
		s.must("POST", insertPath, submission(uint32(30*(i+1)), "t", fmt.Sprint("t", i), "mode", "preview"), &got)
		s.must("POST", insertPath, submission(100, "t", fmt.Sprint("t", i), "mode", "bulk"), &got)
	}
	list := s.take(`OrElse(SelectOnly("mode", "preview", Fair("t", Random)), Fair("t", Random))`, 480, 7)
	for i := range list {
		if preview := list[i].Meta["mode"] == api.Text("preview"); preview != (i < 180) {
			t.Fatalf("chunk %d of 480 is preview: %v; the 180 previews come first", i, preview)
		}
	}
	alike(t, list[:90], 1, weights)
	alike(t, list[90:150], 1.5, map[string]float64{"t0": 0, "t1": 1, "t2": 1})
	alike(t, list[180:], 1, weights)
	if got := s.one("Random"); len(got.Reservations) != 0 {
		t.Errorf("all was handed out, and yet there is %+v", got.Reservations[0])
	}
}
