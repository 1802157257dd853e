package queue

import (
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Time is a moment as milliseconds since the Unix epoch, UTC; 0 means "none". The engine's core reads no clock: its callers pass moments
// in.
type Time int64

// At converts a wall-clock moment, rounding down to the millisecond. The zero time.Time becomes 0.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMilli())
}

// Std is the moment as a time.Time in UTC; 0 becomes the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// API is the moment as JSON carries it; none is the zero time, which is left out or null.
func (t Time) API() api.Time { return api.At(t.Std()) }

// Add moves t by d, in whole milliseconds.
func (t Time) Add(d time.Duration) Time { return t + Time(d/time.Millisecond) }

// Sub is the duration from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Millisecond }
