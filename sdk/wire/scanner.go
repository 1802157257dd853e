package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/quern-queue/quern/sdk/api"
)

// scanner walks one JSON document from front to back. Its error is sticky: after the first fault every method does
// nothing and the loops end, so that the readers below need no error checks of their own. Where it stands is kept in path,
// from which the pointer of a fault is made; without a fault no pointer is ever built.
type scanner struct {
	data    []byte
	pos     int
	scratch []byte // memory for strings that are not in data as they are: with escapes, invalid UTF-8 or base64
	bad     bool
	first   bool // just behind an opening bracket
	lenient bool // unknown fields are skipped: answers, which may grow
	depth   int  // of path
	path    [8]step
	pointer string
	detail  string
}

// step is one level of the path: the field being read, or the index of the element when it is not negative.
type step struct {
	name  []byte
	index int
}

// maxKept is the most scratch memory that a value keeps for its next use; a rare giant request should not stay for ever.
const maxKept = 1 << 20

// begin makes s ready for a document, keeping only its scratch memory.
func (s *scanner) begin(data []byte) *scanner {
	kept := s.scratch[:0]
	if cap(kept) > maxKept {
		kept = nil
	}
	*s = scanner{data: data, scratch: kept}
	return s
}

// lent are scanners of answers, with memory for their meta. A scanner does not stay on the stack, as the readers of
// fields are called indirectly.
var lent = sync.Pool{New: func() any { return new(lentScanner) }}

type lentScanner struct {
	scanner
	meta [8]MetaEntry
}

// lend lends a scanner for an answer. Values read with it must not point into its memory once it is given back.
func lend(data []byte) *lentScanner {
	s := lent.Get().(*lentScanner)
	s.begin(data)
	return s
}

// giveBack keeps nothing of the answer.
func (s *lentScanner) giveBack() {
	s.begin(nil)
	clear(s.meta[:])
	lent.Put(s)
}

// fail records the first fault. An empty detail is a fault of syntax, which err words.
func (s *scanner) fail(detail string) {
	if s.bad {
		return
	}
	s.bad = true
	s.detail = detail
	s.pointer = s.pointerTo(s.depth)
}

func (s *scanner) pointerTo(depth int) string {
	var pointer []byte
	for _, step := range s.path[:depth] {
		pointer = append(pointer, '/')
		if step.index >= 0 {
			pointer = strconv.AppendInt(pointer, int64(step.index), 10)
		} else {
			pointer = append(pointer, api.EscapePointer(string(step.name))...)
		}
	}
	return string(pointer)
}

// finish checks that nothing follows the value and makes the error. Syntax goes first: a document that is not JSON at all is
// refused as such even where a field before the fault is wrong too, so that every reader agrees on the pointer.
func (s *scanner) finish() error {
	if !s.bad {
		s.space()
		if s.pos == len(s.data) {
			if s.lenient || halfPair(s.data) < 0 {
				return nil
			}
			return surrogateError(s.data)
		}
		s.fail("")
	}
	if err := syntaxError(s.data); err != nil {
		return err
	}
	if err := surrogateError(s.data); err != nil && !s.lenient {
		return err
	}
	return &Error{Pointer: s.pointer, Detail: s.detail}
}

// syntaxError is the fault of a document that is not exactly one JSON value of at most MaxDepth levels, nil otherwise. It
// runs only after something was found wrong.
func syntaxError(data []byte) *Error {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return &Error{Detail: "is empty; send one JSON value"}
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		detail := "is not valid JSON: " + err.Error()
		if at, ok := err.(*json.SyntaxError); ok {
			detail += " (at byte " + strconv.FormatInt(at.Offset, 10) + ")"
		}
		return &Error{Detail: detail}
	}
	if tooDeep(data) {
		return &Error{Detail: "nests deeper than " + strconv.Itoa(MaxDepth) + " levels"}
	}
	return nil
}

// tooDeep counts the brackets of a valid document.
func tooDeep(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}

// space moves to the next byte that is not white space.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek is the first byte of the next token, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		if c := s.data[s.pos]; c > ' ' {
			return c
		}
	}
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// open steps into an object or array; detail is the refusal when there is something else.
func (s *scanner) open(bracket byte, detail string) {
	if s.bad {
		return
	}
	if s.peek() != bracket {
		s.fail(detail)
		return
	}
	s.pos++
	s.first = true
	s.path[s.depth] = step{index: -1}
	s.depth++
}

// more moves behind the comma before the next entry, or out of the object or array.
func (s *scanner) more(closing byte) bool {
	if s.bad {
		return false
	}
	c := s.peek()
	if c == closing {
		s.pos++
		s.first = false
		s.depth--
		return false
	}
	if s.first {
		s.first = false
		return true
	}
	if c != ',' {
		s.fail("")
		return false
	}
	s.pos++
	return true
}

// field moves to the value of the object's next field and returns its name, which stays valid until the next call.
func (s *scanner) field() ([]byte, bool) {
	if !s.more('}') {
		return nil, false
	}
	if s.peek() != '"' {
		s.fail("")
		return nil, false
	}
	name := s.quoted()
	if s.bad {
		return nil, false
	}
	if s.peek() != ':' {
		s.fail("")
		return nil, false
	}
	s.pos++
	s.peek()
	s.path[s.depth-1].name = name
	return name, true
}

// element moves to the array's next element.
func (s *scanner) element() bool {
	if !s.more(']') {
		return false
	}
	s.path[s.depth-1].index++
	s.peek()
	return true
}

// fields remembers which fields of an object were given (a bit each) and which of them with a value.
type fields struct{ given, present uint64 }

// fresh refuses a field that was given before, and says whether there is a value to read: null means "left out".
func (s *scanner) fresh(seen *fields, bit uint) bool {
	if seen.given&(1<<bit) != 0 {
		s.fail(api.DuplicateDetail)
		return false
	}
	seen.given |= 1 << bit
	if s.pos < len(s.data) && s.data[s.pos] == 'n' {
		s.literal("null")
		return false
	}
	seen.present |= 1 << bit
	return true
}

// requiredDetail is the refusal of an object without a field that it must have.
const requiredDetail = "is required"

// require refuses an object (which has just been left) without its first field.
func (s *scanner) require(seen fields, name string) {
	if s.bad || seen.present&1 != 0 {
		return
	}
	s.fail(requiredDetail)
	s.pointer += "/" + name
}

// unknown refuses the current field, or skips its value in an answer.
func (s *scanner) unknown() {
	if s.lenient {
		s.raw()
		return
	}
	s.fail(api.UnknownDetail)
}

func (s *scanner) literal(word string) {
	if s.bad {
		return
	}
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.fail("")
		return
	}
	s.pos += len(word)
}

// raw skips one value, checks its syntax and returns its bytes.
func (s *scanner) raw() []byte {
	s.peek()
	start := s.pos
	s.skip(s.depth)
	if s.bad {
		return nil
	}
	return s.data[start:s.pos:s.pos]
}

// skip moves over one value at a depth of depth levels.
func (s *scanner) skip(depth int) {
	switch c := s.peek(); {
	case s.bad:
	case c == '"':
		s.span()
	case c == '{' || c == '[':
		if depth == MaxDepth {
			s.fail("")
			return
		}
		s.pos++
		s.skipEntries(depth+1, c == '{')
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.number()
	}
}

func (s *scanner) skipEntries(depth int, object bool) {
	closing := byte(']')
	if object {
		closing = '}'
	}
	if s.peek() == closing {
		s.pos++
		return
	}
	for !s.bad {
		if object {
			if s.peek() != '"' {
				s.fail("")
				return
			}
			s.span()
			if s.peek() != ':' {
				s.fail("")
				return
			}
			s.pos++
		}
		s.skip(depth)
		switch s.peek() {
		case ',':
			s.pos++
		case closing:
			s.pos++
			return
		default:
			s.fail("")
		}
	}
}

// Error is why a document was refused. Pointer is the JSON pointer (RFC 6901) of the value that is wrong, "" for the whole
// document; Detail is the rest of a sentence about it.
type Error struct {
	Pointer string
	Detail  string
}

// Number is "a whole number" or "a number" when the value is not one that fits the type of its field, and "" when something else is
// wrong. A field may allow less than its type, and then says more.
func (e *Error) Number() string {
	switch e.Detail {
	case int64Detail, uint64Detail, uint32Detail, uint16Detail, uint8Detail:
		return "a whole number"
	case numberDetail:
		return "a number"
	}
	return ""
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return "the document " + e.Detail
	}
	return e.Pointer + " " + e.Detail
}
