package client

import (
	"context"
	"fmt"
	"strings"
)

// traceKey is where a context has the trace that calls belong to.
type traceKey struct{}

// WithTraceContext is a context whose calls are part of a trace: they send it as the headers traceparent and tracestate, and
// submissions that they insert carry it to their consumers. trace is a W3C traceparent, and behind a ';', if there is one, the
// tracestate, as a Chunk has it; "" ends that. The contexts that Work gives to handlers are such: what a handler inserts is part
// of the trace that its chunk came with.
func WithTraceContext(ctx context.Context, trace string) context.Context {
	if trace == "" && TraceContext(ctx) == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, trace)
}

// TraceContext is the trace of WithTraceContext, or "".
func TraceContext(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

func (q *request) setTrace(trace string) { q.trace, q.state, _ = strings.Cut(trace, ";") }

// join gives a call the trace of its context, unless it has one already.
func (q *request) join(ctx context.Context) error {
	if q.trace == "" {
		if trace := TraceContext(ctx); trace != "" {
			q.setTrace(trace)
		}
	}
	for _, c := range []byte(q.trace + q.state) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("the trace context %q has characters that none has", q.trace+";"+q.state)
		}
	}
	return nil
}
