package plugins

import (
	"context"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// turns have one module checked at a time, as a check takes a core for seconds. Some callers wait for their turn; further ones are refused.
type turns struct {
	most    int // that wait
	taken   chan struct{}
	waiting atomic.Int32
}

func newTurns(most int) *turns { return &turns{most: most, taken: make(chan struct{}, 1)} }

// take waits until no other module is checked. After nil comes give.
func (t *turns) take(ctx context.Context) error {
	defer t.waiting.Add(-1)
	if int(t.waiting.Add(1)) > t.most {
		return &queue.Error{Code: queue.CodeOverloaded, Message: "Other plugins are being checked; send this one again in a moment."}
	}
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) give() { <-t.taken }
