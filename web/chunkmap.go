package web

import (
	"context"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	mapAbout = "The chunks from index `from` up to `to`, counted by state in cells of one size; at most " +
		"1,048,576 chunks are looked at, and `to` of the answer says where to go on. What moves meanwhile is counted where it was met."
	attemptsAbout = "The ended tries that are remembered, the oldest first: the last 10, over all redrives. What is " +
		"remembered of a chunk is forgotten when it is done."
)

// pageRoutes are the part of the table about what single pages of the dashboard show.
func (s *Server) pageRoutes(d *document) {
	register(d, operation{id: "list-views", method: "GET", path: "/v1/queues/{queue}/views", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the indexes that strategies stand on, with the memory that they take", about: viewsAbout}, s.listViews)
	register(d, operation{id: "list-ledgers", method: "GET", path: "/v1/queues/{queue}/ledgers", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the Fair blocks that are in use"}, s.listLedgers)
	register(d, operation{id: "get-ledger", method: "GET", path: "/v1/queues/{queue}/ledgers/{ledger}",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Read what the tenants of a Fair block were entitled to and what they received", about: ledgerAbout}, s.getLedger)
	register(d, operation{id: "get-chunk-map", method: "GET", path: "/v1/submissions/{id}/map", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true,
		summary: "Count a submission's chunks by state, stretch by stretch", about: mapAbout}, s.getMap)
	register(d, operation{id: "list-chunk-attempts", method: "GET",
		path: "/v1/submissions/{id}/chunks/{index}/attempts", scope: scopeRead, narrow: inSub, tag: tagSubmissions,
		summary: "List the ended tries of a chunk", about: attemptsAbout}, s.listAttempts)
}

type getMapInput struct {
	SubmissionPath
	From  uint32 `query:"from" doc:"Index of the first chunk"`
	To    uint32 `query:"to" doc:"Index behind the last chunk; left out: the end"`
	Cells int    `query:"cells" minimum:"1" maximum:"1000" default:"500" doc:"Most cells"`
}

type getMapOutput struct{ Body api.ChunkMap }

func (s *Server) getMap(ctx context.Context, in *getMapInput) (*getMapOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	m, err := s.engine.Map(ctx, id, in.From, in.To, in.Cells)
	if err != nil {
		return nil, err
	}
	column := func(state queue.ChunkState) []uint32 {
		out := make([]uint32, len(m.Cells))
		for i := range m.Cells {
			out[i] = m.Cells[i][state]
		}
		return out
	}
	skipped := column(queue.ChunkSkipped)
	for i := range m.Cells {
		for _, n := range m.Cells[i][queue.ChunkSkipped+1:] { // kinds of it
			skipped[i] += n
		}
	}
	return &getMapOutput{Body: api.ChunkMap{
		Chunks: m.Chunks, From: m.From, To: m.To, Each: m.Each, Ready: column(queue.ChunkReady), Waiting: column(queue.ChunkWaiting),
		Reserved: column(queue.ChunkReserved), Done: column(queue.ChunkDone), Dead: column(queue.ChunkDead), Skipped: skipped,
	}}, nil
}

type listAttemptsOutput struct{ Body api.Page[api.Attempt] }

func (s *Server) listAttempts(ctx context.Context, in *getChunkInput) (*listAttemptsOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseUint(in.Index, 10, 32)
	if err != nil {
		return nil, queue.Invalid("/path/index", "must be a whole number from 0 to %d", uint32(queue.MaxChunks-1))
	}
	past, err := s.engine.Attempts(ctx, id, uint32(index))
	if err != nil {
		return nil, err
	}
	out := &listAttemptsOutput{Body: api.Page[api.Attempt]{Items: make([]api.Attempt, len(past))}}
	for i := range past {
		out.Body.Items[i] = apiAttempt(&past[i])
	}
	return out, nil
}

func apiAttempt(a *queue.Attempt) api.Attempt {
	return api.Attempt{EndedAt: apiTime(a.Ended), Consumer: a.Consumer, HeldMS: a.Held.Milliseconds(), Expired: a.Expired, Error: a.Error}
}
