package schedule

import "fmt"

// Error says what is wrong with a spec: the rest of a sentence about it.
type Error struct {
	Field  string // "hour", "day of month", ...; "" for the spec as a whole
	Column int    // of the first character that is wrong, from 1; 0 for the spec as a whole
	Detail string // what is wrong, what is allowed, what to do
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Detail
	}
	return fmt.Sprintf("has a wrong %s field (character %d): %s", e.Field, e.Column, e.Detail)
}

func wrong(format string, args ...any) *Error { return &Error{Detail: fmt.Sprintf(format, args...)} }

// clip keeps what a message quotes short.
func clip(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
