package web

// POST /v1/submissions:wait: one call that returns when one, or all, of up to 1,000 submissions
// have ended. They may be in several queues.
//
//	read ─► ids ─► within: covered? ─┬─ no ──► unknown, counts as ended
//	                                 └─ yes ─► wait, up to a minute ─► report: ended, open, unknown
//
//	In a cluster, spread shares the ids out to the nodes of their queues. The first end wakes the call:
//
//	call ─┬─► this node ── waits ────────┐
//	      ├─► node B ───── waits ── end ─┼─► enough: the others are asked again, without waiting ─► joinWaits
//	      └─► node C ───── waits ────────┘
//
// A call that waits costs memory for a minute, so the answer is counted (waitBytes for each id)
// before it begins to wait, and the parsed body is dropped. Ids that the token does not cover are
// treated in the same way as ids that do not exist: they are in `unknown`, in the order of the
// request, and count as ended. A difference, also in time, would tell a tenant which ids exist.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
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
		"`wait_ms`. It lists all that have ended by then. The submissions may be in several queues. An id that is " +
		"unknown, or outside the token's bounds, is in `unknown`; it never ends, so it counts as ended. To " +
		"continue, leave out the answered ids. The size of an answer is limited: ended submissions that do not fit " +
		"are counted in `open`, and come with the next call."

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
	nodes  *forwarding
}

// routes are the part of the table about them.
func (w waiting) routes(r *router) {
	r.raw(operation{id: "wait-submissions", method: "POST", path: "/v1/submissions:wait", scope: scopeRead,
		narrow: inHandler, tag: tagSubmissions, compress: true, turns: true, spread: w.spread,
		summary: "Wait until one of many submissions ends, or all", about: waitAbout}, waitShape, w.many)
}

// many is POST /v1/submissions:wait. An unknown id counts as ended. So if one end suffices, a request with an unknown
// id does not wait. Ids that do not exist are sorted out first: waiting for them would never end, and the time that
// an answer takes must not tell a tenant which ids others have.
func (w waiting) many(c echo.Context) error {
	ids, in, err := w.read(c)
	if err != nil {
		return err
	}
	ctx, out := c.Request().Context(), api.WaitResponse{Ended: []api.Submission{}}
	// A call that has no room is refused before it waits: after a minute, its client would have waited for nothing.
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
	// Many calls of one token may wake up at once, when a large submission ends. inTurn lets them build their
	// answers one after another, so that they do not take the processor from other callers.
	if err := inTurn(w.bodies.clock, c, func() error { return w.report(ctx, ids, unknown, &out) }); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// spread is many for submissions of queues that several nodes serve: each node waits for its own.
// The body is looked at twice. First only the ids, without counting anything: most calls are about queues of one
// node and go the ordinary way. Only a call that must be shared out is read whole here.
func (w waiting) spread(c echo.Context) (bool, error) {
	var looked struct{ IDs []string }
	if err := peek(c, &looked); err != nil {
		return false, err
	}
	// An id that cannot be read is at no other node. So this node gets the call, and refuses it with the pointer of
	// the id.
	look := w.nodes.nodes.Lookup()
	at := func(text string) *engine.Elsewhere {
		id, err := queue.ParseSubmissionID(text)
		if err != nil {
			return nil
		}
		return look.Submission(id)
	}
	if _, parts, err := sharedOut(c, looked.IDs, at); err != nil || parts == nil {
		return false, err
	}
	ids, in, err := w.read(c) // it is refused here, where all of it is seen
	if err != nil {
		return true, err
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	about, parts, err := sharedOut(c, texts, at)
	if err != nil {
		return true, err
	}
	if parts == nil { // they have come together meanwhile
		return true, newProblem(queue.CodeMoving,
			"The queue went to another node while this was answered. Send it again.")
	}
	for url, p := range parts {
		p.body, _ = json.Marshal(api.WaitRequest{IDs: about[url], WaitMS: in.WaitMS, All: in.All}) // texts and numbers
	}
	wait := time.Duration(in.WaitMS) * time.Millisecond
	if wait > 0 {
		// The other nodes wait as long as the call does. This node allows for two more rounds of asking beside
		// that.
		if w.waits.enter(c.Response(), w.auth.credentialOf(c.Request()), wait+2*askMost) {
			defer w.waits.leave(c.Response())
		}
	}
	if err := w.partsOf(c, slices.Collect(maps.Values(parts)), wait, in.All); err != nil {
		return true, err
	}
	for _, p := range parts {
		switch {
		case p.err != nil:
			return true, p.failure(w.nodes, c)
		case p.status != http.StatusOK:
			return true, p.relay(c)
		}
	}
	out, err := joinWaits(c, texts, parts)
	if err != nil {
		return true, err
	}
	return true, c.JSON(http.StatusOK, out)
}

// partsOf lets each node wait for its own submissions. The first round ends with the first answer that ends the whole
// wait (enough), which cancels the other nodes' waits. They have not answered by then, so the second round asks them
// once more, without waiting.
func (w waiting) partsOf(c echo.Context, parts []*part, wait time.Duration, all bool) error {
	caller := c.Request().Context()
	ctx, enough := context.WithTimeout(caller, wait+askMost)
	defer enough()
	by := w.nodes.asker(c)
	var asked sync.WaitGroup
	for _, p := range parts {
		asked.Go(func() {
			by.ask(ctx, p)
			if p.err == nil && (p.status != http.StatusOK || !all && wait > 0 && hasEnded(p.text)) {
				enough()
			}
		})
	}
	asked.Wait()
	if caller.Err() != nil {
		// A stop of this server looks like a client that left: both end the context.
		if !w.waits.stopped() {
			return noLonger(w.auth, c)
		}
		caller = context.WithoutCancel(caller) // the known state is a better answer than an error
	}
	ctx, done := context.WithTimeout(caller, askMost)
	defer done()
	for _, p := range parts {
		if errors.Is(p.err, context.Canceled) {
			var now api.WaitRequest
			if err := json.Unmarshal(p.body, &now); err != nil {
				return err
			}
			now.WaitMS = 0
			p.body, _ = json.Marshal(now) // as above
			asked.Go(func() { by.ask(ctx, p) })
		}
	}
	asked.Wait()
	return nil
}

// The rest of this file runs in a cluster only, except report, read and ends. A wait over several nodes consists of a
// wait at each, and the first end ends them all.

// hasEnded says that an answer to a wait has something that ends it.
func hasEnded(text []byte) bool {
	var said struct {
		Ended   []struct{ ID string }
		Unknown []string
	}
	return json.Unmarshal(text, &said) == nil && len(said.Ended)+len(said.Unknown) > 0
}

// joinWaits joins the answers of the nodes, in the order of the request, as far as they fit into an answer. An id is
// at one node only, so the answers cannot contradict each other. Those that do not fit count as open: the caller asks
// again without the ones that it got.
func joinWaits(c echo.Context, ids []string, parts map[string]*part) (out api.WaitResponse, err error) {
	answer := access.Gather(c.Request().Context())
	ended, unknown := map[string]json.RawMessage{}, map[string]bool{}
	for _, p := range parts {
		var said struct {
			Ended   []json.RawMessage
			Open    int
			Unknown []string
		}
		if err := json.Unmarshal(p.text, &said); err != nil {
			return out, fmt.Errorf("web: what %s says of submissions: %w", p.name(), err)
		}
		out.Open += said.Open
		for _, id := range said.Unknown {
			unknown[id] = true
		}
		for _, raw := range said.Ended {
			var one struct{ ID string }
			if err := json.Unmarshal(raw, &one); err != nil {
				return out, fmt.Errorf("web: a submission of %s: %w", p.name(), err)
			}
			ended[one.ID] = raw
		}
	}
	out.Ended = []api.Submission{}
	full := false
	for _, id := range ids {
		raw, there := ended[id]
		switch {
		case unknown[id]:
			out.Unknown = append(out.Unknown, id)
		case there && full:
			out.Open++
		case there:
			var one api.Submission
			if err := json.Unmarshal(raw, &one); err != nil {
				return out, fmt.Errorf("web: a submission: %w", err)
			}
			out.Ended = append(out.Ended, one)
			full = !answer.Fits(len(raw))
		}
	}
	return out, nil
}

// noLonger is why a call that waited ends early: its client is gone, or its token.
func noLonger(a *auth, c echo.Context) error {
	if a.ended(c.Request()) {
		return noLongerGood()
	}
	return newProblem(codeClientGone, "The client went away before the answer.")
}

// report says how the submissions stand, as far as it fits into an answer.
func (w waiting) report(ctx context.Context, ids []queue.SubmissionID, unknown map[queue.SubmissionID]bool,
	out *api.WaitResponse) error {
	answer, full := access.Gather(ctx), false
	for _, id := range ids { // in one order, which does not tell unknown ids from those of others
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
			out.Ended = append(out.Ended, submissionFor(ctx, w.engine)(&sub))
			full = !answer.Fits(queue.SubmissionBytes(&sub))
		}
	}
	return nil
}

// read reads the body; an id that is there twice is waited for once. The order of the first occurrences is kept:
// answers are in the order of the request.
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
	// The memory for a wait and the order of an answer follow from the ids, so each counts once.
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
// they stand: when the server stops, the state that is known then is a better answer than
// an error.
func (w waiting) ends(ctx context.Context, ids []queue.SubmissionID, wait time.Duration,
	all bool) (context.Context, error) {
	if w.waits.stopped() {
		return ctx, nil
	}
	// The check of stopped comes first and again afterwards: a stop between the two also ends the context.
	err := w.engine.WaitEnds(ctx, ids, wait, all)
	if err != nil && w.waits.stopped() {
		return context.WithoutCancel(ctx), nil
	}
	return ctx, err
}

// waits are the requests that wait for something, so that they can be ended when the
// server stops. It is a set and not a tree of contexts, because ten thousand contexts that
// can be cancelled from above cost megabytes.
//
//	enter ─► wait ─► leave        the usual way
//	stop  ─► read deadline in the past ─► net/http ends the request's context ─► the handler answers ─► leave
//	end   ─► the same, for those whose token or session is over
//
// The answer of a wait that is ended still goes out: only reading ends. multiplexed does the same for HTTP/2. The
// key is the writer of the answer: no two requests that run share one.
type waits struct {
	clock *clock

	mu   sync.Mutex
	set  map[http.ResponseWriter]*credential // nil: it needed none
	over bool
}

// enter adds a request before it waits. It says no when the server stops: then no request
// may wait any more. Before that the deadlines of the request are moved, as stopping sets
// one too: reading only serves to notice that the client went away, so it has no limit,
// and the time for the answer starts when the wait ends.
func (w *waits) enter(writer http.ResponseWriter, by *credential, wait time.Duration) bool {
	control := http.NewResponseController(writer)
	// A writer that knows no deadlines (a test's recorder) has none to move.
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(w.clock.wall().Add(wait + w.clock.patience.write))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	if w.set == nil {
		w.set = make(map[http.ResponseWriter]*credential)
	}
	w.set[writer] = by
	return true
}

// leave takes a request out. Its connection may carry the next one.
func (w *waits) leave(writer http.ResponseWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.set, writer)
}

func (w *waits) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// stop ends all waits. While a handler runs, net/http reads ahead to notice that the client went away. It takes a
// failing read for that, and ends the request's context. Writing is not touched, so the answer still goes out. over
// is set under the lock that enter takes, so no request begins to wait after the loop.
func (w *waits) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for writer := range w.set {
		_ = http.NewResponseController(writer).SetReadDeadline(longAgo)
	}
}

// end ends, as stop does for all, the waits of those whose credential is not good any more.
func (w *waits) end(good func(*credential) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for writer, by := range w.set {
		if by != nil && !good(by) {
			_ = http.NewResponseController(writer).SetReadDeadline(longAgo)
		}
	}
}

// each calls fn with the credential of every wait that has one. fn runs under the lock, so it must not enter, leave
// or end a wait.
func (w *waits) each(fn func(*credential)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, by := range w.set {
		if by != nil {
			fn(by)
		}
	}
}

// forgetHeaders drops the headers that a waiting request no longer needs: all but the
// one that its answer repeats. net/http reads none once a handler runs.
func forgetHeaders(r *http.Request) {
	id := r.Header[headerRequestID]
	r.Header = nil
	if len(id) > 0 {
		r.Header = http.Header{headerRequestID: id}
	}
}

// longAgo is the read deadline that ends a wait, see waits.
var longAgo = time.Unix(1, 0)

// multiplexed makes waits end over HTTP/2 as they do over HTTP/1.1. There a read deadline
// that has passed ends the request's context, because the server reads ahead to notice
// that the client went away. Over HTTP/2 many requests share a connection and nothing is
// read ahead for one of them: so its context has to be ended directly. HTTP/1.1, which
// has the long polls by the ten thousand, pays nothing.
func multiplexed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		next.ServeHTTP(&endable{w, cancel}, r.WithContext(ctx))
	})
}

// endable is a writer whose request ends when its read deadline is longAgo.
type endable struct {
	http.ResponseWriter
	cancel context.CancelFunc
}

func (w *endable) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetReadDeadline is what http.ResponseController finds first.
func (w *endable) SetReadDeadline(at time.Time) error {
	if at.Equal(longAgo) {
		w.cancel()
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(at)
}
