package repair

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// has says whether an engine has what an op did that was cut off.
func has(ctx context.Context, e *engine.Engine, l *Lost) bool {
	id, err := queue.ParseSubmissionID(l.Submission)
	if err != nil {
		return false
	}
	switch l.Op {
	case "insert", "ended":
		_, err := e.Submission(ctx, id)
		return err == nil
	case "complete":
		var chunk queue.Chunk
		q, err := e.QueueOf(id)
		if err == nil {
			chunk, err = q.Submissions.Chunk(ctx, id, *l.Chunk)
		}
		if err == nil {
			return chunk.State == queue.ChunkDone
		}
		refused, is := errors.AsType[*queue.Error](err)
		return is && refused.Code != queue.CodeUnknownSubmission && refused.Code != queue.CodeQuarantined
	}
	return false
}
