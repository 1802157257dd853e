package machine

import (
	"strings"
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
	return &journal.Insert{
		Seq: m.NextSeq, ID: id, Chunks: n.Chunks.Count, Key: key, Priority: n.Priority, Meta: n.Meta,
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

// Of is the entry of the insert that this one repeats; nil: it is the first with its key. Earlier versions wrote the server's keys
// without the mark, so such a key may be that of a client's insert of the same form: it counts only for the same request.
func (k *keys) Of(n *queue.NewSubmission) *Keyed {
	if found := k.Find(n.IdempotencyKey); found != nil {
		return found
	}
	if old, made := strings.CutPrefix(n.IdempotencyKey, queue.MadeKey); made {
		if found := k.Find(old); found != nil && found.Fingerprint == n.Fingerprint {
			return found
		}
	}
	return nil
}

// Repeatable refuses a key that came with another request.
func (k *Keyed) Repeatable(n *queue.NewSubmission) error {
	if k.Fingerprint == n.Fingerprint {
		return nil
	}
	return &queue.Error{Code: queue.CodeIdempotencyReuse, Message: "This Idempotency-Key came with a " +
		"different request before. Use a new key for a new request; repeat the old request unchanged to get its answer."}
}
