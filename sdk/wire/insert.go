package wire

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Decode reads the body of an insert as one JSON object.
func (r *InsertRequest) Decode(data []byte) error {
	return r.decode(data, wholeInsert)
}

// DecodeNext reads one submission of an InsertManyRequest. The memory that earlier ones point to stays as it is.
func (r *InsertRequest) DecodeNext(data []byte) error {
	r.scan.scratch = r.scan.scratch[len(r.scan.scratch):]
	if r.inline = r.Inline[len(r.Inline):]; cap(r.inline) == 0 {
		r.inline = nil
	}
	return r.decode(data, oneOfMany)
}

func (r *InsertRequest) decode(data []byte, form object[InsertRequest]) error {
	r.reset()
	return form.decode(&r.scan, data, r)
}

// DecodeLines reads the body of an insert as JSON lines: the submission without its chunks, then a chunk's bytes per line.
// Lines of white space are skipped. Pointers are those of the object that the lines stand for: "/chunks/inline/7" is the
// line of the eighth chunk.
func (r *InsertRequest) DecodeLines(data []byte) error {
	r.reset()
	s := r.scan.begin(nil)
	r.Inline = r.inline
	head := true
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		if len(bytes.TrimLeft(line, " \t\r")) == 0 {
			continue
		}
		s.data, s.pos = line, 0
		if head {
			head = false
			insertHead.read(s, r)
		} else if len(r.Inline) == api.MaxInlineChunks {
			return &Error{Pointer: "/chunks/inline", Detail: tooMany(api.MaxInlineChunks)}
		} else {
			chunk, _ := s.bytes(false)
			r.Inline = append(r.Inline, chunk)
		}
		if err := s.finish(); err != nil {
			return r.lineError(err)
		}
	}
	r.inline = r.Inline[:0]
	if head {
		return &Error{Detail: "is empty; the first line must be the submission without its chunks"}
	}
	return nil
}

// lineError moves an error from its line to the object that the lines stand for.
func (r *InsertRequest) lineError(err error) error {
	e := err.(*Error) // finish makes no other
	if n := len(r.Inline); n > 0 {
		e.Pointer = "/chunks/inline/" + strconv.Itoa(n-1) + e.Pointer
	}
	return e
}

// reset keeps the memory, within bounds.
func (r *InsertRequest) reset() {
	const mostKept = 16 << 10 // entries, of 24 bytes each
	inline := r.inline
	if cap(inline) > mostKept || inline == nil {
		inline = make([][]byte, 0, 16)
	}
	*r = InsertRequest{Meta: r.Meta[:0], scan: r.scan, inline: inline[:0]}
}

// The fields that a submission object may have: insertHead no chunks, oneOfMany an idempotency key.
var (
	insertHead = object[InsertRequest]{
		{name: "meta", read: func(s *scanner, r *InsertRequest) { r.Meta = s.meta(r.Meta) }},
		{name: "priority", read: func(s *scanner, r *InsertRequest) { r.Priority = s.int(int64Detail) }},
		{name: "attachment", read: func(s *scanner, r *InsertRequest) { r.Attachment, _ = s.bytes(false) }},
		{name: "operations_per_chunk", read: func(s *scanner, r *InsertRequest) { r.OperationsPerChunk = s.count() }},
		{name: "run_at", read: func(s *scanner, r *InsertRequest) { r.RunAt = s.time() }},
		{name: "dead_deadline", read: func(s *scanner, r *InsertRequest) { r.DeadDeadline = s.time() }},
		{name: "max_attempts", read: func(s *scanner, r *InsertRequest) { r.MaxAttempts = uint16(s.uint(math.MaxUint16, uint16Detail)) }},
		{name: "on_exhausted", read: func(s *scanner, r *InsertRequest) { r.OnExhausted = s.str() }},
		{name: "max_failed_chunks", read: func(s *scanner, r *InsertRequest) { r.MaxFailedChunks = s.count() }},
		{name: "timeout_ms", read: func(s *scanner, r *InsertRequest) { r.TimeoutMS = s.int(int64Detail) }},
		{name: "group", read: func(s *scanner, r *InsertRequest) { r.Group = s.str() }},
		{name: "trace", read: func(s *scanner, r *InsertRequest) { r.Trace = s.str() }},
		{name: "retry_backoff", read: func(s *scanner, r *InsertRequest) {
			r.RetryBackoff = new(api.Backoff)
			backoffFields.read(s, r.RetryBackoff)
		}},
		{name: "unique", read: func(s *scanner, r *InsertRequest) { r.HasUnique = true; insertUnique.read(s, &r.Unique) }},
		{name: "after", read: func(s *scanner, r *InsertRequest) {
			r.After = new(api.After)
			afterFields.read(s, r.After)
		}},
	}
	wholeInsert = append(object[InsertRequest]{
		{"chunks", func(s *scanner, r *InsertRequest) { insertChunks.read(s, r) }, true},
	}, insertHead...)
	oneOfMany = append(slices.Clone(wholeInsert), property[InsertRequest]{
		name: "idempotency_key", read: func(s *scanner, r *InsertRequest) { r.IdempotencyKey = s.str() },
	})

	insertUnique = object[Unique]{
		{"key", func(s *scanner, u *Unique) { u.Key = s.str() }, true},
		{name: "while", read: func(s *scanner, u *Unique) { u.While = s.str() }},
		{name: "on_conflict", read: func(s *scanner, u *Unique) { u.OnConflict = s.str() }},
	}

	afterFields = object[api.After]{
		{"ids", func(s *scanner, a *api.After) { a.IDs = s.ids(a.IDs) }, true},
		{name: "until", read: func(s *scanner, a *api.After) { a.Until = string(s.str()) }},
		{name: "on_unmet", read: func(s *scanner, a *api.After) { a.OnUnmet = string(s.str()) }},
	}

	backoffFields = object[api.Backoff]{
		{name: "kind", read: func(s *scanner, b *api.Backoff) { b.Kind = string(s.str()) }},
		{name: "base_ms", read: func(s *scanner, b *api.Backoff) { b.BaseMS = s.int(int64Detail) }},
		{name: "factor", read: func(s *scanner, b *api.Backoff) { b.Factor = s.float() }},
		{name: "cap_ms", read: func(s *scanner, b *api.Backoff) { b.CapMS = s.int(int64Detail) }},
		{name: "delays_ms", read: func(s *scanner, b *api.Backoff) {
			s.open('[', arrayDetail)
			for s.element() {
				if len(b.DelaysMS) == api.MaxDelays {
					s.depth--
					s.fail(tooMany(api.MaxDelays))
					return
				}
				b.DelaysMS = append(b.DelaysMS, s.int(int64Detail))
			}
		}},
		{name: "jitter", read: func(s *scanner, b *api.Backoff) { b.Jitter = string(s.str()) }},
	}

	insertChunks = object[InsertRequest]{
		{name: "count", read: func(s *scanner, r *InsertRequest) { r.Count = s.count() }},
		{name: "prefix", read: func(s *scanner, r *InsertRequest) { r.Prefix = s.str() }},
		{name: "template", read: func(s *scanner, r *InsertRequest) { r.Template = s.str() }},
		{name: "inline", read: (*scanner).inlineChunks},
	}
)

// ids reads the ids of submissions, as many as one may wait for.
func (s *scanner) ids(dst []string) []string {
	s.open('[', arrayDetail)
	for s.element() {
		if len(dst) == api.MaxAfter {
			s.depth--
			s.fail(tooMany(api.MaxAfter))
			return dst
		}
		dst = append(dst, string(s.str()))
	}
	return dst
}

func (s *scanner) inlineChunks(r *InsertRequest) {
	inline := r.inline
	s.open('[', arrayDetail)
	for s.element() {
		if len(inline) == api.MaxInlineChunks {
			s.depth--
			s.fail(tooMany(api.MaxInlineChunks))
			return
		}
		chunk, _ := s.bytes(false)
		inline = append(inline, chunk)
	}
	r.Inline, r.inline = inline, inline[:0]
}
