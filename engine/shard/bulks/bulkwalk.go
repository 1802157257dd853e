package bulks

import (
	"github.com/quern-queue/quern/engine/queue"
)

// Present is how much there is now of what a request walks over.
func (bs *Part) Present(r *queue.BulkRequest) uint64 {
	m := bs.m
	id := r.Filter.Dead.Submission
	if id == 0 {
		switch {
		case r.Action.OnLetters():
			return m.Stats.Dead + m.Stats.EndedLetters
		case r.Action == queue.BulkRetry:
			return m.Stats.Waiting
		}
		return uint64(m.Backlog.Len())
	}
	x := m.Live(id)
	switch {
	case r.Action.OnLetters():
		return uint64(bs.letters(id))
	case x == nil:
		return 0
	case r.Action == queue.BulkRetry:
		return uint64(x.Delays.Len())
	}
	return 1
}

// Walked is a step's progress: n more were walked over, and what is there now bounds the rest.
func (bs *Part) Walked(w *queue.BulkWalk, n uint64, r *queue.BulkRequest) {
	w.Examined = min(w.Examined+n, w.ToExamine)
	w.ToExamine = min(w.ToExamine, w.Examined+bs.Present(r))
}
