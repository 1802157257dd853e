package web

// Insert of one submission. Its three forms (inline, template, prefix) and both media types (JSON,
// JSON lines) become one queue.NewSubmission. The engine inserts it as a list of one, so a single
// insert and an insert of many follow the same path and the same rules.
//
// Inline chunks are not copied: they point into the body, which is freed when the call returns.
// Everything that the engine keeps in memory, it copies.
//
//	Idempotency-Key ─┐
//	body ─ wire ─► insertCall.request ─ newSubmission ─► queue.NewSubmission ─► Queue.InsertMany ─► journal
//	                └ memory of the call before          └ meta checked against the token

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

const insertAbout = "Give the work as `count` with an object `prefix`, as `count` with a `template`, or as " +
	"`inline` bytes. As `application/x-ndjson`, the first line is the submission without chunks, and each " +
	"further line is the bytes of one chunk. With an `Idempotency-Key` you can safely send the same request " +
	"again for 24 hours. A replay answers 200 with the present state of the submission and " +
	"`Idempotency-Replayed: true`, or 404 once the retention of the submission is over. Requests are the same if " +
	"they mean the same: the order of fields, white space and explicit defaults do not matter. With `unique`, an " +
	"insert whose key another submission holds inserts nothing: it answers 200 with that submission and " +
	"`Quern-Existing: true`."

// insertCall is the memory of one insert, kept for the next.
// An insert is one of the three calls that a busy server answers most. With this memory it allocates the data that the
// engine keeps, its context, and little else. The others are reserve and complete, which have memory of the same kind.
type insertCall struct {
	request wire.InsertRequest
	meta    []queue.MetaEntry
	scratch []byte
}

// inserting are the handlers of inserts.
type inserting struct {
	engine  *engine.Engine
	auth    *auth
	bodies  *bodies
	answers *answers
	tracing *tracing
	nodes   *forwarding
	log     *slog.Logger
	lines   *lines // limits how many lines a failing call may write to the log

	calls pool[insertCall]
	many  pool[insertManyCall]
}

// routes are the part of the table about inserts.
func (x *inserting) routes(r *router) {
	r.raw(operation{id: "insert", brings: true, hot: true, method: "POST", path: "/v1/queues/{queue}/submissions",
		scope: scopeProduce, narrow: inQueue | inHandler, tag: tagSubmissions,
		summary: "Insert a submission", about: insertAbout}, insertShape, x.insert)
	r.raw(operation{id: "insert-batch", brings: true, hot: true, method: "POST",
		path:  "/v1/queues/{queue}/submissions:batch",
		scope: scopeProduce, narrow: inQueue | inHandler, tag: tagSubmissions,
		summary: "Insert many submissions in one commit", about: insertManyAbout}, insertManyShape, x.insertMany)
}

// A call with a large inline list is not kept: the pool would hold its memory for calls that need little.
func (x *inserting) free(call *insertCall) {
	if cap(call.request.Inline) <= keepItems {
		call.request.Inline = nil
		x.calls.Put(call)
	}
}

// insert is POST .../submissions.
func (x *inserting) insert(c echo.Context) error {
	r := c.Request()
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	media, body, err := x.body(c)
	if err != nil {
		return err
	}
	defer x.bodies.free(body)
	call := x.calls.take()
	defer x.free(call)

	if media == contentLines {
		err = call.request.DecodeLines(body.b)
	} else {
		err = call.request.Decode(body.b)
	}
	if err != nil {
		return wireProblem[api.NewSubmission](err, body.b, media)
	}
	asked, err := x.newSubmission(c, call, key)
	if err != nil {
		return err
	}
	q, err := x.engine.Work(c.Param("queue"))
	if err != nil {
		return err
	}
	one := []queue.Insertion{{New: &asked}}
	// The body is sent on as it came. It was decoded here only to find the group, which any of its forms may have.
	if s := x.nodes.dispersed(c, q); s != nil {
		switch at, err := x.nodes.home(c, s, one); {
		case err != nil:
			return err
		case at != nil:
			return x.nodes.sendBody(c, at, body.b)
		}
	}
	if err = q.InsertMany(x.auth.asking(c), one, false); err == nil {
		err = narrowRefusal(r.Context(), one[0].Err)
	}
	if err != nil {
		return err
	}
	x.tracing.inserted(c, &one[0].Submission, one[0].Replayed || one[0].Existing)
	sayDurability(c, q)
	return x.answerInsert(c, call, &one[0])
}

// body reads the body of an insert, which the caller frees, and says which of the two media types it has. The media
// type is checked before a byte of a body is read, which may have many megabytes.
func (x *inserting) body(c echo.Context) (media string, body *buffer, err error) {
	if media, err = mediaType(c.Request(), contentJSON, contentLines); err != nil {
		return "", nil, err
	}
	if err := plainPath(c.Request()); err != nil {
		return "", nil, err
	}
	body, err = x.bodies.read(c, maxInsertBytes)
	return media, body, err
}

// The answer is encoded by hand into pooled memory, as the answers to reserves are. The meta in it points into
// call.scratch, which is why the call is freed only behind the answer.
func (x *inserting) answerInsert(c echo.Context, call *insertCall, in *queue.Insertion) error {
	status, inserted := http.StatusCreated, &in.Submission
	header := c.Response().Header()
	if in.Replayed {
		status = http.StatusOK
		header.Set(headerReplayed, "true")
	} else if in.Existing {
		status = http.StatusOK
		header.Set(headerExisting, "true")
	}
	header.Set("Location", "/v1/submissions/"+inserted.ID.String())
	answer := wireSubmission(inserted, x.engine, call.scratch[:0])
	answer.Existing = in.Existing
	call.scratch = answer.Meta
	out := x.answers.buffers.take()
	defer x.answers.buffers.free(out)
	out.b = answer.Append(out.b[:0])
	return x.answers.json(c, status, out.b)
}

// newSubmission turns the request into the engine's, in the name of the caller. It acts in the caller's name in three
// ways: the meta must have the value that the token is bound to, the idempotency key is made its own (narrowKey: two
// tenants may use the same key), and the trace is the one of the call if the body has none.
func (x *inserting) newSubmission(c echo.Context, call *insertCall, key string) (queue.NewSubmission, error) {
	asked, err := engineSubmission(call)
	if err != nil {
		return asked, err
	}
	ctx := c.Request().Context()
	if token := tenantOf(ctx); token != nil && !token.CoversMeta(asked.Meta) {
		return asked, newProblem(codeForbidden, "The token "+strconv.Quote(token.Name)+" is bound to "+
			token.Restriction.Bounds()+".", queue.Problem{Pointer: "/meta",
			Detail: "must have " + token.Restriction.Bounds()})
	}
	if asked.Unique != nil {
		narrowUnique(ctx, asked.Unique)
	}
	if err := x.seesAll(ctx, asked.After); err != nil {
		return asked, err
	}
	if key != "" {
		asked.IdempotencyKey, asked.Fingerprint = narrowKey(ctx, key), asked.Meaning()
	}
	asked.Trace, err = x.tracing.contextFor(c, call.request.Trace)
	return asked, err
}

// seesAll refuses to wait for submissions that the caller may not see, as if they did not exist.
func (x *inserting) seesAll(ctx context.Context, after *queue.After) error {
	token := boundTo(ctx)
	if token == nil || after == nil {
		return nil
	}
	for _, id := range after.IDs {
		if coverage(ctx, x.engine, &token.Restriction, id) != nil {
			return after.Unknown(id)
		}
	}
	return nil
}

// engineSubmission turns the request into the engine's words. Inline chunks still point
// into the body, which outlives the call; all that the engine keeps in memory is copied.
// It only translates. The engine decides whether a value is in its range, so an insert by a schedule or from another
// queue meets the same checks.
func engineSubmission(call *insertCall) (queue.NewSubmission, error) {
	in := &call.request
	out := queue.NewSubmission{
		Group: string(in.Group), Priority: in.Priority, OperationsPerChunk: in.OperationsPerChunk,
		RunAt: queue.Time(in.RunAt), DeadDeadline: queue.Time(in.DeadDeadline), MaxAttempts: in.MaxAttempts,
		MaxFailedChunks: in.MaxFailedChunks, AttemptTimeout: time.Duration(in.TimeoutMS) * time.Millisecond,
	}
	if in.Attachment != nil {
		out.Attachment = append(make([]byte, 0, len(in.Attachment)), in.Attachment...)
	}
	var err error
	if out.Chunks, err = chunksOf(in); err != nil {
		return out, err
	}
	if in.OnExhausted != nil {
		if out.OnExhausted, err = queue.ParseOnExhausted(string(in.OnExhausted)); err != nil {
			return out, err
		}
	}
	if in.RetryBackoff != nil {
		b, err := queue.NewBackoff("/retry_backoff", *in.RetryBackoff)
		if err != nil {
			return out, err
		}
		out.RetryBackoff = &b
	}
	if in.HasUnique {
		u := &in.Unique
		if out.Unique, err = queue.NewUnique(string(u.Key), string(u.While), string(u.OnConflict)); err != nil {
			return out, err
		}
	}
	if a := in.After; a != nil {
		if out.After, err = queue.NewAfter(a.IDs, a.Until, a.OnUnmet); err != nil {
			return out, err
		}
	}
	call.meta = appendEntries(call.meta[:0], in.Meta)
	out.Meta, err = queue.NewMeta(call.meta)
	return out, err
}

// appendEntries copies texts: the body is used again after the call, and meta outlives it.
func appendEntries(dst []queue.MetaEntry, in []wire.MetaEntry) []queue.MetaEntry {
	for i := range in {
		entry := queue.MetaEntry{Key: string(in[i].Key)}
		if in[i].IsInt {
			entry.Value = queue.IntValue(in[i].Int)
		} else {
			entry.Value = queue.StringValue(string(in[i].Text))
		}
		dst = append(dst, entry)
	}
	return dst
}

// chunksOf checks that exactly one of the three forms was used. Only this face can tell: a
// form that was not given and one that was given empty look the same further down.
func chunksOf(in *wire.InsertRequest) (queue.Chunks, error) {
	forms := 0
	for _, given := range []bool{in.Prefix != nil, in.Template != nil, in.Inline != nil} {
		if given {
			forms++
		}
	}
	switch {
	case forms != 1:
		return queue.Chunks{}, queue.Invalid("/chunks",
			`must have exactly one of "prefix" (with "count"), "template" (with "count") and "inline"`)
	case in.Inline != nil && in.Count != 0:
		return queue.Chunks{}, queue.Invalid("/chunks/count",
			`must be left out beside "inline", whose entries are counted`)
	case in.Inline != nil && len(in.Inline) == 0:
		return queue.Chunks{}, queue.Invalid("/chunks/inline", "is empty; a submission has at least 1 chunk")
	case in.Inline != nil:
		return queue.Chunks{Count: uint32(len(in.Inline)), Inline: in.Inline}, nil
	case in.Count == 0:
		return queue.Chunks{}, queue.Invalid("/chunks/count", "is 0; 1 to %d are allowed", uint32(queue.MaxChunks))
	case in.Prefix != nil && len(in.Prefix) == 0:
		return queue.Chunks{}, queue.Invalid("/chunks/prefix",
			"is empty; give the part that the keys of all chunks share")
	case in.Template != nil && len(in.Template) == 0:
		return queue.Chunks{}, queue.Invalid("/chunks/template",
			"is empty; give a text, in which {index} stands for the chunk's index")
	}
	return queue.Chunks{Count: in.Count, Prefix: string(in.Prefix), Template: string(in.Template)}, nil
}

// idempotencyKey reads the header. Keys are compared byte by byte and never interpreted.
// Two headers are refused: which of them a proxy or a library keeps differs, and the key must not depend on it.
func idempotencyKey(header http.Header) (string, error) {
	const name = "Idempotency-Key"
	values := header[name]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", queue.Invalid("/header/"+name, "is given %d times; give it once", len(values))
	}
	return values[0], checkKey("/header/"+name, values[0])
}

// checkKey refuses an idempotency key that cannot be one. Printable ASCII only, as a key may travel in a header.
func checkKey(pointer, key string) error {
	if key == "" || len(key) > queue.MaxIdempotencyKey {
		return queue.Invalid(pointer, "has %d bytes; 1 to %d are allowed", len(key), queue.MaxIdempotencyKey)
	}
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return queue.Invalid(pointer, "has a character outside printable ASCII")
		}
	}
	return nil
}
