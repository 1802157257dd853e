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
	if s.full.Load() {
		return sub, false, commitError(journal.ErrFull)
	}
	now, seed := s.now(), s.options.Seed()
	carried, beside := s.contents.pack(n)
	s.mu.Lock()
	if err := s.takesIn(); err != nil {
		s.mu.Unlock()
		return sub, false, err
	}
	if n.IdempotencyKey != "" {
		if entry := s.m.keys.find(n.IdempotencyKey); entry != nil {
			return s.claims.repeat(ctx, entry, n) // unlocks
		}
	}
	m := s.m
	if err := m.rules.refusal(n.Meta); err != nil {
		s.mu.Unlock()
		return sub, false, err
	}
	if m.settings.Draining {
		s.mu.Unlock()
		return sub, false, errDraining
	}
	if err := s.options.Live.admit(1); err != nil {
		s.crowded++
		s.mu.Unlock()
		return sub, false, err
	}
	defer s.options.Live.release(1)
	m.seed(seed)
	op := m.draw(n, now)
	entry := s.claims.claim(n, op, now)
	if !beside {
		return s.publish(op, carried, entry, n.Acts, now) // unlocks
	}
	s.mu.Unlock()
	if err := s.contents.write(ctx, op.Seq, n); err != nil {
		s.claims.giveUp(entry)
		return sub, false, err
	}
	now = s.now()
	s.mu.Lock()
	err = s.usable()
	if err == nil && s.m != m {
		err = commitError(journal.ErrUnknown) // reloaded meanwhile: the content was no one's, and may be swept away
	}
	if err != nil {
		s.mu.Unlock()
		s.claims.giveUp(entry)
		return sub, false, err
	}
	return s.publish(op, nil, entry, n.Acts, now) // unlocks
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
	sub, _, err = s.claims.repeat(ctx, entry, n) // unlocks
	return sub, true, err
}

// publish encodes the insert and waits for its commit. The mutex is held and given up.
func (s *Shard) publish(op *journal.Insert, carried *journal.Contents, entry *keyed, acts []queue.Act,
	now queue.Time) (queue.Submission, bool, error) {
	s.m.insert(op, carried, now)
	b := s.m.batch
	if entry != nil {
		entry.batch = b
		s.m.intend(entry)
	}
	s.m.actLog.tell(now, acts, nil, map[string]string{"submission": op.ID.String()})
	s.writer.sealFull()
	s.mu.Unlock()
	if entry != nil {
		close(entry.published)
	}
	if err := s.writer.wait(commits{first: b}); err != nil {
		return queue.Submission{}, false, err
	}
	return inserted(op, s.options.Queue), false, nil
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

// giveUp frees the key of an insert that failed before its commit.
func (p *claims) giveUp(entry *keyed) {
	s := p.s
	if entry == nil {
		return
	}
	s.mu.Lock()
	s.m.keys.forget(entry)
	s.mu.Unlock()
	close(entry.published)
}

// repeat answers an insert whose key is known with the present state of its submission, once the first one is committed.
// The mutex is held and given up.
func (p *claims) repeat(ctx context.Context, entry *keyed, n *queue.NewSubmission) (sub queue.Submission, replayed bool, err error) {
	s := p.s
	same := entry.fingerprint == n.Fingerprint
	s.mu.Unlock()
	if !same {
		return sub, false, &queue.Error{Code: queue.CodeIdempotencyReuse, Message: "This Idempotency-Key came with a " +
			"different request before. Use a new key for a new request; repeat the old request unchanged to get its answer."}
	}
	if entry.published != nil {
		select {
		case <-entry.published:
		case <-ctx.Done():
			return sub, false, ctx.Err()
		}
	}
	s.mu.Lock()
	b, forgotten := entry.batch, entry.forgotten
	s.mu.Unlock()
	if b != nil {
		if err := s.writer.wait(commits{first: b}); err != nil {
			return sub, false, err
		}
	} else if forgotten {
		return sub, false, &queue.Error{Code: queue.CodeUnavailable,
			Message: "The first request with this Idempotency-Key failed a moment ago. Send it again."}
	}
	sub, err = s.Submissions.Get(ctx, entry.id)
	return sub, true, err
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
