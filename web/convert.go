package web

import (
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// apiTime is t as JSON carries it; none becomes the zero time, which is left out or null.
func apiTime(t queue.Time) api.Time { return api.At(t.Std()) }

// someMeta is meta where an answer always has it: {} for none.
func someMeta(meta queue.Meta) api.Meta {
	if len(meta) == 0 {
		return api.Meta{}
	}
	return meta.Object()
}

// contextOf is the context of a reservation, as plugins and formulas see it.
func contextOf(in api.Meta) (queue.Meta, error) { return queue.NewContext(queue.EntriesOf(in)) }

func apiSubmission(in *queue.Submission) api.Submission {
	return api.Submission{
		ID: in.ID.String(), Queue: in.Queue, State: in.State.String(),
		Chunks: in.Chunks, Ready: in.Ready, Paused: in.Paused, Blocked: in.Blocked, Waiting: in.Waiting,
		Reserved: in.Reserved, Done: in.Done, Dead: in.Dead, Forwarded: in.Forwarded, Skipped: in.Skipped,
		CreatedAt: apiTime(in.Created), Meta: in.Meta.Object(), Priority: in.Priority, Group: in.Group,
		OperationsPerChunk: in.OperationsPerChunk, Prefix: in.Prefix, Template: in.Template, HasAttachment: in.HasAttachment,
		RunAt: apiTime(in.RunAt), DeadDeadline: apiTime(in.DeadDeadline), FinishedAt: apiTime(in.Finished),
		MaxAttempts: in.MaxAttempts, OnExhausted: in.OnExhausted.String(), MaxFailedChunks: in.MaxFailedChunks,
		Failure: in.Failure, FailedChunk: in.FailedChunk, Trace: in.Trace,
		ForwardedFrom: apiOrigin(in.Origin),
		Schedule:      in.Schedule, ScheduledAt: apiTime(in.Scheduled),
	}
}

// wireSubmission is apiSubmission for the hand-written encoder; meta is scratch memory for the meta object.
func wireSubmission(in *queue.Submission, meta []byte) wire.Submission {
	return wire.Submission{
		ID: uint64(in.ID), Queue: in.Queue, State: in.State.String(),
		Chunks: in.Chunks, Ready: in.Ready, Paused: in.Paused, Blocked: in.Blocked, Waiting: in.Waiting,
		Reserved: in.Reserved, Done: in.Done, Dead: in.Dead, Forwarded: in.Forwarded, Skipped: in.Skipped,
		CreatedAt: int64(in.Created), Meta: appendMeta(meta, in.Meta), Priority: in.Priority, Group: in.Group,
		OperationsPerChunk: in.OperationsPerChunk, Prefix: in.Prefix, Template: in.Template, HasAttachment: in.HasAttachment,
		RunAt: int64(in.RunAt), DeadDeadline: int64(in.DeadDeadline), FinishedAt: int64(in.Finished),
		MaxAttempts: in.MaxAttempts, OnExhausted: in.OnExhausted.String(), MaxFailedChunks: in.MaxFailedChunks,
		Failure: in.Failure, FailedChunk: in.FailedChunk, Trace: in.Trace,
		Schedule: in.Schedule, ScheduledAt: int64(in.Scheduled),
	}
}

// appendMeta appends the meta object, or nothing when there is no meta.
func appendMeta(dst []byte, meta queue.Meta) []byte {
	object := dst[len(dst):]
	for _, entry := range meta {
		object = wire.AppendMetaEntry(object, entry.Key, entry.Value)
	}
	// If dst had room, object is already in it and is copied onto itself.
	return append(dst, object...)
}

func apiChunk(in *queue.Chunk) api.Chunk {
	return api.Chunk{
		Index: in.Index, State: in.State.String(), Attempts: uint32(in.Attempts), NotBefore: apiTime(in.NotBefore),
		Consumer: in.Consumer, Deadline: apiTime(in.Deadline), Error: in.Error, ForwardedTo: in.To, Output: in.Output,
	}
}

func apiStats(in *queue.Stats, now time.Time) api.Stats {
	out := api.Stats{
		Ready: in.Ready, Paused: in.Paused, Blocked: in.Blocked, Waiting: in.Waiting, Reserved: in.Reserved,
		Done: in.Done, Skipped: in.Skipped, Dead: in.Dead, DeadLetters: in.DeadLetters,
		OperationsReady: in.OperationsReady, SubmissionsOpen: in.SubmissionsOpen, ConsumersWaiting: in.ConsumersWaiting,
		InsertedTotal: in.InsertedTotal, ReservedTotal: in.ReservedTotal, DoneTotal: in.DoneTotal, FailedTotal: in.FailedTotal,
		ExpiredTotal: in.ExpiredTotal, ReleasedTotal: in.ReleasedTotal, LostTotal: in.LostTotal, RevokedTotal: in.RevokedTotal,
		ConsumersAttached: in.ConsumersAttached,
		Outgoing:          in.Outgoing, ForwardedTotal: in.ForwardedTotal, ArrivedTotal: in.ArrivedTotal,
		BulkOperationsRunning:    in.BulksRunning,
		SubmissionsInsertedTotal: in.SubmissionsInsertedTotal, SubmissionsEndedTotal: in.SubmissionsEndedTotal,
		CommitsTotal: in.CommitsTotal, CommitBytesTotal: in.CommitBytesTotal,
		JournalBytes: in.JournalBytes, StoreBytes: in.StoreBytes,
	}
	if in.OldestReady != 0 {
		out.OldestReadySeconds = max(0, now.Sub(in.OldestReady.Std()).Seconds())
	}
	if in.Draining {
		out.Draining = 1
	}
	if in.SubmissionsOpen == 0 {
		out.Empty = 1
	}
	if in.DiskFull {
		out.DiskFull = 1
	}
	return out
}
