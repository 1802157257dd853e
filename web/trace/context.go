// Package trace follows work from the producer to the consumer: W3C trace contexts that
// come in and go out, spans of what the server does in between, and an exporter that sends
// them to a collector, as OTLP over HTTP in JSON
// (https://opentelemetry.io/docs/specs/otlp/, .../specs/otel/protocol/file-exporter).
//
// A queue takes work from many traces and hands it to consumers that have traces of their own. So a
// span of the consumer's side is linked to the producers' spans and never their child: a trace would
// last as long as the queue is deep, and a reserve of chunks of ten submissions would have ten parents.
package trace

import (
	"encoding/hex"
	"strings"
)

// Limits of what is taken in.
const (
	// MaxText bounds a Context as text: a traceparent is 55 bytes, a tracestate up to 512
	// by its specification.
	MaxText = 512

	parentBytes = 55
)

// Context is a W3C trace context (https://www.w3.org/TR/trace-context/): which trace, and
// which span of it. The zero Context is none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte   // 1: sampled
	State string // tracestate, or ""
}

// Valid says whether it is one.
func (c *Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Sampled reports whether the caller asked for the trace to be recorded.
func (c *Context) Sampled() bool { return c.Flags&1 != 0 }

// Parse reads a traceparent, and behind a ';', if there is one, the tracestate. As the
// specification asks for, a malformed traceparent is no context, and a malformed tracestate is
// left out.
func Parse(text string) (c Context, ok bool) {
	parent, state, _ := strings.Cut(text, ";")
	return parse(parent, state)
}

// FromHeaders reads the values of the headers traceparent and tracestate. More than one
// traceparent counts as none.
func FromHeaders(parents, states []string) (c Context, ok bool) {
	if len(parents) != 1 {
		return c, false
	}
	return parse(parents[0], strings.Join(states, ","))
}

// parse reads version 00. Of a later version, which may have more at the end, it reads the fields
// of version 00.
func parse(parent, state string) (c Context, ok bool) {
	if len(parent) < parentBytes || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' {
		return c, false
	}
	var version, flags [1]byte
	if !lower(version[:], parent[:2]) || !lower(c.Trace[:], parent[3:35]) || !lower(c.Span[:], parent[36:52]) ||
		!lower(flags[:], parent[53:55]) {
		return Context{}, false
	}
	longer := len(parent) > parentBytes
	if version[0] == 0xff || version[0] == 0 && longer || longer && parent[parentBytes] != '-' || !c.Valid() {
		return Context{}, false
	}
	c.Flags = flags[0]
	if len(state) <= MaxText-parentBytes-1 && printable(state) {
		c.State = state
	}
	return c, true
}

// lower reads hexadecimal digits in lower case, which alone are allowed.
func lower(dst []byte, text string) bool {
	if strings.ContainsAny(text, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(dst, []byte(text))
	return err == nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < 0x20 || c > 0x7e })
}

// String is the form that Parse reads, "" of no context.
func (c *Context) String() string {
	if !c.Valid() {
		return ""
	}
	b := make([]byte, 0, parentBytes+1+len(c.State))
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, c.Span[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, []byte{c.Flags})
	if c.State != "" {
		b = append(append(b, ';'), c.State...)
	}
	return string(b)
}
