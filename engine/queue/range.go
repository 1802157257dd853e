package queue

import (
	"fmt"
	"strings"
	"time"
)

// Range is what a number in a request may be. Its texts are the same wherever the number can be given.
type Range struct {
	Least, Most int64         // in Unit
	Unit        time.Duration // of a duration; 0: a plain number
	Zero, Full  string        // what Least and Most mean, where the number does not tell
	Below       string        // the field of the same request that it may not exceed; "": none
}

// numbers is a Range of plain numbers, milliseconds and seconds of durations. meaning is of Least, then of Most.
func numbers(least, most int64, meaning ...string) Range {
	r := Range{Least: least, Most: most}
	for i, to := range []*string{&r.Zero, &r.Full}[:len(meaning)] {
		*to = meaning[i]
	}
	return r
}

func milliseconds(least, most time.Duration, meaning ...string) Range {
	r := numbers(least.Milliseconds(), most.Milliseconds(), meaning...)
	r.Unit = time.Millisecond
	return r
}

func seconds(least, most time.Duration, meaning ...string) Range {
	r := numbers(int64(least/time.Second), int64(most/time.Second), meaning...)
	r.Unit = time.Second
	return r
}

// below says that the number may not exceed another field of the same request.
func (r Range) below(field string) Range {
	r.Below = field
	return r
}

// String is the range as refusals have it, in the unit of the request: "0 (no limit) to 1000".
func (r Range) String() string {
	return r.text(fmt.Sprint(r.Least), fmt.Sprint(r.Most), r.Below)
}

// Flag is the range as the command line has it: durations are written with their unit, fields are flags.
func (r Range) Flag() string {
	if r.Unit == 0 {
		return r.String()
	}
	below := ""
	if r.Below != "" {
		below = "--" + FlagName(r.Below)
	}
	return r.text(ShortDuration(time.Duration(r.Least)*r.Unit), ShortDuration(time.Duration(r.Most)*r.Unit), below)
}

func (r Range) text(least, most, below string) string {
	if r.Zero != "" {
		least += " (" + r.Zero + ")"
	}
	if r.Full != "" {
		most += " (" + r.Full + ")"
	}
	if below != "" {
		most = fmt.Sprintf("%s (at most %s)", below, most)
	}
	return least + " to " + most
}

// ShortDuration leaves out what Duration.String says of minutes and seconds that are zero: "24h", not "24h0m0s".
func ShortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Holds says whether n, in the range's unit, is in the range. No range holds what is not a number.
func (r Range) Holds(n float64) bool { return n >= float64(r.Least) && n <= float64(r.Most) }

// Duration is a number of the range's units. What is negative or too large for a duration is refused at the pointer with what is allowed.
func (r Range) Duration(pointer string, n int64) (time.Duration, error) {
	const most = time.Duration(1<<63 - 1)
	if n < 0 || n > int64(most/r.Unit) {
		return 0, Invalid(pointer, "is %d; %s are allowed", n, r)
	}
	return time.Duration(n) * r.Unit, nil
}

// FlagName is the name on the command line of the field that has this name in JSON: durations are written with their unit there.
func FlagName(field string) string {
	field = strings.TrimSuffix(strings.TrimSuffix(field, "_ms"), "_seconds")
	return strings.ReplaceAll(field, "_", "-")
}

// oneOf lists alternatives as refusals do: "head or tail".
func oneOf(names []string) string {
	last := len(names) - 1
	text := strings.Join(names[:last], ", ") + " or " + names[last]
	if names[0] == "" {
		return "empty" + text
	}
	return text
}
