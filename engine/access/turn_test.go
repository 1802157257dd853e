package access

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many clients of a token read in a loop, their reads take no more than the time of one core, and another token's reads run as if
// it were alone.
func TestTurnsShareTheProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		began := time.Now()
		now := func() time.Duration { return time.Since(began) }
		var greedy, modest Turns
		var worked [2]time.Duration
		var mu sync.Mutex
		most, at := 0, 0
		ended := make(chan struct{})
		for n := range 51 {
			turns, whose := &greedy, 0
			if n == 50 {
				turns, whose = &modest, 1
			}
			go func() {
				defer func() { ended <- struct{}{} }()
				for ctx.Err() == nil {
					leave, ok, err := turns.Take(ctx, now)
					if err != nil || !ok {
						return
					}
					const work = 10 * time.Millisecond
					enter := func(n int, took time.Duration) {
						mu.Lock()
						defer mu.Unlock()
						if worked[whose] += took; whose == 0 {
							at += n
							most = max(most, at)
						}
					}
					enter(1, 0)
					time.Sleep(work) // by the bubble's clock: the read
					enter(-1, work)
					leave()
				}
			}()
		}
		for range 51 {
			<-ended
		}
		if most != readsAtOnce || worked[0] > 10*time.Second+readsAtOnce*10*time.Millisecond || worked[0] < 9*time.Second {
			t.Errorf("50 clients: %d at once, and %v of work in 10 s; want %d and one core's time", most, worked[0], readsAtOnce)
		}
		if worked[1] < 9*time.Second {
			t.Errorf("another token worked for %v in 10 s", worked[1])
		}
	})
}

// A token whose reads wait has a bounded number of them. One that leaves while it waits gives its place back.
func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leaves := context.WithCancel(t.Context())
		var turns Turns
		now := func() time.Duration { return 0 }
		var held []func()
		for range readsAtOnce {
			leave, ok, err := turns.Take(ctx, now)
			if !ok || err != nil {
				t.Fatalf("got %t %v, want a place", ok, err)
			}
			held = append(held, leave)
		}
		errs := make(chan error)
		for range readsWaiting {
			go func() {
				_, _, err := turns.Take(ctx, now)
				errs <- err
			}()
		}
		synctest.Wait()
		if _, ok, err := turns.Take(ctx, now); ok || err != nil {
			t.Errorf("one more than may wait: got %t %v", ok, err)
		}
		leaves()
		for range readsWaiting {
			if err := <-errs; err == nil {
				t.Error("a client that left got a place")
			}
		}
		for _, leave := range held {
			leave()
		}
		for range readsAtOnce {
			if _, ok, err := turns.Take(t.Context(), now); !ok || err != nil {
				t.Errorf("when all have left: got %t %v, want a place", ok, err)
			}
		}
	})
}
