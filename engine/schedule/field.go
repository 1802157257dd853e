package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// field says which values one field of a cron spec may have.
type field struct {
	name        string
	least, most int
	names       []string // names[i] stands for least+i
	days        bool     // may be `?`
}

var (
	secondField = field{name: "second", most: 59}
	minuteField = field{name: "minute", most: 59}
	hourField   = field{name: "hour", most: 23}
	dayField    = field{name: "day of month", least: 1, most: 31, days: true}
	monthField  = field{name: "month", least: 1, most: 12,
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	weekdayField = field{name: "weekday", most: 7, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}, days: true}
)

// set is the set of numbers that a field allows: bit n is set when n is allowed.
type set struct {
	bits uint64
	last uint64 // day of month: bit n is the n-th day before the last; weekday: bit n is the last weekday n of the month
	star bool   // begins with `*` or `?`: does not restrict by itself, as POSIX and Vixie cron mean it
	pace bool   // holds `*` or a step, or everything: a rhythm rather than single values
}

func (s set) has(n int) bool { return s.bits>>uint(n)&1 != 0 }

// from is the smallest allowed number that is at least n, or -1.
func (s set) from(n int) int {
	if n > 63 {
		return -1
	}
	if above := s.bits >> uint(n) << uint(n); above != 0 {
		return bits.TrailingZeros64(above)
	}
	return -1
}

// upTo is the largest allowed number that is at most n, or -1.
func (s set) upTo(n int) int {
	if n < 0 {
		return -1
	}
	return 63 - bits.LeadingZeros64(s.bits<<uint(63-n)>>uint(63-n))
}

func (s set) list() (all []int) {
	for n := s.from(0); n >= 0; n = s.from(n + 1) {
		all = append(all, n)
	}
	return all
}

// reader reads one field; text starts at character `column` of the spec.
type reader struct {
	*field
	text   string
	column int
	err    *Error
}

func (f *field) parse(text string, column int) (set, error) {
	r := &reader{field: f, text: text, column: column}
	var out set
	out.star = text[0] == '*' || text[0] == '?'
	at := 0
	for part := range strings.SplitSeq(text, ",") {
		r.part(&out, part, at)
		if r.err != nil {
			return set{}, r.err
		}
		at += len(part) + 1
	}
	if f.most == weekdayField.most && out.has(7) {
		out.bits = out.bits&^(1<<7) | 1 // 7 is Sunday too
	}
	most := f.most
	if f.name == weekdayField.name {
		most = 6
	}
	if bits.OnesCount64(out.bits) == most-f.least+1 {
		out.pace = true
	}
	return out, nil
}

// part reads one element of a list: `*`, `?`, `L`, a value or a range, each but for `?` and `L` with an optional step.
func (r *reader) part(out *set, part string, at int) {
	upper := strings.ToUpper(part)
	switch {
	case part == "":
		r.fail(at, "there is nothing between two commas; write values like %d,%d", r.least+1, r.least+2)
	case part == "?" && r.days:
		out.bits |= r.span(r.least, r.top(), 1)
	case part == "?":
		r.fail(at, "? stands for any day and is allowed in the day of month and weekday fields; write *")
	case r.name == dayField.name && strings.HasPrefix(upper, "L"):
		r.lastDay(out, upper, at)
	case r.name == weekdayField.name && len(upper) > 1 && strings.HasSuffix(upper, "L"):
		if day := r.value(part[:len(part)-1], at); r.err == nil {
			out.last |= 1 << uint(day%7)
		}
	case upper == "L":
		r.fail(at, "L is the last day of the month and stands in the day of month field; for the last Friday write 5L in the weekday field")
	case strings.ContainsAny(part, "#") || strings.HasSuffix(upper, "W"):
		r.fail(at, "%q is not supported; allowed are numbers%s, ranges, steps, lists, * and ? (and L for last days)",
			clip(part), r.namesNote())
	default:
		r.spread(out, part, at)
	}
}

func (r *reader) lastDay(out *set, upper string, at int) {
	before, ok := 0, upper == "L"
	if !ok && strings.HasPrefix(upper, "L-") {
		n, err := strconv.Atoi(upper[2:])
		before, ok = n, err == nil && n >= 1 && n <= 30
	}
	if !ok {
		r.fail(at, "%q is neither L (the last day) nor L-1 to L-30 (days before it)", clip(upper))
		return
	}
	out.last |= 1 << uint(before)
}

// spread reads `*`, a value or a range, and its step.
func (r *reader) spread(out *set, part string, at int) {
	body, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		step = r.step(stepText, at+len(body)+1)
	}
	lowText, highText, ranged := strings.Cut(body, "-")
	low, high := r.least, r.top()
	switch {
	case body == "*":
		out.pace = true
	case ranged:
		low = r.value(lowText, at)
		high = r.value(highText, at+len(lowText)+1)
		if r.name == weekdayField.name && high == 0 && low > 0 {
			high = 7 // FRI-SUN
		}
		if r.err == nil && low > high {
			r.fail(at, "the range %s ends before it begins; write it as two, such as %s-%d,%d-%s", clip(body),
				clip(lowText), r.top(), r.least, clip(highText))
		}
	default:
		low = r.value(body, at)
		if !stepped {
			high = low
		}
	}
	if r.err != nil {
		return
	}
	if stepped {
		out.pace = true
	}
	out.bits |= r.span(low, high, step)
}

// top is the largest number that `*` stands for. It is not 7 for weekdays, which is only another name of Sunday.
func (r *reader) top() int {
	if r.name == weekdayField.name {
		return 6
	}
	return r.most
}

func (r *reader) span(low, high, step int) (b uint64) {
	for n := low; n <= high; n += step {
		b |= 1 << uint(n)
	}
	return b
}

func (r *reader) step(text string, at int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > r.most || text[0] == '+' {
		r.fail(at, "the step %q is not a number from 1 to %d", clip(text), r.most)
		return 1
	}
	return n
}

func (r *reader) value(text string, at int) int {
	for i, name := range r.names {
		if strings.EqualFold(text, name) {
			return r.least + i
		}
	}
	n, err := strconv.Atoi(text)
	switch {
	case text == "":
		r.fail(at, "a number is missing; %d to %d%s are allowed", r.least, r.most, r.namesNote())
	case err != nil || text[0] == '+' || text[0] == '-':
		r.fail(at, "%q is no number; %d to %d%s are allowed", clip(text), r.least, r.most, r.namesNote())
	case n < r.least || n > r.most:
		r.fail(at, "%s is out of range; %d to %d%s are allowed", clip(text), r.least, r.most, r.namesNote())
	}
	return n
}

func (r *reader) namesNote() string {
	if len(r.names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (or %s to %s)", r.names[0], r.names[len(r.names)-1])
}

func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Field: r.name, Column: r.column + at, Detail: fmt.Sprintf(format, args...)}
	}
}
