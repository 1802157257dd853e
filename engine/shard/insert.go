package shard

import (
	"cmp"
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Insert makes a submission exist and returns it as it was at that moment. A repeated idempotency key returns the first
// one's submission as it is now and replayed = true: who repeats an insert wants to know what became of it. With another
// request under the same key it is refused. CodeUnknownSubmission: the first one's retention is over.
func (s *Shard) Insert(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, replayed bool, err error) {
	one := []queue.Insertion{{New: n}}
	if err := s.InsertMany(ctx, one, false); err != nil {
		return sub, false, err
	}
	return one[0].Submission, one[0].Replayed, one[0].Err
}

// Repeated answers an insert whose idempotency key came before, as Insert does, and makes none. known is false when it did not.
func (p *Submissions) Repeated(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, known bool, err error) {
	if n.IdempotencyKey == "" {
		return sub, false, nil
	}
	s := p.s
	var entry *machine.Keyed
	var refused error
	asked := []asked{{key: keyOf(n)}}
	err = s.claims.decide(ctx, asked, func(since queue.Time) {
		if refused = s.usable(); refused == nil {
			entry = s.claims.find(asked[0].key, since)
		}
	})
	switch {
	case err != nil || refused != nil:
		return sub, true, cmp.Or(err, refused)
	case entry == nil:
		return sub, false, nil
	}
	if err = entry.Repeatable(n); err == nil {
		sub, err = s.claims.repeat(ctx, entry)
	}
	return sub, true, err
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

// SetPriority changes the priority of an open submission, from the next reservation on. Of one that has ended it is a conflict.
func (p *Submissions) SetPriority(ctx context.Context, id queue.SubmissionID, priority int64, acts ...queue.Act) (queue.Submission, error) {
	s := p.s
	var r *machine.Record
	err := s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		if r = m.Live(id); r == nil {
			return nil, nil
		}
		if !r.Ending {
			m.Encode(now).Priority(journal.Priority{Seq: r.Seq, Priority: priority})
			m.ActLog.Tell(now, acts, map[string]int64{"priority": r.Priority}, map[string]int64{"priority": priority})
		}
		return s.writer.pending(), nil // or what ends it
	})
	if err != nil {
		return queue.Submission{}, err
	}
	sub, err := p.Get(ctx, id)
	if err == nil && sub.State != queue.Open && (r == nil || sub.Priority != priority) { // it may have ended before the op came to it
		return queue.Submission{}, &queue.Error{Code: queue.CodeConflict, Message: "The submission is " +
			sub.State.String() + ": only an open one can be changed."}
	}
	return sub, err
}

// Cancel ends a submission. Consumers that hold chunks of it learn so from their next call.
func (p *Submissions) Cancel(ctx context.Context, id queue.SubmissionID, acts ...queue.Act) (queue.Submission, error) {
	s := p.s
	err := s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		r := m.Live(id)
		if r == nil {
			return nil, nil
		}
		if !r.Ending {
			m.ActLog.Tell(now, acts, map[string]uint32{"available": uint32(r.Sub.Available()), "done": r.Done}, nil)
		}
		m.Endings.Close(r, queue.Cancelled, "", now)
		return s.writer.pending(), nil // or what ends it already
	})
	if err != nil {
		return queue.Submission{}, err
	}
	return p.Get(ctx, id)
}
