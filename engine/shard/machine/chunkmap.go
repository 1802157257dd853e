package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// PastOf lists the tries of a chunk that ended, the oldest first.
func (r *Record) PastOf(index uint32) ([]queue.Attempt, error) {
	if index >= r.Chunks {
		return nil, queue.Invalid("/path/index", "is past the submission's last chunk")
	}
	if t := r.Tries[index]; t != nil {
		return slices.Clone(t.Past), nil
	}
	return nil, nil
}
