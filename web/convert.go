package web

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// someMeta is meta where an answer always has it: {} for none.
func someMeta(meta queue.Meta) api.Meta {
	if len(meta) == 0 {
		return api.Meta{}
	}
	return meta.Object()
}

// contextOf is the context of a reservation, as plugins and formulas see it.
func contextOf(in api.Meta) (queue.Meta, error) { return queue.NewContext(queue.EntriesOf(in)) }

// submissionFor shows submissions to a caller. It does not name a queue that the token does not cover.
// It returns a function because lists convert item by item, and what the caller may see is the same for all.
func submissionFor(ctx context.Context, shards shards) func(*queue.Submission) api.Submission {
	return func(in *queue.Submission) api.Submission {
		out := apiSubmission(in, shards)
		if out.ForwardedFrom != nil && coveredQueue(ctx, out.ForwardedFrom.Queue) == "" {
			out.ForwardedFrom = nil
		}
		return out
	}
}

// chunkFor is the same for chunks.
func chunkFor(ctx context.Context) func(*queue.Chunk) api.Chunk {
	return func(in *queue.Chunk) api.Chunk {
		out := apiChunk(in)
		out.ForwardedTo = coveredQueue(ctx, out.ForwardedTo)
		return out
	}
}

// shards knows which shard has a submission: an engine knows it of all, a queue of its own.
type shards interface {
	ShardOf(queue.SubmissionID) int // 0: its queue has only one
}

// ownShard is the shard that all submissions of an answer are in.
type ownShard struct{ *engine.Queue }

func (s ownShard) ShardOf(queue.SubmissionID) int { return engine.NumberOf(s.Queue) }

func apiSubmission(in *queue.Submission, shards shards) api.Submission {
	return api.Submission{
		ID: in.ID.String(), Queue: in.Queue, State: in.State.String(),
		Chunks: in.Chunks, Ready: in.Ready, Paused: in.Paused, Blocked: in.Blocked, Waiting: in.Waiting,
		Reserved: in.Reserved, Done: in.Done, Dead: in.Dead, Forwarded: in.Forwarded, Skipped: in.Skipped,
		CreatedAt: in.Created.API(), Meta: in.Meta.Object(), Priority: in.Priority, Group: in.Group,
		Shard:              shards.ShardOf(in.ID),
		OperationsPerChunk: in.OperationsPerChunk, Prefix: in.Prefix, Template: in.Template,
		HasAttachment: in.HasAttachment,
		RunAt:         in.RunAt.API(), DeadDeadline: in.DeadDeadline.API(), FinishedAt: in.Finished.API(),
		MaxAttempts: in.MaxAttempts, OnExhausted: in.OnExhausted.String(), MaxFailedChunks: in.MaxFailedChunks,
		TimeoutMS: in.AttemptTimeout.Milliseconds(),
		Failure:   in.Failure, FailedChunk: in.FailedChunk, Trace: in.Trace,
		ForwardedFrom: apiOrigin(in.Origin),
		Schedule:      in.Schedule, ScheduledAt: in.Scheduled.API(),
		RetryBackoff: apiBackoff(in.RetryBackoff), Unique: apiUnique(in.Unique),
		After: in.After.API(), WaitsFor: queue.Texts(in.WaitsFor),
	}
}

// wireSubmission is apiSubmission for the hand-written encoder; meta is scratch memory for the meta object. A field
// that is added to one of the two belongs into the other, too: else an insert and a read would differ.
// It has no ForwardedFrom: only letters that arrive from another queue have one, and no client inserts these.
func wireSubmission(in *queue.Submission, shards shards, meta []byte) wire.Submission {
	return wire.Submission{
		ID: uint64(in.ID), Queue: in.Queue, State: in.State.String(),
		Chunks: in.Chunks, Ready: in.Ready, Paused: in.Paused, Blocked: in.Blocked, Waiting: in.Waiting,
		Reserved: in.Reserved, Done: in.Done, Dead: in.Dead, Forwarded: in.Forwarded, Skipped: in.Skipped,
		CreatedAt: int64(in.Created), Meta: appendMeta(meta, in.Meta), Priority: in.Priority, Group: in.Group,
		Shard:              uint32(shards.ShardOf(in.ID)),
		OperationsPerChunk: in.OperationsPerChunk, Prefix: in.Prefix, Template: in.Template,
		HasAttachment: in.HasAttachment,
		RunAt:         int64(in.RunAt), DeadDeadline: int64(in.DeadDeadline), FinishedAt: int64(in.Finished),
		MaxAttempts: in.MaxAttempts, OnExhausted: in.OnExhausted.String(), MaxFailedChunks: in.MaxFailedChunks,
		TimeoutMS: uint32(in.AttemptTimeout.Milliseconds()),
		Failure:   in.Failure, FailedChunk: in.FailedChunk, Trace: in.Trace,
		Schedule: in.Schedule, ScheduledAt: int64(in.Scheduled),
		RetryBackoff: apiBackoff(in.RetryBackoff), Unique: apiUnique(in.Unique),
		After: in.After.API(), WaitsFor: queue.Texts(in.WaitsFor),
	}
}

// apiBackoff is the back-off of a submission.
func apiBackoff(in *queue.Backoff) *api.Backoff {
	if in == nil {
		return nil
	}
	return new(in.API())
}

// apiUnique is the unique key of a submission.
func apiUnique(in *queue.Unique) *api.Unique {
	if in == nil {
		return nil
	}
	return &api.Unique{Key: in.Key, While: in.While()}
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

// Times that are not known are zero in the engine and absent in JSON: API() makes the one of the other, so no client
// ever sees 1970.
func apiChunk(in *queue.Chunk) api.Chunk {
	return api.Chunk{
		Index: in.Index, State: in.State.String(), Attempts: uint32(in.Attempts), NotBefore: in.NotBefore.API(),
		Consumer: in.Consumer, HeldSince: in.Since.API(), Deadline: in.Deadline.API(),
		Progress: progress(&in.Reported), Note: in.Reported.Note,
		Error: in.Error, ForwardedTo: in.To, Output: in.Output,
	}
}
