package shard

import (
	"context"
	"time"
)

// appendPatience is Owner.Patience of a journal on a disk. A passing fault is over by then.
const appendPatience = time.Second

// patience gives the appends of a writer their context. All share one until an append takes too long, as a timer for
// each would cost every commit. Its methods are called with the mutex held.
//
// An append of unknown outcome is tried again until its context ends, and all callers in its batch wait. After
// Owner.Patience it ends with ErrUnknown, and the shard reloads. With more patience callers would time out first. With
// less, a journal that is slow for a moment would cost a reload, and one that is always slow would never finish an
// append.
type patience struct {
	ctx    context.Context
	giveUp context.CancelFunc
	since  time.Time // when the append under way was begun
	closed bool      // the remaining appends get a context that has ended
}

// begin is the context of an append that begins now.
func (p *patience) begin(now time.Time) context.Context {
	if p.ctx == nil || p.ctx.Err() != nil && !p.closed {
		p.ctx, p.giveUp = context.WithCancel(context.Background())
	}
	p.since = now
	return p.ctx
}

// impatient ends an append that has taken too long. The mutex is held.
func (p *writer) impatient() {
	if p.inflight != nil && p.options.Now().Sub(p.patience.since) > p.options.Owner.Patience {
		p.patience.giveUp()
	}
}

// healed makes the writer try a failed reload again, and waits for it.
func (p *writer) healed() {
	done := make(chan struct{})
	select {
	case p.heal <- done:
		<-done
	case <-p.ended:
	}
}

// finish waits until every pending append has succeeded or failed.
func (p *writer) finish() {
	late := time.AfterFunc(p.options.Owner.Patience, func() {
		p.mu.held(func() {
			if p.patience.closed = true; p.patience.giveUp != nil {
				p.patience.giveUp()
			}
		})
	})
	defer late.Stop()
	<-p.ended
}
