package plugins

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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

// rejections remember the last modules that were refused, so that sending one again and again costs no compilation.
type rejections struct {
	mu    sync.Mutex
	errs  map[queue.SHA256]error
	order []queue.SHA256
}

const maxRejections = 64

// add remembers what is the module's fault and will be again.
func (r *rejections) add(sum queue.SHA256, err error) {
	var refused *queue.Error
	if !errors.As(err, &refused) || refused.Code != queue.CodeInvalid {
		return
	}
	for _, p := range refused.Problems {
		if strings.HasPrefix(p.Pointer, "/config") {
			return // another configuration may do
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.errs[sum]; !known {
		r.order = append(r.order, sum)
	}
	r.errs[sum] = err
	if len(r.order) > maxRejections {
		delete(r.errs, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
}

// of is why a module was refused; nil: it was not, or that is forgotten.
func (r *rejections) of(sum queue.SHA256) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs[sum]
}
