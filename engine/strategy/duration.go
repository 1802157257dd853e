package strategy

import (
	"fmt"
	"strconv"
	"time"
)

// What a rate may be counted over.
const (
	MinPer = 10 * time.Millisecond
	MaxPer = 7 * 24 * time.Hour
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
		digits := 0
		for digits < len(t.text) && t.text[digits] >= '0' && t.text[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseUint(t.text[:digits], 10, 32)
		for _, u := range units {
			if err != nil || t.text[digits:] != u.name {
				continue
			}
			if d = time.Duration(n) * u.is; n <= uint64(MaxPer/u.is) && d >= MinPer {
				return d, ""
			}
		}
	}
	return 0, fmt.Sprintf("must be a time from 10ms to 7d as a string, a whole number with ms, s, m, h or d, as in \"1m\"; found %s", t)
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
