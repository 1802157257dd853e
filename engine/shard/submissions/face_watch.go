package submissions

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Watch is a wait until a number of submissions, of one shard or of several, are over:
// they ended, or there is nothing to wait for.
type Watch struct {
	left atomic.Int64
	done chan struct{} // closed when none is left
}

// NewWatch waits for n submissions, 1 or more.
func NewWatch(n int) *Watch {
	w := &Watch{done: make(chan struct{})}
	w.left.Store(int64(n))
	return w
}

// Ended counts one submission. It may count more than are waited for.
func (w *Watch) Ended() {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
}

// Wait returns when enough are over, when `wait` is over, or with the error of ctx.
func (w *Watch) Wait(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.done:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch makes w count each of the submissions when it ends; those that are not open here count at once. Unwatch must
// follow.
func (s *Submissions) Watch(w *Watch, ids ...queue.SubmissionID) {
	over := 0
	err := s.Locked(func(m *machine.Machine, _ queue.Time) error {
		for _, id := range ids {
			if m.Live(id) == nil {
				over++
				continue
			}
			m.Endings.Watch[id] = append(m.Endings.Watch[id], w)
		}
		return nil
	})
	if err != nil { // the shard cannot work: there is nothing to wait for
		over = len(ids)
	}
	for range over {
		w.Ended()
	}
}

// Unwatch ends the counting that Watch began.
func (s *Submissions) Unwatch(w *Watch, ids ...queue.SubmissionID) {
	s.Look(func(m *machine.Machine) {
		for _, id := range ids {
			list, watched := m.Endings.Watch[id]
			if !watched {
				continue
			}
			if list = slices.DeleteFunc(list, func(x machine.Watcher) bool { return x == w }); len(list) == 0 {
				delete(m.Endings.Watch, id)
			} else {
				m.Endings.Watch[id] = list
			}
		}
	})
}
