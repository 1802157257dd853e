package host

import (
	"context"
	"slices"
	"sync"
)

// pool hands out instances, each to one user at a time, at most max of them. A list under a mutex costs some ten nanoseconds,
// which is nothing beside a batch. Those who wait are served in the order of their coming.
type pool struct {
	mu      sync.Mutex
	free    []*instance
	live    int // free, in use, or being started
	max     int
	waiters []chan *instance // each gets an instance, or nil: the leave to start one
	start   func(context.Context) (*instance, error)
}

// get gives a free instance, a new one while there are fewer than max, or waits for one until ctx ends.
func (p *pool) get(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return i, nil
	}
	if p.live < p.max {
		p.live++
		p.mu.Unlock()
		return p.started(ctx)
	}
	turn := make(chan *instance, 1)
	p.waiters = append(p.waiters, turn)
	p.mu.Unlock()
	select {
	case i := <-turn:
		if i != nil {
			return i, nil
		}
		return p.started(ctx)
	case <-ctx.Done():
		p.giveUp(turn)
		return nil, ctx.Err()
	}
}

func (p *pool) started(ctx context.Context) (*instance, error) {
	i, err := p.start(ctx)
	if err != nil {
		p.drop()
		return nil, err
	}
	return i, nil
}

// giveUp leaves the queue; what was handed over meanwhile goes to the next.
func (p *pool) giveUp(turn chan *instance) {
	p.mu.Lock()
	at := slices.Index(p.waiters, turn)
	if at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
	}
	p.mu.Unlock()
	if at >= 0 {
		return
	}
	if i := <-turn; i != nil {
		p.put(i)
	} else {
		p.drop()
	}
}

// put takes an instance back.
func (p *pool) put(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hand(i) {
		p.free = append(p.free, i)
	}
}

// drop says that an instance is gone, and lets one who waits start another.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hand(nil) {
		p.live--
	}
}

func (p *pool) hand(i *instance) bool {
	if len(p.waiters) == 0 {
		return false
	}
	p.waiters[0] <- i // has room for one, and gets one
	p.waiters = slices.Delete(p.waiters, 0, 1)
	return true
}

func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}
