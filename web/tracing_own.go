package web

import (
	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/web/trace"
)

// ownSpans makes spans of what the server does by itself.
type ownSpans struct{ tracer *trace.Tracer }

// OwnSpans is who traces what the engine does by itself, for engine.Options; nil for no tracer.
func OwnSpans(t *trace.Tracer) engine.Spans {
	if t == nil {
		return nil
	}
	return ownSpans{t}
}

// Emit implements engine.Spans. What is emitted carries the span's context: consumers'
// spans are linked to it.
func (o ownSpans) Emit(queueName, schedule string) engine.Span {
	return o.begin("emit "+queueName, trace.Producer, queueName, "emit", trace.Text(attrType, "send"),
		trace.Text(attrSchedule, schedule))
}

// Bulk implements engine.Spans.
func (o ownSpans) Bulk(b *queue.Bulk) engine.Span {
	return o.begin("bulk "+b.Queue, trace.Internal, b.Queue, b.Action.String(), trace.Text(attrBulk, b.ID.String()))
}

// begin starts a span without a parent: no request asked for this work. It is nil if the share of traces that the
// server begins leaves this one out.
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
		code := string(queue.CodeOf(err))
		if code == "" {
			code = "internal"
		}
		o.span.Set(trace.Text(attrError, code))
		o.span.Fail(code)
	}
	o.span.End()
}
