package web

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// located is an input whose path names a queue, or something in one.
type located interface {
	// locate finds the queue, and reads the rest of the path.
	locate(e *engine.Engine) (*engine.Queue, error)
}

// registerIn adds an operation about a queue that serves, and gives the queue to the handler.
func registerIn[I any, P interface {
	*I
	located
}, O any](r *router, op operation, handler func(context.Context, *engine.Queue, *I) (*O, error)) {
	register(r, op, func(ctx context.Context, in *I) (*O, error) {
		q, err := P(in).locate(r.engine)
		if err != nil {
			return nil, err
		}
		return handler(ctx, q, in)
	})
}

// bodyProblem says why the body of an input could not be read, if so. It uses reflection, so that no handler can
// forget to ask: it would take an unreadable body for the zero value.
func bodyProblem[I any](in *I) error {
	field, is := reflect.TypeFor[I]().FieldByName("Body")
	if !is {
		return nil
	}
	if body, strict := reflect.ValueOf(in).Elem().FieldByIndex(field.Index).Addr().Interface().(interface {
		problem() error
	}); strict {
		return body.problem()
	}
	return nil
}

// output is the output of an operation that has nothing but a body.
type output[T any] struct{ Body T }

// tagged is the output of an operation that shows something with an ETag. The body has the ETag too: a client that
// keeps only the body of a list can still send If-Match.
type tagged[T any] struct {
	ETag string `header:"ETag" doc:"ETag of this version, if there is one"`
	Body T
}

// answeredTagged is the answer of a handler that shows something with an ETag, or fails.
func answeredTagged[T any](body T, etag string, err error) (*tagged[T], error) {
	if err != nil {
		return nil, err
	}
	return &tagged[T]{etag, body}, nil
}

// creation is the output of an operation that makes something.
type creation[T any] struct {
	Status   int
	Location string `header:"Location" doc:"Path of the new object"`
	Body     T
}

// answeredCreation is the answer of a handler that makes something, or finds it there, or fails.
func answeredCreation[T any](body T, created bool, location string, err error) (*creation[T], error) {
	switch {
	case err != nil:
		return nil, err
	case !created:
		return &creation[T]{Status: http.StatusOK, Body: body}, nil
	}
	return &creation[T]{http.StatusCreated, location, body}, nil
}

// taggedCreation is the output of an operation that makes something with an ETag.
type taggedCreation[T any] struct {
	Status   int
	Location string `header:"Location" doc:"Path of the new object"`
	ETag     string `header:"ETag" doc:"ETag of this version"`
	Body     T
}

// answeredTaggedCreation is answeredCreation for something with an ETag.
func answeredTaggedCreation[T any](body T, etag string, created bool, location string,
	err error) (*taggedCreation[T], error) {
	out, err := answeredCreation(body, created, location, err)
	if err != nil {
		return nil, err
	}
	return &taggedCreation[T]{out.Status, out.Location, etag, out.Body}, nil
}

// answered is the answer of a handler that shows one thing, or fails.
func answered[T, A any](thing T, err error, show func(*T) A) (*output[A], error) {
	if err != nil {
		return nil, err
	}
	return &output[A]{show(&thing)}, nil
}

// answeredPage is the answer of a handler that shows a page of a list, or fails.
func answeredPage[T, A any](page engine.Page[T], err error, show func(*T) A) (*output[api.Page[A]], error) {
	return answered(page, err, func(page *engine.Page[T]) api.Page[A] {
		return api.Page[A]{Items: showAll(page.Items, show), Next: page.Next}
	})
}

// showAll is a list as JSON has it: an empty one is [], not null. Clients of typed languages need not tell null from
// an empty list then.
func showAll[T, A any](list []T, show func(*T) A) []A {
	out := make([]A, len(list))
	for i := range list {
		out[i] = show(&list[i])
	}
	return out
}

// asIs shows a value that is of package api already.
func asIs[T any](thing *T) T { return *thing }

// QueuePath names the queue that an operation is about. It is exported because huma only
// looks into exported fields.
type QueuePath struct {
	Queue string `path:"queue" maxLength:"64" doc:"Name of the queue"`
}

func (p *QueuePath) locate(e *engine.Engine) (*engine.Queue, error) { return e.Queue(p.Queue) }

// queueBody is the input of an operation about a queue that has a body.
type queueBody[T any] struct {
	QueuePath
	Body decoded[T]
}

// RawQuery keeps the query for parameters that huma cannot take apart; exported like QueuePath.
type RawQuery struct{ raw string }

// Resolve is called by huma with the request; it refuses nothing, the handler does.
func (q *RawQuery) Resolve(ctx huma.Context) []error {
	at := ctx.URL()
	q.raw = at.RawQuery
	return nil
}

var _ huma.Resolver = (*RawQuery)(nil)

// queueQuery is the input of a list of a queue that is narrowed by parameters which huma cannot take apart.
type queueQuery struct {
	QueuePath
	RawQuery
}

// SubmissionPath names the submission that an operation is about; exported like QueuePath.
type SubmissionPath struct {
	ID string `path:"id" maxLength:"20" doc:"Id of the submission, as the insert returned it"`

	id queue.SubmissionID
}

func (p *SubmissionPath) locate(e *engine.Engine) (q *engine.Queue, err error) {
	if p.id, err = submissionAt("/path/id", p.ID); err != nil {
		return nil, err
	}
	return e.QueueOf(p.id)
}

// submissionAt reads the id of a submission. A wrong one points at its place.
func submissionAt(pointer, text string) (queue.SubmissionID, error) {
	id, err := queue.ParseSubmissionID(text)
	if err != nil {
		return 0, queue.Invalid(pointer, "must be a decimal number of at most 63 bits, as the insert returned it")
	}
	return id, nil
}

// ChunkPath names a chunk; exported like QueuePath.
type ChunkPath struct {
	SubmissionPath
	Index string `path:"index" maxLength:"10" doc:"Index of the chunk, from 0"`

	chunk queue.ChunkID
}

func (p *ChunkPath) locate(e *engine.Engine) (q *engine.Queue, err error) {
	if p.chunk, err = chunkAt("/path/id", p.ID, p.Index); err != nil {
		return nil, err
	}
	p.id = p.chunk.Submission
	return e.QueueOf(p.id)
}

// chunkAt reads the id of a submission, which stands at the pointer, and the index of a chunk in it. Whether the
// submission has this many chunks is checked later, where it is known.
func chunkAt(pointer, id, index string) (chunk queue.ChunkID, err error) {
	if chunk.Submission, err = submissionAt(pointer, id); err != nil {
		return chunk, err
	}
	n, err := strconv.ParseUint(index, 10, 32)
	if err != nil {
		return chunk, queue.Invalid("/path/index", "must be a whole number from 0 to %d", uint32(queue.MaxChunks-1))
	}
	chunk.Index = uint32(n)
	return chunk, nil
}

// If-Match and If-None-Match: a change depends on the version that the client saw. The engine
// checks the conditions in the same hold of the lock in which it makes the change. If they were
// checked before it, two clients could both pass.

// Conditions has the headers that make a change depend on the current state. It is exported because
// huma only looks into exported fields.
type Conditions struct {
	IfMatch     string `header:"If-Match" doc:"ETags; one must be that of the newest version. *: a version must exist"`
	IfNoneMatch string `header:"If-None-Match" doc:"*: none may exist"`
}

// Match is the header of a change of something that always exists: settings of a queue, a priority, a content. There
// is no If-None-Match for it, which would refuse every change. It is exported like Conditions.
type Match struct {
	IfMatch string `header:"If-Match" doc:"ETags; one must be that of what the change replaces. *: any"`
}

// hold refuses a change of anything that If-Match does not name.
func (m *Match) hold(etag string) error {
	if m.IfMatch == "" || matchesETag(m.IfMatch, etag) {
		return nil
	}
	return newProblem(codePrecondition, changedSince)
}

// changedSince names no version: a digest tells its reader nothing, and what changed is in the audit log.
const changedSince = "It has changed: its ETag is not one that If-Match names. Read it again, then retry with its " +
	"new ETag."

// hold refuses a change if the conditions do not hold for the present state: a version
// from 1 on, with its ETag, or 0 for nothing.
func (c *Conditions) hold(what string, version uint32, etag string) error {
	switch {
	case c.IfNoneMatch != "" && strings.TrimSpace(c.IfNoneMatch) != "*":
		return queue.Invalid("/header/If-None-Match",
			"must be *, which only creates; to replace something that exists, send its ETag in If-Match")
	case version != 0 && c.IfNoneMatch != "":
		return newProblem(codePrecondition, fmt.Sprintf("There is a %s already, with the ETag %s.", what, etag))
	case version == 0 && c.IfMatch != "":
		return newProblem(codePrecondition, fmt.Sprintf("There is no %s, so none that If-Match could name.", what))
	case c.IfMatch != "" && !matchesETag(c.IfMatch, etag):
		return newProblem(codePrecondition, changedSince)
	}
	return nil
}

// matchesETag compares strongly: a weak ETag matches nothing. Our ETags have no commas, so
// the list can be cut at them.
func matchesETag(list, etag string) bool {
	for candidate := range strings.SplitSeq(list, ",") {
		if candidate = strings.TrimSpace(candidate); candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}
