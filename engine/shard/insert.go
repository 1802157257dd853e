package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Insert makes a submission exist and returns it as it was at that moment. A repeated
// idempotency key returns the first one's submission as it is now and replayed = true: who
// repeats an insert wants to know what became of it. With another request under the same
// key it is refused. CodeUnknownSubmission: the first one's retention is over.
func (s *Shard) Insert(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, replayed bool, err error) {
	one := []queue.Insertion{{New: n}}
	if err := s.InsertMany(ctx, one, false); err != nil {
		return sub, false, err
	}
	return one[0].Submission, one[0].Replayed, one[0].Err
}

// Repeated answers an insert whose idempotency key came before, as Insert does, and makes
// none. known is false when it did not; with an error that is not known.
func (s *Shard) Repeated(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, known bool, err error) {
	return s.keys.Repeated(ctx, n)
}

// inserted is the submission as it was at the moment of its insert: what the first answer says.
func inserted(op *journal.Insert, queueName string) queue.Submission {
	r := machine.NewRecord(op)
	sub := r.Info(queueName, op.Meta, op.Chunks)
	if op.RunAt != 0 {
		sub.Waiting, sub.Ready = sub.Ready, 0
	}
	return sub
}
