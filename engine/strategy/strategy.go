package strategy

import (
	"hash/crc32"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Limits of one strategy. A strategy comes from outside and is compiled before anything else looks at it, so each of these
// bounds the work that a stranger can cause.
const (
	// of the input, and of either canonical form: far above any strategy within the other limits that a person would write
	MaxBytes    = 64 << 10
	MaxDepth    = 32        // blocks inside each other, the outermost counted: bounds the recursion
	MaxNodes    = 128       // blocks in all
	MaxBranches = 64        // after normalising: each branch is a standing view, and an empty reserve asks all of them
	MaxLimit    = 1<<31 - 1 // of the max of MaxSimultaneous and PreferDistinct: no server holds more reservations
)

// pointer is where a strategy stands in a request; problems are reported below it.
const pointer = "/strategy"

// Strategy is a valid strategy: its tree, both canonical forms, and its plan. It never changes, so it may be shared.
type Strategy struct {
	root block
	text string
	json []byte
	plan *Plan
}

// Parse reads the text form, as in OrElse(SelectOnly("mode", "preview", Random), OldestFirst). A mistake is a
// *queue.Error of CodeInvalid whose one problem points at "/strategy" and says at which line and column (both from 1,
// columns in characters) what was expected.
func Parse(text string) (*Strategy, error) {
	if len(text) > MaxBytes {
		return nil, tooLong(len(text))
	}
	var p parser
	root, err := p.text(text, pointer, 1)
	if err != nil {
		return nil, err
	}
	return finish(root)
}

// ParseJSON reads one JSON value: an object with a "type", or a string that holds the text form or the snake_case name
// of a block without arguments. A mistake is a *queue.Error of CodeInvalid whose one problem points at the wrong field,
// below "/strategy"; mistakes of JSON itself and in the text form also say line and column.
func ParseJSON(raw []byte) (*Strategy, error) {
	if len(raw) > MaxBytes {
		return nil, tooLong(len(raw))
	}
	value, err := readJSON(string(raw))
	if err != nil {
		return nil, err
	}
	var p parser
	root, err := p.json(value, pointer, 1)
	if err != nil {
		return nil, err
	}
	return finish(root)
}

// String is the canonical text: two strategies of the same text are the same strategy.
func (s *Strategy) String() string { return s.text }

// MarshalJSON is the canonical JSON: blocks without arguments are bare strings, an OrElse of two has "try_first" and
// "fallback", of more "branches". The error is always nil.
func (s *Strategy) MarshalJSON() ([]byte, error) { return slices.Clone(s.json), nil }

// Plan is what the strategy compiles to. It is compiled once and shared: do not change it.
func (s *Strategy) Plan() *Plan { return s.plan }

// finish compiles a valid tree. The canonical forms must keep the limit of the input, so that an accepted strategy is
// accepted again in either form.
func finish(root block) (*Strategy, error) {
	plan, err := compile(root)
	if err != nil {
		return nil, err
	}
	s := &Strategy{root: root, text: string(appendText(nil, root)), json: appendJSON(nil, root), plan: plan}
	if n := max(len(s.text), len(s.json)); n > MaxBytes {
		return nil, tooLong(n)
	}
	plan.tag = crc32.ChecksumIEEE([]byte(s.text))
	return s, nil
}

func tooLong(bytes int) error {
	return invalid(pointer, "has %d bytes (as it was sent or in canonical form); at most %d bytes are allowed: "+
		"use fewer blocks, or fewer and shorter values", bytes, MaxBytes)
}

// invalid is the error of one mistake; detail goes on from the pointer as a sentence.
func invalid(pointer, format string, args ...any) error {
	err := queue.Invalid(pointer, format, args...)
	err.Message = "The strategy is not valid."
	return err
}

// ParseName reads the form in which a strategy is asked for by its name: an object with the field "name" and without
// "type". For everything else ok is false, without an error: ParseJSON reads or refuses it. A mistake in the form itself is a
// *queue.Error of CodeInvalid that points at the wrong field. It does not look up whether the name exists.
func ParseName(raw []byte) (name string, ok bool, err error) {
	if len(raw) > MaxBytes {
		return "", false, nil
	}
	v, err := readJSON(string(raw))
	if err != nil || !v.isObject() || !slices.Contains(v.names, "name") || slices.Contains(v.names, "type") {
		return "", false, nil // also what is not JSON: ParseJSON says what is wrong with it
	}
	for _, field := range v.names {
		if field != "name" {
			return "", true, invalid(pointer+"/"+escapePointer(field),
				"cannot be combined with name: give the name alone")
		}
	}
	found, _ := v.find("name")
	if found.kind != stringToken {
		return "", true, invalid(pointer+"/name", "must be a string; found %s", found.describe())
	}
	return found.text, true, nil
}
