package api

import (
	"strings"
	"unicode/utf8"
)

// FieldError says what is wrong with one value of a JSON document. Pointer is the JSON pointer (RFC 6901) of the value,
// relative to the value that was being read ("" is that value itself); Detail is the rest of a sentence about it.
type FieldError struct {
	Pointer string
	Detail  string
}

func (e *FieldError) Error() string {
	if e.Pointer == "" {
		return "the document " + e.Detail
	}
	return e.Pointer + " " + e.Detail
}

// Details that the reading types and sdk/wire share, so that every decoder refuses with the same words.
const (
	UnknownDetail   = "is not a known field"
	DuplicateDetail = "is given twice; give each field once"
	MetaDetail      = "must be a string or a whole number from -9223372036854775808 to 9223372036854775807"
	ObjectDetail    = "must be an object"
	TimeDetail      = `must be a time after 1970 in RFC 3339, such as "2026-01-31T12:00:00.000Z"`
)

// UnknownField is the refusal of a field that the object does not have.
func UnknownField(name string) *FieldError {
	return &FieldError{Pointer: "/" + EscapePointer(name), Detail: UnknownDetail}
}

// EscapePointer makes a field name a segment of a JSON pointer: ~ becomes ~0 and / becomes ~1. Names of more than 100 bytes
// are cut, because an answer should not repeat a megabyte that a client sent as a name.
func EscapePointer(name string) string {
	const most = 100
	if len(name) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "..."
	}
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
