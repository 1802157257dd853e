package api

import (
	"encoding/json"
	"time"
)

// TimeFormat is the form in which times are written: RFC 3339, UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Time is a moment with the precision of a millisecond. The zero Time is null.
type Time struct{ time.Time }

// At is t rounded down to the millisecond, in UTC.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes TimeFormat, or null for the zero time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"` + TimeFormat + `"`)), nil
}

// UnmarshalJSON reads RFC 3339 with any offset and any fraction, rounding down to the millisecond. null is the zero time;
// anything up to the first moment of 1970 is refused, because it is a mistake (often a zero time of some language).
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = Time{}
		return nil
	}
	var text string
	if len(data) == 0 || data[0] != '"' || json.Unmarshal(data, &text) != nil {
		return &FieldError{Detail: TimeDetail}
	}
	var std time.Time
	if err := std.UnmarshalText([]byte(text)); err != nil || std.UnixMilli() <= 0 {
		return &FieldError{Detail: TimeDetail}
	}
	*t = At(std)
	return nil
}
