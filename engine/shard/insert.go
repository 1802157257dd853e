package shard

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// draw gives a submission its identity and its permutation.
func (m *machine) draw(n *queue.NewSubmission, now queue.Time) *journal.Insert {
	id := queue.MakeSubmissionID(now, m.id, 0)
	if id <= m.lastID {
		id = m.lastID.Next()
	}
	m.lastID = id
	m.nextSeq++
	key := backlog.OrderKey(n.Chunks.Count, m.rnd.Uint64())
	runAt := n.RunAt
	if runAt <= now.Add(nearNow) {
		runAt = 0
	}
	return &journal.Insert{
		Seq: m.nextSeq, ID: id, Chunks: n.Chunks.Count, Key: key, Priority: n.Priority, Meta: n.Meta,
		Prefix: n.Chunks.Prefix, Template: n.Chunks.Template, Group: n.Group, Trace: n.Trace,
		OperationsPerChunk: max(n.OperationsPerChunk, 1), RunAt: runAt, DeadDeadline: n.DeadDeadline,
		MaxAttempts: n.MaxAttempts, OnExhausted: n.OnExhausted, MaxFailed: n.MaxFailedChunks, Inline: len(n.Chunks.Inline) > 0,
		Attachment: len(n.Attachment) > 0, IdempotencyKey: n.IdempotencyKey, Fingerprint: n.Fingerprint,
		Origin:   n.Origin,
		Schedule: n.Schedule, Scheduled: n.Scheduled,
	}
}

// nearNow is how close a run_at has to be to count as now (Querator's rule): less would be a wait for nothing.
const nearNow = 100 * time.Millisecond

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
	s := p.s
	if n.IdempotencyKey == "" {
		return sub, false, nil
	}
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return sub, true, err
	}
	entry := s.m.keys.find(n.IdempotencyKey)
	if entry == nil {
		s.mu.Unlock()
		return sub, false, nil
	}
	err = entry.repeatable(n)
	s.mu.Unlock()
	if err == nil {
		sub, err = s.claims.repeat(ctx, entry)
	}
	return sub, true, err
}

// inserted is the submission as it was at the moment of its insert: what the first answer says.
func inserted(op *journal.Insert, queueName string) queue.Submission {
	r := newRecord(op)
	sub := r.info(queueName, op.Meta, op.Chunks)
	if op.RunAt != 0 {
		sub.Waiting, sub.Ready = sub.Ready, 0
	}
	return sub
}

// claims are the idempotency keys of inserts under way.
type claims struct{ s *Shard }

// claim keeps others with the same key out until this insert is decided. The mutex is held.
func (p *claims) claim(n *queue.NewSubmission, op *journal.Insert, now queue.Time) *keyed {
	if n.IdempotencyKey == "" {
		return nil
	}
	entry := &keyed{key: n.IdempotencyKey, fingerprint: n.Fingerprint, id: op.ID, at: now, published: make(chan struct{})}
	p.s.m.keys.add(entry)
	return entry
}

// repeatable refuses a key that came with another request.
func (k *keyed) repeatable(n *queue.NewSubmission) error {
	if k.fingerprint == n.Fingerprint {
		return nil
	}
	return &queue.Error{Code: queue.CodeIdempotencyReuse, Message: "This Idempotency-Key came with a " +
		"different request before. Use a new key for a new request; repeat the old request unchanged to get its answer."}
}

// repeat answers an insert whose key is known with the present state of its submission, once the first one is committed.
func (p *claims) repeat(ctx context.Context, entry *keyed) (sub queue.Submission, err error) {
	s := p.s
	if entry.published != nil {
		select {
		case <-entry.published:
		case <-ctx.Done():
			return sub, ctx.Err()
		}
	}
	s.mu.Lock()
	b, forgotten := entry.batch, entry.forgotten
	s.mu.Unlock()
	if b != nil {
		if err := s.writer.wait(commits{first: b}); err != nil {
			return sub, err
		}
	} else if forgotten {
		return sub, &queue.Error{Code: queue.CodeUnavailable,
			Message: "The first request with this Idempotency-Key failed a moment ago. Send it again."}
	}
	return s.Submissions.Get(ctx, entry.id)
}

// SetPriority changes the priority of an open submission, from the next reservation on. Of one that has ended it is a conflict.
func (p *Submissions) SetPriority(ctx context.Context, id queue.SubmissionID, priority int64, acts ...queue.Act) (queue.Submission, error) {
	s := p.s
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return queue.Submission{}, err
	}
	var waits commits
	r := s.m.live(id)
	if r != nil && !r.ending {
		s.m.encode(now).Priority(journal.Priority{Seq: r.seq, Priority: priority})
		s.m.actLog.tell(now, acts, map[string]int64{"priority": r.priority}, map[string]int64{"priority": priority})
	}
	if r != nil {
		waits.add(s.writer.pending()) // or what ends it
	}
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
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
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return queue.Submission{}, err
	}
	var waits commits
	if r := s.m.live(id); r != nil {
		if !r.ending {
			s.m.actLog.tell(now, acts, map[string]uint32{"available": uint32(r.sub.Available()), "done": r.done}, nil)
		}
		s.m.close(r, queue.Cancelled, "", now)
		waits.add(s.writer.pending()) // or what ends it already
	}
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
		return queue.Submission{}, err
	}
	return p.Get(ctx, id)
}
