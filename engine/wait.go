package engine

import (
	"context"
	"github.com/quern-queue/quern/engine/shard/submissions"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// WaitEnds returns when one of the submissions has ended, or with `all` when all have, or when `wait` (at most queue.MaxWait) is over,
// or with the error of ctx. An unknown one never ends, so it counts as one that has. The ids, 1 or more, may be of several queues.
func (e *Engine) WaitEnds(ctx context.Context, ids []queue.SubmissionID, wait time.Duration, all bool) error {
	enough := 1
	if all {
		enough = len(ids)
	}
	w := submissions.NewWatch(enough)
	of := map[*Queue][]queue.SubmissionID{}
	for _, id := range ids {
		q, err := e.QueueOf(id)
		if err != nil {
			w.Ended()
			continue
		}
		of[q] = append(of[q], id)
	}
	for q, ids := range of {
		q.shard.Submissions.Watch(w, ids...)
		defer q.shard.Submissions.Unwatch(w, ids...)
	}
	return w.Wait(ctx, min(wait, queue.MaxWait))
}
