package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// Insert makes a submission exist; it is durable and visible when Insert returns. With an idempotency key that came
// before (within queue.IdempotencyWindow) it returns the first one's submission as it is now, and replayed = true.
// Of one whose retention is over nothing is known: queue.CodeUnknownSubmission.
func (e *Engine) Insert(ctx context.Context, queueName string, n queue.NewSubmission) (s queue.Submission, replayed bool, err error) {
	q, err := e.queue(queueName)
	if err != nil {
		return s, false, err
	}
	if len(n.Chunks.Inline) > 0 {
		n.Chunks.Count = uint32(len(n.Chunks.Inline))
	}
	if n.Meta, err = queue.NewMeta(n.Meta); err != nil {
		return s, false, err
	}
	if err := validInsert(&n); err != nil {
		return s, false, err
	}
	share, err := e.shareOf(ctx, q, n.Meta)
	if err != nil { // an insert that was made before is answered all the same
		if s, known, failed := q.shard.Submissions.Repeated(ctx, &n); known {
			return s, failed == nil, failed
		}
		return s, false, err
	}
	s, replayed, err = q.shard.Insert(ctx, &n)
	if err == nil && !replayed {
		share.add(s.ID)
	}
	return s, replayed, err
}
