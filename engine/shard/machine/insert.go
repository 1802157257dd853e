package machine

import (
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Draw gives a submission its identity and its permutation.
func (m *Machine) Draw(n *queue.NewSubmission, now queue.Time) *journal.Insert {
	id := queue.MakeSubmissionID(now, m.ID, 0)
	if id <= m.LastID {
		id = m.LastID.Next()
	}
	m.LastID = id
	m.NextSeq++
	key := backlog.OrderKey(n.Chunks.Count, m.Rnd.Uint64())
	runAt := n.RunAt
	if runAt <= now.Add(nearNow) {
		runAt = 0
	}
	deadline := n.DeadDeadline
	if after := m.Settings.DeadAfter; deadline == 0 && after > 0 {
		deadline = max(now, runAt).Add(after)
	}
	unique := n.Unique
	if unique != nil && unique.Replace { // it is about this insert, and not about the submission
		kept := *unique
		kept.Replace, unique = false, &kept
	}
	return &journal.Insert{
		Seq: m.NextSeq, ID: id, Chunks: n.Chunks.Count, Key: key, Priority: n.Priority, Meta: n.Meta,
		Prefix: n.Chunks.Prefix, Template: n.Chunks.Template, Group: n.Group, Trace: n.Trace,
		OperationsPerChunk: max(n.OperationsPerChunk, 1), RunAt: runAt, DeadDeadline: deadline,
		MaxAttempts: n.MaxAttempts, OnExhausted: n.OnExhausted, MaxFailed: n.MaxFailedChunks,
		RetryBackoff: n.RetryBackoff, Bytes: uint32(n.ContentBytes()), AttemptTimeout: n.AttemptTimeout,
		Inline:     len(n.Chunks.Inline) > 0,
		Attachment: len(n.Attachment) > 0, IdempotencyKey: n.IdempotencyKey, Fingerprint: n.Fingerprint,
		Origin:   n.Origin,
		Schedule: n.Schedule, Scheduled: n.Scheduled,
		Unique: unique, After: n.After,
	}
}

// nearNow is how close a run_at has to be to count as now (Querator's rule): a shorter wait is not worth it.
const nearNow = 100 * time.Millisecond

// Insert encodes a submission, and before it the bytes that it carries, if any.
func (m *Machine) Insert(op *journal.Insert, carried *journal.Contents, now queue.Time) {
	if carried != nil {
		carried.Seq = op.Seq
		m.Encode(now).Contents(carried)
	}
	m.Encode(now).Insert(op)
}
