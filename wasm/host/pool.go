package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrStarting is the error of a batch for which no sandbox was ready in time. That is not the guest's fault: the start
// goes on, and a later batch finds it done.
var ErrStarting = errors.New("host: the sandbox is still being started")

// pool hands out instances, each to one user at a time, at most max of them. A list under a mutex costs some ten nanoseconds, which is
// nothing beside a batch. Waiting batches are served in the order of their coming. No batch starts an instance itself: a start may
// take a hundred times as long as a batch, so it runs beside, and a batch that waits for it gives up before long.
type pool struct {
	mu       sync.Mutex
	free     []*instance // the one that was used last is at the end
	live     int         // free, in use, or being started
	starting int
	max      int
	evicted  time.Duration // when the instance that was evicted last was used
	waiters  []chan handed
	start    func() // begins a start, which ends with started or failed; called without mu
}

// handed is the answer to one that waits: an instance, or why there is none.
type handed struct {
	instance *instance
	err      error
}

// get gives a free instance, or waits for one until ctx ends. If all instances are still being started it waits for no longer than
// patience; 0: as long as it takes.
func (p *pool) get(ctx context.Context, patience time.Duration) (*instance, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return i, nil
	}
	turn := make(chan handed, 1)
	p.waiters = append(p.waiters, turn)
	more := p.live < p.max
	p.count(more)
	p.mu.Unlock()
	if more {
		p.start()
	}
	return p.wait(ctx, turn, patience)
}

// count counts an instance that is about to be started, if one is. mu is held.
func (p *pool) count(more bool) {
	if more {
		p.live++
		p.starting++
	}
}

func (p *pool) wait(ctx context.Context, turn chan handed, patience time.Duration) (*instance, error) {
	var late <-chan time.Time // never
	if patience > 0 {
		ticker := time.NewTicker(patience)
		defer ticker.Stop()
		late = ticker.C
	}
	for {
		select {
		case got := <-turn:
			return got.instance, got.err
		case <-ctx.Done():
			p.giveUp(turn)
			return nil, ctx.Err()
		case <-late:
			if !p.running() {
				p.giveUp(turn)
				return nil, ErrStarting
			}
		}
	}
}

// running says whether an instance is in use, which ends soon.
func (p *pool) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live-p.starting-len(p.free) > 0
}

// giveUp leaves the queue; an instance that was handed over meanwhile goes to the next.
func (p *pool) giveUp(turn chan handed) {
	p.mu.Lock()
	at := slices.Index(p.waiters, turn)
	if at >= 0 {
		p.waiters = slices.Delete(p.waiters, at, at+1)
	}
	p.mu.Unlock()
	if at >= 0 {
		return
	}
	if got := <-turn; got.instance != nil {
		p.put(got.instance)
	}
}

// put takes an instance back.
func (p *pool) put(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hand(handed{instance: i}) {
		p.free = append(p.free, i)
	}
}

// drop says that an instance that was in use is gone. Another is started if a waiting batch has none on its way, or if one must be
// ready for the next batch.
func (p *pool) drop(replace bool) {
	p.mu.Lock()
	p.live--
	more := p.live < p.max && (len(p.waiters) > p.starting || replace && p.starting+len(p.free) == 0)
	p.count(more)
	p.mu.Unlock()
	if more {
		p.start()
	}
}

// started takes the instance that a start made.
func (p *pool) started(i *instance) {
	p.mu.Lock()
	p.starting--
	p.mu.Unlock()
	p.put(i)
}

// failed says that a start made none. The first waiting caller gets the error. If no other instance is to come, the others go on
// without one.
func (p *pool) failed(err error) (reported bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	p.live--
	reported = p.hand(handed{err: err})
	for p.live == 0 && p.hand(handed{err: ErrStarting}) {
	}
	return reported
}

func (p *pool) hand(h handed) bool {
	if len(p.waiters) == 0 {
		return false
	}
	p.waiters[0] <- h // has room for one, and gets one
	p.waiters = slices.Delete(p.waiters, 0, 1)
	return true
}

// idleSince is when the free instance was last used that was used longest ago, or when there are none, when the last one was.
func (p *pool) idleSince() (since time.Duration, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return p.evicted, p.live == 0
	}
	return p.free[0].idle, true
}

// evict takes that one out; nil if it is not free any more.
func (p *pool) evict() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	i := p.free[0]
	p.free = slices.Delete(p.free, 0, 1)
	p.live--
	p.evicted = i.idle
	return i
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}
