package strategy

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// What a rate may be counted over.
const (
	MinPer = queue.MinPer
	MaxPer = queue.MaxPer
)

// unit is a unit of time as strategies write it.
type unit struct {
	name string
	is   time.Duration
}

// units go from the largest to the smallest.
var units = []unit{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// readDuration reads a whole number with a unit, as in 500ms or 1m.
func readDuration(t token) (d time.Duration, wrong string) {
	if t.kind == stringToken {
		if d, is := ParsePer(t.text); is {
			return d, ""
		}
	}
	return 0, fmt.Sprintf("must be a time from 10ms to 7d as a string, a whole number with ms, s, m, h or d, as in \"1m\"; found %s", t)
}

// ParsePer reads what a rate may be counted over: a whole number with ms, s, m, h or d.
func ParsePer(text string) (d time.Duration, is bool) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseUint(text[:digits], 10, 32)
	for _, u := range units {
		if err != nil || text[digits:] != u.name {
			continue
		}
		if d = time.Duration(n) * u.is; n <= uint64(MaxPer/u.is) && d >= MinPer {
			return d, true
		}
	}
	return 0, false
}

// appendDuration writes a duration with the largest unit of which it is a whole number.
func appendDuration(dst []byte, d time.Duration) []byte {
	for _, u := range units {
		if d%u.is == 0 {
			return append(strconv.AppendInt(dst, int64(d/u.is), 10), u.name...)
		}
	}
	return append(dst, d.String()...) // of a limit made by hand
}
