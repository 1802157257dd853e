package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// network is one party's way to another one: calls on it are slow, and some are lost, are made twice, or come when no one waits for them
// any more.
type network struct {
	mu    sync.Mutex
	r     *rand.Rand
	gate  func()          // where the calling party may stand still; nil: it never does
	calm  <-chan struct{} // closed when faults are over: all is fast, and messages under way arrive
	dead  <-chan struct{} // closed when the party was killed
	cut   bool            // nothing gets through
	tries time.Duration   // how long a call waits for its answer
	note  func(what string)
}

// fate is the outcome of one call.
type fate struct {
	before, after, again          time.Duration
	lost, unanswered, twice, late bool
}

// draw gives each call a time of its own, to the nanosecond, so that no two things happen at once.
func (n *network) draw() (f fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := func(most time.Duration) time.Duration { return time.Duration(n.r.Int64N(int64(most))) }
	f.before, f.after = 50*time.Microsecond+some(2*time.Millisecond), 50*time.Microsecond+some(2*time.Millisecond)
	rare := func() bool { return n.r.IntN(60) == 0 }
	lost, unanswered, twice, late, slow := rare(), rare(), rare(), rare(), rare()
	again, much, less := some(20*time.Second), some(15*time.Second), some(time.Second)
	if closed(n.calm) {
		return f
	}
	f.lost, f.unanswered = lost || n.cut, unanswered || n.cut
	switch {
	case late:
		f.before, f.late = much, true
	case slow:
		f.after = less
	}
	if twice {
		f.twice, f.again = true, again
	}
	for what, is := range map[string]bool{"lost": f.lost, "unanswered": f.unanswered, "twice": f.twice, "late": f.late} {
		if is && n.note != nil {
			n.note("call " + what)
		}
	}
	return f
}

func (n *network) setCut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

// travel takes a message to its other end.
func (n *network) travel(d time.Duration, lost bool) (arrives bool) {
	wait(n.calm, d)
	return !lost
}

// send makes a call. It ends with silent when no answer came.
func send[T any](ctx context.Context, n *network, silent error, do func() (T, error)) (got T, err error) {
	if n.gate != nil {
		n.gate()
		defer n.gate()
	}
	if closed(n.dead) {
		return got, errKilled
	}
	type answer struct {
		got T
		err error
	}
	f, back := n.draw(), make(chan answer, 1)
	go func() {
		if !n.travel(f.before, f.lost) {
			return
		}
		got, err := do()
		if f.twice {
			go func() {
				n.travel(f.again, false)
				_, _ = do()
			}()
		}
		if n.travel(f.after, f.unanswered) {
			back <- answer{got, err}
		}
	}()
	timer := time.NewTimer(n.tries)
	defer timer.Stop()
	select {
	case a := <-back:
		return a.got, a.err
	case <-ctx.Done():
		return got, fmt.Errorf("%w: %w", silent, ctx.Err())
	case <-n.dead:
		return got, errKilled
	case <-timer.C:
		return got, silent
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wait lets time pass, until a channel is closed.
func wait(until <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
		time.Sleep(d % time.Millisecond) // goroutines that wake each other go on one after the other, so that a seed plays alike each time
	}
}
