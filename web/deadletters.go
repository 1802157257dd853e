package web

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listDeadAbout = "Chunks out of attempts whose submission is open or completed with dead ones: of the newest submission first, and of one submission by index. " +
		"They stay until they are redriven or deleted, or until the retention of their submission, which begins when it ends."
	groupsAbout  = "Errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts have one fingerprint. At most 100,000 dead letters are looked at, those of the newest submissions first."
	redriveAbout = "The chunk is ready again with no try counted; its history stays. A submission that completed with dead chunks is open again. 409 if its dead_deadline passed."
	bulkAbout    = "Does something with all dead letters of a queue that the filter means and that died before now, in the background. " +
		"A restart of the server forgets the operation; what it did stays done, and the same request goes on with the rest."
)

// deadRoutes are the part of the table about dead letters and what is done with many of them.
func (s *Server) deadRoutes(d *document) {
	register(d, operation{id: "list-dead-letters", method: "GET", path: "/v1/queues/{queue}/dead-letters", scope: scopeRead, tag: tagDeadLetters, compress: true,
		summary: "List dead letters", about: listDeadAbout}, s.listDead)
	register(d, operation{id: "list-dead-letter-groups", method: "GET", path: "/v1/queues/{queue}/dead-letters/groups", scope: scopeRead, tag: tagDeadLetters, compress: true,
		summary: "Group dead letters by the fingerprint of their errors", about: groupsAbout}, s.listDeadGroups)
	register(d, operation{id: "get-dead-letter", method: "GET", path: "/v1/queues/{queue}/dead-letters/{submission}/{index}", scope: scopeRead, tag: tagDeadLetters,
		summary: "Read a dead letter with the history of its last 10 tries"}, s.getDead)
	register(d, operation{id: "redrive-dead-letter", method: "POST", path: "/v1/queues/{queue}/dead-letters/{submission}/{index}/redrive", scope: scopeOperate, tag: tagDeadLetters,
		summary: "Offer a dead chunk again", about: redriveAbout}, s.redriveDead)
	register(d, operation{id: "delete-dead-letter", method: "DELETE", path: "/v1/queues/{queue}/dead-letters/{submission}/{index}", scope: scopeOperate, tag: tagDeadLetters,
		summary: "Give a dead chunk up for good", about: "It counts as skipped from then on."}, s.deleteDead)

	register(d, operation{id: "list-bulk-operations", method: "GET", path: "/v1/bulk-operations", scope: scopeRead, tag: tagDeadLetters, compress: true,
		summary: "List bulk operations, newest first", about: "Since the server's start, the last 200."}, s.listBulks)
	register(d, operation{id: "start-bulk-operation", method: "POST", path: "/v1/bulk-operations", scope: scopeOperate, tag: tagDeadLetters, accepts: true,
		summary: "Redrive or delete many dead letters", about: bulkAbout}, s.startBulk)
	register(d, operation{id: "get-bulk-operation", method: "GET", path: "/v1/bulk-operations/{id}", scope: scopeRead, tag: tagDeadLetters,
		summary: "Read how far a bulk operation got"}, s.getBulk)
	register(d, operation{id: "cancel-bulk-operation", method: "POST", path: "/v1/bulk-operations/{id}/cancel", scope: scopeOperate, tag: tagDeadLetters,
		summary: "Stop a bulk operation", about: "What it did stays done. One that has ended stays as it is."}, s.cancelBulk)
}

// DeadQuery is the filter in a query; exported like QueuePath.
type DeadQuery struct {
	Submission  string `query:"submission" maxLength:"20" doc:"Of this submission only"`
	Fingerprint string `query:"fingerprint" maxLength:"16" doc:"With this fingerprint only"`
	DiedBefore  string `query:"died_before" maxLength:"40" doc:"Died earlier than this time (RFC 3339)"`
}

func (q *DeadQuery) filter() (f queue.DeadFilter, err error) {
	f.Fingerprint = q.Fingerprint
	if q.Submission != "" {
		if f.Submission, err = queue.ParseSubmissionID(q.Submission); err != nil {
			return f, queue.Invalid("/query/submission", "must be a decimal number of at most 63 bits, as the insert returned it")
		}
	}
	if q.DiedBefore != "" {
		at, err := time.Parse(time.RFC3339, q.DiedBefore)
		if err != nil {
			return f, queue.Invalid("/query/died_before", "must be a time like 2026-01-31T12:00:00Z")
		}
		f.DiedBefore = queue.At(at)
	}
	return f, nil
}

type listDeadInput struct {
	QueuePath
	DeadQuery
	Cursor string `query:"cursor" maxLength:"64" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

type listDeadOutput struct{ Body api.Page[api.DeadLetter] }

func (s *Server) listDead(ctx context.Context, in *listDeadInput) (*listDeadOutput, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	page, err := s.engine.DeadLetters(ctx, in.Queue, engine.DeadRequest{Filter: f, Cursor: in.Cursor, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &listDeadOutput{Body: api.Page[api.DeadLetter]{Items: make([]api.DeadLetter, len(page.Items)), Next: page.Next}}
	for i := range page.Items {
		out.Body.Items[i] = apiDeadLetter(&page.Items[i])
	}
	return out, nil
}

type listGroupsInput struct {
	QueuePath
	DeadQuery
}

type listGroupsOutput struct{ Body api.DeadGroups }

func (s *Server) listDeadGroups(ctx context.Context, in *listGroupsInput) (*listGroupsOutput, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	groups, whole, err := s.engine.DeadGroups(ctx, in.Queue, f)
	if err != nil {
		return nil, err
	}
	out := &listGroupsOutput{Body: api.DeadGroups{Items: make([]api.DeadGroup, len(groups)), Whole: whole}}
	for i, g := range groups {
		out.Body.Items[i] = api.DeadGroup{
			Fingerprint: g.Fingerprint, Pattern: g.Pattern, Example: g.Example, Count: g.Count, Submissions: g.Submissions,
			FirstDiedAt: apiTime(g.First), LastDiedAt: apiTime(g.Last),
		}
	}
	return out, nil
}

// DeadPath names a dead letter; exported like QueuePath.
type DeadPath struct {
	QueuePath
	Submission string `path:"submission" maxLength:"20" doc:"Id of the submission"`
	Index      string `path:"index" maxLength:"10" doc:"Index of the chunk, from 0"`
}

func (p *DeadPath) parse() (id queue.ChunkID, err error) {
	if id.Submission, err = queue.ParseSubmissionID(p.Submission); err != nil {
		return id, queue.Invalid("/path/submission", "must be a decimal number of at most 63 bits, as the insert returned it")
	}
	index, err := strconv.ParseUint(p.Index, 10, 32)
	if err != nil {
		return id, queue.Invalid("/path/index", "must be a whole number from 0 to %d", uint32(queue.MaxChunks-1))
	}
	id.Index = uint32(index)
	return id, nil
}

type deadOutput struct{ Body api.DeadLetter }

func (s *Server) getDead(ctx context.Context, in *DeadPath) (*deadOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	d, err := s.engine.DeadLetter(ctx, in.Queue, id)
	if err != nil {
		return nil, err
	}
	out := &deadOutput{Body: apiDeadLetter(&d)}
	for _, a := range d.Past {
		out.Body.History = append(out.Body.History, api.Attempt{
			EndedAt: apiTime(a.Ended), Consumer: a.Consumer, HeldMS: a.Held.Milliseconds(), Expired: a.Expired, Lost: a.Lost, Error: a.Error,
		})
	}
	return out, nil
}

func (s *Server) redriveDead(ctx context.Context, in *DeadPath) (*submissionOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	if err := s.engine.Redrive(ctx, in.Queue, id); err != nil {
		return nil, err
	}
	sub, err := s.engine.Submission(ctx, id.Submission)
	if err != nil {
		return nil, err
	}
	out := &submissionOutput{Body: apiSubmission(&sub)}
	if s.relaxed(sub.Queue) {
		out.Durability = queue.Relaxed.String()
	}
	return out, nil
}

func (s *Server) deleteDead(ctx context.Context, in *DeadPath) (*struct{}, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	return nil, s.engine.DeleteDead(ctx, in.Queue, id)
}

type startBulkInput struct {
	Body decoded[api.BulkRequest]
}

type startBulkOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the operation"`
	Body     api.BulkOperation
}

func (s *Server) startBulk(ctx context.Context, in *startBulkInput) (*startBulkOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	asked := &in.Body.value
	r := engine.BulkRequest{Queue: asked.Queue, Rate: asked.RatePerSecond, DryRun: asked.DryRun}
	var ok bool
	if r.Action, ok = engine.ParseBulkAction(asked.Action); !ok {
		return nil, queue.Invalid("/action", "must be redrive or delete")
	}
	r.Filter.Fingerprint = asked.Filter.Fingerprint
	if text := asked.Filter.Submission; text != "" {
		id, err := queue.ParseSubmissionID(text)
		if err != nil {
			return nil, queue.Invalid("/filter/submission", "must be a decimal number of at most 63 bits, as the insert returned it")
		}
		r.Filter.Submission = id
	}
	if at := asked.Filter.DiedBefore; !at.IsZero() {
		r.Filter.DiedBefore = queue.Time(at.UnixMilli())
	}
	b, err := s.engine.StartBulk(ctx, r)
	if err != nil {
		return nil, err
	}
	return &startBulkOutput{Status: http.StatusAccepted, Location: "/v1/bulk-operations/" + b.ID, Body: apiBulk(&b)}, nil
}

type listBulksOutput struct{ Body api.Page[api.BulkOperation] }

func (s *Server) listBulks(context.Context, *struct{}) (*listBulksOutput, error) {
	list := s.engine.Bulks()
	out := &listBulksOutput{Body: api.Page[api.BulkOperation]{Items: make([]api.BulkOperation, len(list))}}
	for i := range list {
		out.Body.Items[i] = apiBulk(&list[i])
	}
	return out, nil
}

// BulkPath names a bulk operation; exported like QueuePath.
type BulkPath struct {
	ID string `path:"id" maxLength:"64" doc:"Id of the operation"`
}

type bulkOutput struct{ Body api.BulkOperation }

func (s *Server) getBulk(_ context.Context, in *BulkPath) (*bulkOutput, error) {
	b, err := s.engine.Bulk(in.ID)
	if err != nil {
		return nil, err
	}
	return &bulkOutput{Body: apiBulk(&b)}, nil
}

func (s *Server) cancelBulk(_ context.Context, in *BulkPath) (*bulkOutput, error) {
	b, err := s.engine.CancelBulk(in.ID)
	if err != nil {
		return nil, err
	}
	return &bulkOutput{Body: apiBulk(&b)}, nil
}

func apiDeadLetter(d *queue.DeadChunk) api.DeadLetter {
	return api.DeadLetter{
		Submission: d.Chunk.Submission.String(), Index: d.Chunk.Index, SubmissionState: d.State.String(), Attempts: uint32(d.Attempts),
		Expiries: uint32(d.Expiries), Redrives: uint32(d.Redrives), DiedAt: apiTime(d.Died), Consumer: d.Consumer, Error: d.Error, Fingerprint: d.Fingerprint,
	}
}

func apiBulk(b *engine.Bulk) api.BulkOperation {
	out := api.BulkOperation{
		ID: b.ID, Queue: b.Queue, Action: b.Action.String(), RatePerSecond: b.Rate, DryRun: b.DryRun, State: b.State.String(),
		Filter:    api.DeadFilter{Fingerprint: b.Filter.Fingerprint, DiedBefore: apiTime(b.Filter.DiedBefore)},
		CreatedAt: apiTime(b.Created), FinishedAt: apiTime(b.Finished), Matched: b.Matched, Done: b.Done, Refused: b.Refused, Failure: b.Failure,
	}
	if b.Filter.Submission != 0 {
		out.Filter.Submission = b.Filter.Submission.String()
	}
	return out
}
