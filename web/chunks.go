package web

// Chunks of one submission: one, or a list by state. A submission may have four billion of them, so
// a page looks at a bounded number and may be empty and still have a next one.
//
//	GET /chunks            list by state, in pages        GET /chunks/{index}           one
//	GET /map               counts per range of indexes    GET /chunks/{index}/attempts  its last ten
//	GET /outputs           a stream of lines         POST /chunks/{index}/cancel    give it up

import (
	"bufio"
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

type listChunksInput struct {
	SubmissionPath
	RawQuery
}

func (x submissions) chunks(ctx context.Context, q *engine.Queue,
	in *listChunksInput) (*output[api.Page[api.Chunk]], error) {
	var request chunkRequest
	if err := chunkList().read(in.raw, &request); err != nil {
		return nil, err
	}
	page, err := q.Submissions.Chunks(ctx, in.id, request.states, request.cursor, request.limit)
	return answeredPage(page, err, chunkFor(ctx))
}

// chunkRequest says which chunks of a submission to list.
type chunkRequest struct {
	states []queue.ChunkState
	cursor string
	limit  int
}

// chunkList are the parameters of a list of chunks.
// The states are listed here, in the order of a chunk's life, and not taken from package queue: the document shows
// them so.
func chunkList() parameters[chunkRequest] {
	return append(parameters[chunkRequest]{
		stateParameter(queue.ParseChunkState, func(r *chunkRequest) *[]queue.ChunkState { return &r.states },
			"ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"),
	}, pageParameters(func(r *chunkRequest) *string { return &r.cursor },
		func(r *chunkRequest) *int { return &r.limit })...)
}

func (x submissions) chunk(ctx context.Context, q *engine.Queue, in *ChunkPath) (*output[api.Chunk], error) {
	chunk, err := q.Submissions.Chunk(ctx, in.id, in.chunk.Index)
	return answered(chunk, err, chunkFor(ctx))
}

func (x submissions) cancelChunk(ctx context.Context, q *engine.Queue, in *ChunkPath) (*output[api.Chunk], error) {
	chunk, err := q.Submissions.CancelChunk(ctx, in.chunk)
	return answered(chunk, err, chunkFor(ctx))
}

// outputs is GET .../outputs. It sends piece by piece, so the size of the outputs does not matter. It is registered by
// hand and not with huma, which would collect the whole answer first.
func (x submissions) outputs(c echo.Context) error {
	if err := plainPath(c.Request()); err != nil {
		return err
	}
	in := SubmissionPath{ID: c.Param("id")}
	q, err := in.locate(x.engine)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	p := &outputPieces{of: q.Submissions, id: in.id, answer: access.Of(ctx).Answer, clock: x.streams.clock,
		most: outputPiece, lines: x.buffers.take()}
	defer func() {
		x.buffers.free(p.lines)
		_ = p.answer.Hold(0) // less always fits
	}()
	// After the first byte, the connection can only be cut. So an error of the first piece is answered before it.
	err = p.read(ctx)
	if err != nil && len(p.lines.b) == 0 {
		return err
	}
	return x.streams.lines(c, func(writer *bufio.Writer) error {
		for {
			if _, failed := writer.Write(p.lines.b); failed != nil || err != nil || p.next == nil {
				return cmp.Or(failed, err)
			}
			err = p.read(ctx)
		}
	})
}

// outputPiece is how many bytes of outputs are read at once, if the answer may hold that much.
// The store reads everything that it has not sorted yet for each piece, so small pieces take long.
const outputPiece = queue.MaxAnswerBytes

// roomEvery is how often a download that has begun looks whether there is room for its next piece.
const roomEvery = 100 * time.Millisecond

// outputPieces reads the outputs of a submission as lines, piece by piece. So the server keeps only a piece while a
// client reads slowly, and counts it as a large answer.
type outputPieces struct {
	of     engine.Submissions
	id     queue.SubmissionID
	answer *access.Answer
	clock  *clock
	begun  bool                // a piece was read
	next   *engine.OutputsFrom // where the next piece begins; nil: there is none
	most   int                 // bytes of a piece that has several lines
	lines  *buffer
}

// read reads the next piece. Without room for it, it reads a smaller one. If that does not help, the first piece fails,
// and a later one waits as long as for a slow client, without keeping anything. An error about lost outputs comes with
// the lines before it.
func (p *outputPieces) read(ctx context.Context) error {
	from := engine.OutputsFrom{}
	if p.next != nil {
		from = *p.next
	}
	for {
		if p.answer.Hold(int64(p.most)) != nil {
			p.most = access.SmallAnswer
		}
		p.lines.b = p.lines.b[:0]
		next, err := p.of.SomeOutputs(ctx, p.id, from, p.add)
		needed := int64(len(p.lines.b))
		if next != nil {
			needed = max(needed, p.answer.Holds()) // the next piece will be as large
		}
		full := p.answer.Hold(needed)
		if full == nil {
			p.begun, p.next = true, next
			return err
		}
		if p.lines.b = nil; !p.begun {
			return full
		}
		if full = p.room(ctx, needed, full); full != nil {
			return full
		}
	}
}

// add adds a line to the piece, unless it is full.
func (p *outputPieces) add(index uint32, output []byte) error {
	had := len(p.lines.b)
	p.lines.b = appendOutput(p.lines.b, index, output)
	if had > 0 && len(p.lines.b) > p.most {
		p.lines.b = p.lines.b[:had]
		return engine.ErrPageFull
	}
	return nil
}

// room waits until there is room for this many bytes.
func (p *outputPieces) room(ctx context.Context, needed int64, full error) error {
	over := p.clock.wall().Add(p.clock.patience.write)
	for full != nil && p.clock.wall().Before(over) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(roomEvery):
			full = p.answer.Hold(needed)
		}
	}
	return full
}

// appendOutput appends one line of outputs.
func appendOutput(dst []byte, index uint32, output []byte) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendUint(dst, uint64(index), 10)
	dst = append(dst, `,"output":`...)
	dst = wire.AppendBytes(dst, output)
	return append(dst, '}', '\n')
}

const (
	mapAbout = "The chunks from index `from` up to `to`, counted by state in cells of equal size. The server " +
		"examines at most 1,048,576 chunks. Of a longer range it examines one chunk in `every`: ask for a shorter " +
		"range to count all of them. A chunk that changes meanwhile counts as the server met it."
	attemptsAbout = "The last 10 ended attempts, over all redrives, the oldest first. The server forgets them " +
		"when the chunk is done."
)

type getMapInput struct {
	SubmissionPath
	From  uint32 `query:"from" doc:"Index of the first chunk"`
	To    uint32 `query:"to" doc:"Index after the last chunk; absent: the end"`
	Cells int    `query:"cells" minimum:"1" maximum:"1000" default:"500" doc:"Most cells"`
}

// A picture of a submission needs some hundred cells, not a list of a billion chunks. The cells are computed in
// slices from memory; no content is read.
func (x submissions) chunkMap(ctx context.Context, q *engine.Queue, in *getMapInput) (*output[api.ChunkMap], error) {
	m, err := q.Submissions.Map(ctx, in.id, in.From, in.To, in.Cells)
	return answered(m, err, asIs)
}

func (x submissions) attempts(ctx context.Context, q *engine.Queue,
	in *ChunkPath) (*output[api.Page[api.Attempt]], error) {
	past, err := q.Submissions.Attempts(ctx, in.id, in.chunk.Index)
	return answeredShort(past, err, apiAttempt)
}

func apiAttempt(a *queue.Attempt) api.Attempt {
	return api.Attempt{
		EndedAt: a.Ended.API(), Consumer: a.Consumer, HeldMS: a.Held.Milliseconds(), Expired: a.Expired, Lost: a.Lost,
		Error: a.Error,
	}
}
