package wire

import (
	"bytes"
	"math"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Decode reads the body of an insert as one JSON object.
func (r *InsertRequest) Decode(data []byte) error {
	r.reset()
	var s scanner
	s.scratch = r.scratch
	s.begin(data)
	s.insert(r, wholeInsert)
	r.scratch = s.scratch
	return s.finish()
}

// DecodeNext reads one submission of an InsertManyRequest. What the ones before it point to stays as it is.
func (r *InsertRequest) DecodeNext(data []byte) error {
	r.scratch = r.scratch[len(r.scratch):]
	if r.inline = r.Inline[len(r.Inline):]; cap(r.inline) == 0 {
		r.inline = nil
	}
	r.reset()
	var s scanner
	s.scratch = r.scratch
	s.begin(data)
	s.insert(r, oneOfMany)
	r.scratch = s.scratch
	return s.finish()
}

// DecodeLines reads the body of an insert as JSON lines: the submission without its chunks, then a chunk's bytes per line.
// Lines of white space are skipped. Pointers are those of the object that the lines stand for: "/chunks/inline/7" is what
// is wrong in the line of the eighth chunk.
func (r *InsertRequest) DecodeLines(data []byte) error {
	r.reset()
	var s scanner
	s.scratch = r.scratch
	s.begin(nil)
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
			s.insert(r, insertHead)
		} else if len(r.Inline) == maxInline {
			return &Error{Pointer: "/chunks/inline", Detail: maxInlineDetail}
		} else {
			chunk, _ := s.bytes(false)
			r.Inline = append(r.Inline, chunk)
		}
		if err := s.finish(); err != nil {
			return r.lineError(err)
		}
	}
	r.scratch, r.inline = s.scratch, r.Inline[:0]
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
	*r = InsertRequest{Meta: r.Meta[:0], scratch: r.scratch, inline: inline[:0]}
}

// insertForm says which fields a submission object has beside those that all have.
type insertForm uint8

const (
	wholeInsert insertForm = iota // chunks
	insertHead                    // none
	oneOfMany                     // chunks, and an idempotency key if it likes
)

// insert reads the submission object.
func (s *scanner) insert(r *InsertRequest, form insertForm) {
	const keyBit, chunksBit = 30, 31
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch {
		case string(name) == "chunks" && form != insertHead:
			if s.fresh(&seen, chunksBit) {
				s.chunks(r)
			}
		case string(name) == "idempotency_key" && form == oneOfMany:
			if s.fresh(&seen, keyBit) {
				r.IdempotencyKey = s.str()
			}
		default:
			s.insertField(r, name, &seen)
		}
	}
	if form != insertHead {
		s.require(seen, chunksBit, "chunks")
	}
}

func (s *scanner) insertField(r *InsertRequest, name []byte, seen *fields) {
	switch string(name) {
	case "meta":
		if s.fresh(seen, 0) {
			r.Meta = s.meta(r.Meta)
		}
	case "priority":
		if s.fresh(seen, 1) {
			r.Priority = s.int(int64Detail)
		}
	case "attachment":
		if s.fresh(seen, 2) {
			r.Attachment, _ = s.bytes(false)
		}
	case "operations_per_chunk":
		if s.fresh(seen, 3) {
			r.OperationsPerChunk = uint32(s.uint(math.MaxUint32, uint32Detail))
		}
	case "run_at":
		if s.fresh(seen, 4) {
			r.RunAt = s.time()
		}
	case "dead_deadline":
		if s.fresh(seen, 5) {
			r.DeadDeadline = s.time()
		}
	case "max_attempts":
		if s.fresh(seen, 6) {
			r.MaxAttempts = uint16(s.uint(math.MaxUint16, uint16Detail))
		}
	case "on_exhausted":
		if s.fresh(seen, 7) {
			r.OnExhausted = s.str()
		}
	case "max_failed_chunks":
		if s.fresh(seen, 9) {
			r.MaxFailedChunks = uint32(s.uint(math.MaxUint32, uint32Detail))
		}
	case "group":
		if s.fresh(seen, 8) {
			r.Group = s.str()
		}
	case "trace":
		if s.fresh(seen, 10) {
			r.Trace = s.str()
		}
	default:
		s.unknown()
	}
}

func (s *scanner) chunks(r *InsertRequest) {
	var seen fields
	s.open('{', api.ObjectDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		switch string(name) {
		case "count":
			if s.fresh(&seen, 0) {
				r.Count = uint32(s.uint(math.MaxUint32, uint32Detail))
			}
		case "prefix":
			if s.fresh(&seen, 1) {
				r.Prefix = s.str()
			}
		case "template":
			if s.fresh(&seen, 2) {
				r.Template = s.str()
			}
		case "inline":
			if s.fresh(&seen, 3) {
				s.inlineChunks(r)
			}
		default:
			s.unknown()
		}
	}
}

func (s *scanner) inlineChunks(r *InsertRequest) {
	inline := r.inline
	s.open('[', arrayDetail)
	for s.element() {
		if len(inline) == maxInline {
			s.depth--
			s.fail(maxInlineDetail)
			return
		}
		chunk, _ := s.bytes(false)
		inline = append(inline, chunk)
	}
	r.Inline, r.inline = inline, inline[:0]
}
