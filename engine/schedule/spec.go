package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// MaxBytes is the length of the longest spec.
const MaxBytes = 256

// MinEvery and MaxEvery bound @every.
const (
	MinEvery = time.Second
	MaxEvery = 10 * 365 * 24 * time.Hour
)

// Options say how a spec is to be read.
type Options struct {
	Seconds  bool           // cron specs have a leading field of seconds
	Location *time.Location // the wall clock of cron specs; nil: UTC
	Anchor   time.Time      // where @every counts from: its ticks are the anchor and every interval before and after it; zero: 1970
}

// Spec is a schedule's rhythm. It is immutable and safe for concurrent use.
type Spec struct {
	text   string
	kind   kind
	cron   cron
	loc    *time.Location
	every  time.Duration
	anchor time.Time
	at     time.Time
}

type kind uint8

const (
	ofCron kind = iota
	ofEvery
	ofAt
)

// macros are the names of common specs.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Parse reads a spec: five fields of cron (six with Seconds), one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and
// @annually, "@every 90s", or "@at 2026-03-29T02:30:00+02:00". The error is an *Error. A spec that no date ever fits, such as one of
// the 30th of February, is refused.
func Parse(text string, o Options) (*Spec, error) {
	s := &Spec{text: strings.Join(strings.Fields(text), " "), loc: o.Location}
	s.loc = cmp.Or(s.loc, time.UTC)
	if o.Anchor.IsZero() {
		o.Anchor = time.Unix(0, 0)
	}
	var err error
	switch name, rest, _ := strings.Cut(s.text, " "); {
	case len(text) > MaxBytes:
		err = wrong("has %d characters; at most %d are allowed", len(text), MaxBytes)
	case s.text == "":
		err = wrong(`is empty; write five fields of cron like "30 2 * * MON", or @hourly, @every 90s, @at 2026-03-29T02:30:00Z`)
	case strings.EqualFold(name, "@every"):
		s.kind, s.anchor = ofEvery, o.Anchor
		s.every, err = parseEvery(rest)
	case strings.EqualFold(name, "@at"):
		s.kind = ofAt
		s.at, err = parseAt(rest)
	case name[0] == '@':
		fields, known := macros[strings.ToLower(s.text)]
		if !known {
			err = wrong("is %q, which is no name; there are @hourly, @daily, @weekly, @monthly, @yearly, @every "+
				"DURATION and @at TIME", clip(s.text))
			break
		}
		s.cron, err = parseCron(fields, false)
	default:
		s.cron, err = parseCron(text, o.Seconds)
	}
	if err != nil {
		return nil, err
	}
	if s.kind == ofCron && !s.cron.possible() {
		return nil, wrong("is %q, which no date ever fits: look at its days and months (February has at most 29 days)", clip(s.text))
	}
	return s, nil
}

func parseEvery(text string) (time.Duration, error) {
	every, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, wrong("has the interval %q, which is no duration; write one like 90s, 15m or 36h", clip(text))
	case every < MinEvery || every > MaxEvery:
		return 0, wrong("has the interval %s; %s to %s are allowed", every, MinEvery, MaxEvery)
	case every%time.Millisecond != 0:
		return 0, wrong("has the interval %s; whole milliseconds are allowed", every)
	}
	return every, nil
}

func parseAt(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, wrong("has the time %q; write it with its offset, like 2026-03-29T02:30:00Z or 2026-03-29T02:30:00+02:00", clip(text))
	}
	if at.UnixMilli() <= 0 || at.Year() > maxYear {
		return at, wrong("has the time %s; it has to lie after 1970 and before the year %d", clip(text), maxYear+1)
	}
	return at.Truncate(time.Millisecond), nil
}

// String is the spec as it was given, with single blanks.
func (s *Spec) String() string { return s.text }

// Once says whether the spec has a single tick.
func (s *Spec) Once() bool { return s.kind == ofAt }

// Location is the zone whose wall clock the spec means.
func (s *Spec) Location() *time.Location { return s.loc }

// Zone finds a time zone by its IANA name, such as Europe/Amsterdam; "" is UTC. Names that depend on the machine are refused.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if strings.EqualFold(name, "local") {
		return nil, wrong(`is %q, which differs from machine to machine; write an IANA name like "Europe/Amsterdam" or "UTC"`, name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, wrong(`is %q, which is no time zone; write an IANA name like "Europe/Amsterdam" or "UTC"`, clip(name))
	}
	return loc, nil
}

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

// clip shortens a text for a quotation in a message.
func clip(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
