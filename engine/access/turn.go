package access

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// How many reads of one token are worked on at the same time, and how many more may wait for that.
const (
	readsAtOnce  = 2
	readsWaiting = 100

	// longestRest bounds how long a place rests: one read that took long must not keep the token out for as long again.
	longestRest = time.Second
)

// Turns share the processor between tokens. The reads of a token, such as lists, are worked on two at a time, and each of the two places
// rests for as long as its read took: a token has no more than the time of one core for its reads, however many clients ask. A client that
// asks for one thing after another never waits.
type Turns struct {
	once    sync.Once
	places  chan time.Duration // from when each place that is not taken may be used
	waiting atomic.Int32
}

// Waiting is how many wait for a place.
func (t *Turns) Waiting() int { return int(t.waiting.Load()) }

// Take waits for a place. It returns false when too many wait, or with the error of ctx. now is counted from any start. What took a place
// has to call leave.
func (t *Turns) Take(ctx context.Context, now func() time.Duration) (leave func(), ok bool, err error) {
	t.once.Do(func() {
		t.places = make(chan time.Duration, readsAtOnce)
		for range readsAtOnce {
			t.places <- 0
		}
	})
	if t.waiting.Add(1) > readsWaiting {
		t.waiting.Add(-1)
		return nil, false, nil
	}
	defer t.waiting.Add(-1)
	var from time.Duration
	select {
	case from = <-t.places: // also for a caller that is gone: that is for the read to notice
	default:
		select {
		case from = <-t.places:
		case <-ctx.Done():
			return nil, true, ctx.Err()
		}
	}
	if rest := min(from-now(), longestRest); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.places <- from
			return nil, true, ctx.Err()
		}
	}
	began := now()
	return func() {
		ended := now()
		t.places <- ended + min(max(0, ended-began), longestRest)
	}, true, nil
}
