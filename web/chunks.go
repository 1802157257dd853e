package web

import (
	"bufio"
	"context"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

type listChunksInput struct {
	SubmissionPath
	RawQuery
}

type listChunksOutput struct{ Body api.Page[api.Chunk] }

func (s *Server) listChunks(ctx context.Context, in *listChunksInput) (*listChunksOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(in.raw)
	if err != nil {
		return nil, queue.Invalid("/query", "is not well formed: escape special characters as %%XX and separate parameters by &")
	}
	var states []queue.ChunkState
	cursor, limit := "", defaultListLimit
	for name, given := range values {
		if name == "state" {
			states, err = parseStates(given, queue.ParseChunkState)
		} else {
			err = pageParameter(name, given, &cursor, &limit)
		}
		if err != nil {
			return nil, err
		}
	}
	page, err := s.engine.Chunks(ctx, id, states, cursor, limit)
	if err != nil {
		return nil, err
	}
	out := &listChunksOutput{Body: api.Page[api.Chunk]{Items: make([]api.Chunk, len(page.Items)), Next: page.Next}}
	for i := range page.Items {
		out.Body.Items[i] = apiChunk(&page.Items[i])
	}
	return out, nil
}

// chunkParams documents the query of a list of chunks.
func chunkParams() []*huma.Param {
	return append([]*huma.Param{stateParam("ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded")}, pageParams()...)
}

type getChunkInput struct {
	SubmissionPath
	Index string `path:"index" maxLength:"10" doc:"Index of the chunk, from 0"`
}

type getChunkOutput struct{ Body api.Chunk }

func (s *Server) getChunk(ctx context.Context, in *getChunkInput) (*getChunkOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseUint(in.Index, 10, 32)
	if err != nil {
		return nil, queue.Invalid("/path/index", "must be a whole number from 0 to %d", uint32(queue.MaxChunks-1))
	}
	chunk, err := s.engine.Chunk(ctx, id, uint32(index))
	if err != nil {
		return nil, err
	}
	return &getChunkOutput{Body: apiChunk(&chunk)}, nil
}

// listOutputs is GET .../outputs. It writes as the engine reads, whatever the submission holds.
func (s *Server) listOutputs(c echo.Context) error {
	if err := plainPath(c.Request()); err != nil {
		return err
	}
	id, err := SubmissionPath{ID: c.Param("id")}.parse()
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	// An unknown submission must be told before the first byte; later there is only cutting the connection.
	if _, err := s.engine.Submission(ctx, id); err != nil {
		return err
	}
	line := s.pools.buffer()
	defer s.pools.free(line)
	return answerLines(s, c, func(writer *bufio.Writer) error {
		return s.engine.Outputs(ctx, id, func(index uint32, output []byte) error {
			line.b = appendOutput(line.b[:0], index, output)
			_, err := writer.Write(line.b)
			return err
		})
	})
}

// appendOutput appends one line of outputs.
func appendOutput(dst []byte, index uint32, output []byte) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendUint(dst, uint64(index), 10)
	dst = append(dst, `,"output":`...)
	dst = wire.AppendBytes(dst, output)
	return append(dst, '}', '\n')
}
