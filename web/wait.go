package web

// POST /v1/submissions:wait: one call that returns when one, or all, of up to 1,000 submissions
// have ended. They may be in several queues.
//
// A call that waits costs memory for a minute, so the answer is counted (waitBytes for each id)
// before it begins to wait, and the parsed body is dropped. Ids that the token does not cover are
// treated in the same way as ids that do not exist: they are in `unknown`, in the order of the
// request, and count as ended. A difference, also in time, would tell a tenant which ids exist.

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

const (
	waitAbout = "The answer comes when one of the submissions has ended (with `all`, when all have) or after " +
		"`wait_ms`. It has all that have ended by then. They may be in several queues. An id that is unknown, or " +
		"outside the token's bounds, is in `unknown`; it never ends, so it counts as ended. To continue, leave out " +
		"the answered ids. The size of an answer is limited: ended submissions that do not fit are counted in " +
		"`open`, and come with the next call."

	maxWaitBody = 64 << 10 // the most ids, with room for how they are written
	waitBytes   = 128      // of memory for each id while the call waits, about
)

func waitShape(d *document, op *huma.Operation) {
	op.RequestBody = d.body(reflect.TypeFor[api.WaitRequest]())
	op.Responses["200"] = d.answer(reflect.TypeFor[api.WaitResponse](), http.StatusOK)
}

// waiting are the handlers of waits for the ends of submissions.
type waiting struct {
	engine *engine.Engine
	auth   *auth
	bodies *bodies
	waits  *waits
}

// routes are the part of the table about them.
func (w waiting) routes(r *router) {
	r.raw(operation{id: "wait-submissions", method: "POST", path: "/v1/submissions:wait", scope: scopeRead,
		narrow: inHandler, tag: tagSubmissions, compress: true, turns: true,
		summary: "Wait until one of many submissions ends, or all", about: waitAbout}, waitShape, w.many)
}

// many is POST /v1/submissions:wait.
func (w waiting) many(c echo.Context) error {
	ids, in, err := w.read(c)
	if err != nil {
		return err
	}
	ctx, out := c.Request().Context(), api.WaitResponse{Ended: []api.Submission{}}
	if err := access.Of(ctx).Answer.Hold(int64(len(ids)) * waitBytes); err != nil {
		return err
	}
	unknown := map[queue.SubmissionID]bool{}
	known := within(ctx, ids, func(id *queue.SubmissionID) bool {
		not := coverage(ctx, w.engine, &boundTo(ctx).Restriction, *id)
		if queue.CodeOf(not) == queue.CodeUnknownSubmission {
			unknown[*id] = true
		} else if err == nil {
			err = not
		}
		return not == nil
	})
	if err != nil {
		return err
	}
	if wait := time.Duration(in.WaitMS) * time.Millisecond; wait > 0 &&
		(len(known) == len(ids) || in.All && len(known) > 0) {
		if ctx, err = w.wait(c, known, wait, in.All); err != nil {
			return err
		}
	}
	if err := inTurn(w.bodies.clock, c, func() error { return w.report(ctx, ids, unknown, &out) }); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// report says how the submissions stand, as far as it fits into an answer.
func (w waiting) report(ctx context.Context, ids []queue.SubmissionID, unknown map[queue.SubmissionID]bool,
	out *api.WaitResponse) error {
	answer, full := access.Gather(ctx), false
	for _, id := range ids { // in one order, which does not tell what is unknown from what is another's
		sub, err := queue.Submission{}, error(nil)
		if !unknown[id] {
			sub, err = w.engine.Submission(ctx, id)
		}
		switch {
		case unknown[id] || queue.CodeOf(err) == queue.CodeUnknownSubmission:
			out.Unknown = append(out.Unknown, id.String())
		case err != nil:
			return err
		case sub.State == queue.Open || full:
			out.Open++
		default:
			out.Ended = append(out.Ended, submissionFor(ctx)(&sub))
			full = !answer.Fits(queue.SubmissionBytes(&sub))
		}
	}
	return nil
}

// read reads the body; an id that is there twice is waited for once.
func (w waiting) read(c echo.Context) (ids []queue.SubmissionID, in api.WaitRequest, err error) {
	body, err := w.bodies.readJSON(c, maxWaitBody)
	if err != nil {
		return nil, in, err
	}
	defer w.bodies.free(body)
	if err := wire.Decode(body.b, &in); err != nil {
		return nil, in, wireProblem[api.WaitRequest](err, body.b, contentJSON)
	}
	switch {
	case len(in.IDs) == 0 || len(in.IDs) > queue.MaxWaitIDs:
		return nil, in, queue.Invalid("/ids", "has %d ids; 1 to %d are allowed", len(in.IDs), queue.MaxWaitIDs)
	case in.WaitMS < 0 || in.WaitMS > queue.MaxWait.Milliseconds():
		return nil, in, queue.Invalid("/wait_ms", "is %d; 0 to %d are allowed", in.WaitMS, queue.MaxWait.Milliseconds())
	}
	seen := make(map[queue.SubmissionID]bool, len(in.IDs))
	for i, text := range in.IDs {
		id, err := submissionAt("/ids/"+strconv.Itoa(i), text)
		if err != nil {
			return nil, in, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	in.IDs = nil // they are not needed while the call waits
	return ids, in, nil
}

// wait waits, with the deadlines of a request that does.
func (w waiting) wait(c echo.Context, ids []queue.SubmissionID, wait time.Duration, all bool) (context.Context, error) {
	by := w.auth.credentialOf(c.Request())
	if w.waits.enter(c.Response(), by, wait) {
		defer w.waits.leave(c.Response())
	}
	ctx, err := w.ends(c.Request().Context(), ids, wait, all)
	if err != nil && by != nil && !w.auth.good(by) {
		return ctx, noLongerGood()
	}
	return ctx, err
}

// ends waits for the ends of submissions. The context that it returns is for reading how
// they stand: when the server stops, what is known then is a better answer than an error.
func (w waiting) ends(ctx context.Context, ids []queue.SubmissionID, wait time.Duration,
	all bool) (context.Context, error) {
	if w.waits.stopped() {
		return ctx, nil
	}
	err := w.engine.WaitEnds(ctx, ids, wait, all)
	if err != nil && w.waits.stopped() {
		return context.WithoutCancel(ctx), nil
	}
	return ctx, err
}
