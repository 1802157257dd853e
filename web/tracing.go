package web

// Spans of the server's own work, for a collector of OpenTelemetry. Consumers' spans are linked to
// producers' spans and are never their children: one answer carries chunks of many traces, and a
// trace must not last as long as its work waits.
//
// An empty reserve of a consumer without a trace makes no span. Idle consumers poll all day, and
// would fill the collector with nothing.

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/web/trace"
)

// The names of attributes, all in one place: OpenTelemetry's conventions for messaging
// still change (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/).
// Where they have no name, we use our own.
const (
	attrSystem      = "messaging.system"
	attrQueue       = "messaging.destination.name"
	attrVerb        = "messaging.operation.name"
	attrType        = "messaging.operation.type"
	attrCount       = "messaging.batch.message_count"
	attrMethod      = "http.request.method"
	attrRoute       = "http.route"
	attrStatus      = "http.response.status_code"
	attrError       = "error.type"
	attrRequest     = "quern.request_id"
	attrSubmission  = "quern.submission"
	attrSubmissions = "quern.submission_count"
	attrConsumer    = "quern.consumer"
	attrStrategy    = "quern.strategy"
	attrReason      = "quern.empty_reason"
	attrReplayed    = "quern.replayed"
	attrSettled     = "quern.settled_count"
	attrNotOK       = "quern.not_ok_count"
	attrSchedule    = "quern.schedule"
	attrBulk        = "quern.bulk_operation"
)

// spanKey is where a request has its span. A nil span under the key means that the request has nothing to tell
// (untraced).
const spanKey = "quern.span"

// tracedAs are the operations that have spans, with the type that OpenTelemetry gives to
// each. Consumers extend all the time, so an extend has a span only if its caller has a
// trace.
func tracedAs(id string) string {
	switch id {
	case "insert", "insert-batch":
		return "send"
	case "reserve":
		return "receive"
	case "complete", "fail", "release", "exchange", "extend":
		return "settle"
	}
	return ""
}

// tracing makes the spans of the calls of producers and consumers.
type tracing struct {
	tracer *trace.Tracer // nil: none are made
	engine *engine.Engine
}

// start begins the span of a request, as part of the trace that the caller named; nil if it is not recorded. The name
// of the queue comes from the client, and is clipped: a span must not have a name of any length.
func (t *tracing) start(c echo.Context, op *operation) *trace.Span {
	if t.tracer == nil || op == nil || op.traced == "" {
		return nil
	}
	r := c.Request()
	parent, part := trace.FromHeaders(r.Header["Traceparent"], r.Header["Tracestate"])
	if op.id == "extend" && !part {
		return nil
	}
	span := t.tracer.Start(op.id+" "+clip(c.Param("queue")), trace.Server, parent)
	if span != nil {
		span.Set(trace.Text(attrSystem, "quern"), trace.Text(attrQueue, clip(c.Param("queue"))),
			trace.Text(attrVerb, op.id), trace.Text(attrType, op.traced),
			trace.Text(attrMethod, r.Method), trace.Text(attrRoute, op.path))
		c.Set(spanKey, span)
	}
	return span
}

// endSpan ends the span of a request. It drops the span of a call that found no work,
// from a consumer without a trace.
func endSpan(span *trace.Span, c echo.Context, status int, failure *problem) {
	if span == nil {
		return
	}
	if empty, _ := c.Get(spanKey).(*trace.Span); empty == nil && failure == nil && !span.Parented() {
		return
	}
	span.Set(trace.Int(attrStatus, int64(status)), trace.Text(attrRequest, c.Response().Header().Get(headerRequestID)))
	if failure != nil {
		span.Set(trace.Text(attrError, failure.Code))
	}
	if status >= http.StatusInternalServerError {
		span.Fail(http.StatusText(status))
	}
	span.End()
}

// spanOf is the request's span, or nil.
func (t *tracing) spanOf(c echo.Context) *trace.Span {
	if t.tracer == nil {
		return nil
	}
	span, _ := c.Get(spanKey).(*trace.Span)
	return span
}

// contextFor is the trace context that a submission carries to its consumers. It comes
// from the body, or else from the request's headers; if a trace begins with the
// request, it is the request's own span.
func (t *tracing) contextFor(c echo.Context, body []byte) (string, error) {
	if body != nil {
		given := string(body)
		context, ok := trace.Parse(given)
		if !ok || context.String() != given {
			return "", queue.Invalid("/trace", "is no trace context: a W3C traceparent such as "+
				"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 is wanted, and behind a ';', if there is "+
				"one, the tracestate; %d bytes at most", queue.MaxTraceBytes)
		}
		return given, nil
	}
	header := c.Request().Header
	if context, ok := trace.FromHeaders(header["Traceparent"], header["Tracestate"]); ok {
		return context.String(), nil
	}
	own := t.spanOf(c).Context()
	return own.String(), nil
}

// untraced leaves a request without a span, as there is nothing to tell, unless its caller has a trace.
func (t *tracing) untraced(c echo.Context) {
	if t.tracer != nil {
		c.Set(spanKey, nil)
	}
}

// inserted adds the inserted submission to the span.
func (t *tracing) inserted(c echo.Context, inserted *queue.Submission, replayed bool) {
	span := t.spanOf(c)
	if span == nil {
		return
	}
	span.Set(trace.Text(attrSubmission, inserted.ID.String()), trace.Int(attrCount, int64(inserted.Chunks)))
	if replayed {
		span.Set(trace.Text(attrReplayed, "true"))
	}
	span.Link(inserted.Trace) // for a replay, that of the first insert; if the body names a trace, that one
}

// reserved adds the result of a reserve to the span, and links it to the producers' spans. Chunks of one submission
// come together, so comparing with the one before leaves out most repeated links.
func (t *tracing) reserved(c echo.Context, asked *engine.ReserveRequest, found *engine.ReserveResult, settled bool) {
	span := t.spanOf(c)
	if span == nil {
		return
	}
	if len(found.Reservations) == 0 && !settled {
		t.untraced(c)
	}
	span.Set(trace.Text(attrConsumer, asked.Consumer))
	if asked.Strategy != "" {
		span.Set(trace.Text(attrStrategy, asked.Strategy))
	}
	span.Set(trace.Int(attrCount, int64(len(found.Reservations))))
	if len(found.Reservations) == 0 {
		span.Set(trace.Text(attrReason, found.Reason.String()))
	}
	before := ""
	for i := range found.Reservations {
		if of := found.Reservations[i].Trace; of != before {
			span.Link(of)
			before = of
		}
	}
}

// settling links the span to the producers' spans of the chunks of these tokens. It is
// called before the chunks are settled, as their submissions may be over afterwards.
func (t *tracing) settling(span *trace.Span, n int, token func(i int) *queue.Token) {
	if span == nil {
		return
	}
	// Each look-up takes a lock of the shard, and a batch may have ten thousand tokens.
	const most = 64 // submissions that are looked up
	var last queue.SubmissionID
	for i, met := 0, 0; i < n && met < most; i++ {
		id := token(i).Submission
		if id == last {
			continue
		}
		last = id
		met++
		if q, err := t.engine.QueueOf(id); err == nil {
			span.Link(q.Submissions.Trace(id))
		}
	}
}

// traceSettled adds to the span how many chunks were settled, and how many of these results did not count. `already`
// counts as well done: it is the answer to a repeated call.
func traceSettled(span *trace.Span, results ...[]queue.Result) {
	if span == nil {
		return
	}
	all, wrong := 0, 0
	for _, list := range results {
		all += len(list)
		for i := range list {
			if o := list[i].Outcome; o != queue.OutcomeOK && o != queue.OutcomeAlready {
				wrong++
			}
		}
	}
	span.Set(trace.Int(attrSettled, int64(all)), trace.Int(attrNotOK, int64(wrong)))
}

// ownSpans makes spans of the work that the server does by itself.
type ownSpans struct{ tracer *trace.Tracer }

// OwnSpans returns the tracer for the engine's own work, for engine.Options; nil if there is no
// tracer.
func OwnSpans(t *trace.Tracer) engine.Spans {
	if t == nil {
		return nil
	}
	return ownSpans{t}
}

// Emit implements engine.Spans. The emitted submission carries the span's context:
// consumers' spans are linked to it.
func (o ownSpans) Emit(queueName, schedule string) engine.Span {
	return o.begin("emit "+queueName, trace.Producer, queueName, "emit", trace.Text(attrType, "send"),
		trace.Text(attrSchedule, schedule))
}

// Bulk implements engine.Spans.
func (o ownSpans) Bulk(b *queue.Bulk) engine.Span {
	return o.begin("bulk "+b.Queue, trace.Internal, b.Queue, b.Action.String(), trace.Text(attrBulk, b.ID.String()))
}

// begin starts a span without a parent: no request asked for this work. It is nil if this trace is outside of the
// share that the server records.
func (o ownSpans) begin(name string, kind trace.Kind, queueName, verb string, more ...trace.Attribute) engine.Span {
	span := o.tracer.Start(name, kind, trace.Context{})
	if span == nil {
		return nil
	}
	span.Set(trace.Text(attrSystem, "quern"), trace.Text(attrQueue, queueName), trace.Text(attrVerb, verb))
	span.Set(more...)
	return ownSpan{span}
}

// ownSpan hides the tracer from the engine, which knows only the interface.
type ownSpan struct{ span *trace.Span }

func (o ownSpan) Context() string {
	context := o.span.Context()
	return context.String()
}

// The error is recorded by its code. Its text may have names of submissions or values, which do not belong into a
// collector.
func (o ownSpan) End(n int, err error) {
	o.span.Set(trace.Int(attrCount, int64(n)))
	if err != nil {
		code := cmp.Or(string(queue.CodeOf(err)), "internal")
		o.span.Set(trace.Text(attrError, code))
		o.span.Fail(code)
	}
	o.span.End()
}
