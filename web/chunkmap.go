package web

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	mapAbout = "The chunks from index `from` up to `to`, counted by state in cells of one size; at most " +
		"1,048,576 chunks are looked at, and `to` of the answer says where to go on. What moves meanwhile is counted where it was met."
	attemptsAbout = "The ended tries that are remembered, the oldest first: the last 10, over all redrives. What is " +
		"remembered of a chunk is forgotten when it is done."
)

type getMapInput struct {
	SubmissionPath
	From  uint32 `query:"from" doc:"Index of the first chunk"`
	To    uint32 `query:"to" doc:"Index behind the last chunk; left out: the end"`
	Cells int    `query:"cells" minimum:"1" maximum:"1000" default:"500" doc:"Most cells"`
}

func (x submissions) chunkMap(ctx context.Context, q *engine.Queue, in *getMapInput) (*output[api.ChunkMap], error) {
	m, err := q.Submissions.Map(ctx, in.id, in.From, in.To, in.Cells)
	return answered(m, err, asIs)
}

func (x submissions) attempts(ctx context.Context, q *engine.Queue, in *ChunkPath) (*output[api.Page[api.Attempt]], error) {
	past, err := q.Submissions.Attempts(ctx, in.id, in.chunk.Index)
	return answeredShort(past, err, apiAttempt)
}

func apiAttempt(a *queue.Attempt) api.Attempt {
	return api.Attempt{
		EndedAt: a.Ended.API(), Consumer: a.Consumer, HeldMS: a.Held.Milliseconds(), Expired: a.Expired, Lost: a.Lost, Error: a.Error,
	}
}
