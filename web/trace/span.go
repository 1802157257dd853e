package trace

import (
	"encoding/binary"
	"sync"
	"time"
)

// Kind is the role of a span, with OTLP's number.
type Kind int

// The kinds in use: Internal is work that the server starts itself, Server answers a call,
// Producer makes work for others.
const (
	Internal Kind = 1
	Server   Kind = 2
	Producer Kind = 4
)

// Bounds of one span, so that the memory of all waiting spans is bounded.
const (
	maxAttributes = 24
	maxLinks      = 32
)

// Attribute is a key with a text or a number.
type Attribute struct {
	Key    string
	Text   string
	Number int64
	IsText bool
}

// Text and Int make attributes.
func Text(key, value string) Attribute { return Attribute{Key: key, Text: value, IsText: true} }

// Int makes an attribute that is a number.
func Int(key string, value int64) Attribute { return Attribute{Key: key, Number: value} }

// Span is something that takes time. Its methods may be called on nil, which is a span
// that is not recorded; they are for one goroutine at a time.
type Span struct {
	tracer       *Tracer
	own          Context
	parent       [8]byte
	name         string
	kind         Kind
	start, end   time.Time
	attributes   []Attribute
	links        []Context
	linksDropped int
	failed       bool
	detail       string
	ended        bool
}

// Context is the span's own, for those that it causes. Of nil it is none.
func (s *Span) Context() (c Context) {
	if s != nil {
		c = s.own
	}
	return c
}

// Parented reports whether the span is part of a trace that the caller began.
func (s *Span) Parented() bool { return s != nil && s.parent != [8]byte{} }

// Set adds attributes. Those beyond the most that a span may have are left out.
func (s *Span) Set(attributes ...Attribute) {
	if s == nil || s.ended {
		return
	}
	room := max(0, maxAttributes-len(s.attributes))
	s.attributes = append(s.attributes, attributes[:min(room, len(attributes))]...)
}

// Link says that the span has to do with another one, given as Context.String wrote it: once
// for each. A text that is no context is ignored. Links beyond the most that a span may have
// are only counted.
func (s *Span) Link(text string) {
	if s == nil || s.ended || text == "" {
		return
	}
	to, ok := Parse(text)
	if !ok {
		return
	}
	for i := range s.links {
		if s.links[i].Trace == to.Trace && s.links[i].Span == to.Span {
			return
		}
	}
	if len(s.links) == maxLinks {
		s.linksDropped++
		return
	}
	s.links = append(s.links, to)
}

// Fail says that it did not go well, by a mistake of the server's.
func (s *Span) Fail(detail string) {
	if s != nil {
		s.failed, s.detail = true, detail
	}
}

// End hands the span to the exporter. It never waits: if there is no room, the span is dropped and counted.
func (s *Span) End() {
	if s == nil || s.ended {
		return
	}
	s.ended, s.end = true, s.tracer.options.Now()
	s.tracer.enqueue(s)
}

// size is about how much memory the span takes. It goes by capacity, not length: slices that grew hold more than they
// contain. Set and Link change nothing once the span has ended, so enqueue and take add and subtract the same.
func (s *Span) size() int {
	n := 256 + len(s.name) + len(s.detail) + 64*cap(s.attributes) + 64*cap(s.links) + len(s.own.State)
	for i := range s.attributes {
		n += len(s.attributes[i].Text)
	}
	for i := range s.links {
		n += len(s.links[i].State)
	}
	return n
}

// Start begins a span below a parent, or a trace of its own. It is nil if the tracer is,
// or if the trace is not recorded.
func (t *Tracer) Start(name string, kind Kind, parent Context) *Span {
	if t == nil {
		return nil
	}
	s := &Span{tracer: t, name: name, kind: kind, start: t.options.Now()}
	if parent.Valid() {
		if !parent.Sampled() {
			return nil
		}
		// The trace and its flags are the caller's, and so is the decision whether it is recorded; only the span's id
		// is drawn.
		s.own, s.parent = parent, parent.Span
	} else {
		binary.BigEndian.PutUint64(s.own.Trace[:8], t.options.Seed())
		binary.BigEndian.PutUint64(s.own.Trace[8:], t.options.Seed()|1) // never all zero
		s.own.Flags = 1
		if !t.chosen(&s.own) {
			return nil
		}
	}
	binary.BigEndian.PutUint64(s.own.Span[:], t.options.Seed()|1)
	return s
}

// chosen decides by the trace's random part whether a trace that begins here is one of those that are wanted. A
// float64 holds 53 bits exactly.
func (t *Tracer) chosen(c *Context) bool {
	const bits = 53
	return float64(binary.BigEndian.Uint64(c.Trace[:8])>>(64-bits)) < t.options.Ratio*(1<<bits)
}

// pending has the spans that have ended and were not sent yet.
type pending struct {
	mu    sync.Mutex
	spans []*Span
	bytes int
}

// enqueue adds a span if there is room, and wakes the exporter when a batch is full.
func (t *Tracer) enqueue(s *Span) {
	size := s.size()
	q := &t.pending
	q.mu.Lock()
	if len(q.spans) >= maxQueued || q.bytes+size > maxQueuedBytes {
		q.mu.Unlock()
		t.dropped.Inc()
		return
	}
	q.spans = append(q.spans, s)
	q.bytes += size
	full := len(q.spans) >= mostSpans
	q.mu.Unlock()
	if full {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// take takes the next batch out.
func (t *Tracer) take() []*Span {
	q := &t.pending
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.spans), mostSpans)
	batch := append([]*Span(nil), q.spans[:n]...)
	clear(q.spans[:n])
	q.spans = q.spans[n:]
	for _, s := range batch {
		q.bytes -= s.size()
	}
	if len(q.spans) == 0 {
		q.spans = nil // this frees the room before it, too
	}
	return batch
}
