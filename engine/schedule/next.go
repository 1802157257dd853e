package schedule

import (
	"math"
	"time"
)

// Next is the first tick after t, or the zero time when there is none.
func (s *Spec) Next(t time.Time) time.Time {
	switch s.kind {
	case ofAt:
		if s.at.After(t) {
			return s.at
		}
		return time.Time{}
	case ofEvery:
		return s.anchor.Add((s.steps(t) + 1) * s.every)
	}
	return s.moment(s.after(t.Unix()))
}

// Prev is the last tick before t, or the zero time when there is none.
func (s *Spec) Prev(t time.Time) time.Time {
	switch s.kind {
	case ofAt:
		if s.at.Before(t) {
			return s.at
		}
		return time.Time{}
	case ofEvery:
		return s.anchor.Add(s.steps(t.Add(-1)) * s.every)
	}
	before := t.Unix()
	if t.Nanosecond() > 0 {
		before++
	}
	return s.moment(s.before(before))
}

// steps is how many whole intervals lie between the anchor and t, rounded down.
func (s *Spec) steps(t time.Time) time.Duration {
	since := t.Sub(s.anchor)
	n := since / s.every
	if since%s.every < 0 {
		n--
	}
	return n
}

func (s *Spec) moment(unix int64, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	t := time.Unix(unix, 0)
	if t.UTC().Year() > maxYear {
		return time.Time{}
	}
	return t.In(s.loc)
}

// zone is a stretch of time with one offset from UTC: from start on, before end, in seconds since 1970.
type zone struct {
	start, end int64
	offset     int64
	before     int64 // the offset before start; the same when there was none
}

const quarter = 15 * 60

// zoneAt is the stretch that a moment is in.
func (s *Spec) zoneAt(unix int64) zone {
	if s.loc == time.UTC {
		return zone{start: math.MinInt64, end: math.MaxInt64}
	}
	t := time.Unix(unix, 0).In(s.loc)
	_, offset := t.Zone()
	z := zone{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset), before: int64(offset)}
	start, end := t.ZoneBounds()
	if !end.IsZero() {
		// Beyond the last year of the zone's table, ZoneBounds may end a stretch early, on the last day of a leap year even at t itself
		// (seen with Go 1.26). A stretch that is cut in two does no harm, but an empty one would stop the search. Clocks change at full
		// quarters of an hour.
		if z.end = end.Unix(); z.end <= unix {
			z.end = unix - unix%quarter + quarter
		}
	}
	if z.end <= unix { // beyond the zone's table, package time ends leap years a day early: the bounds of that day are behind it
		z.end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	if !start.IsZero() {
		z.start = min(start.Unix(), unix)
		_, before := time.Unix(z.start-1, 0).In(s.loc).Zone()
		z.before = int64(before)
	}
	return z
}

// after is the first tick of a cron spec after a moment.
func (s *Spec) after(unix int64) (int64, bool) {
	for z := s.zoneAt(unix); ; {
		from := max(unix+1, z.start)
		tick, found := s.cron.atOrAfter(max(from+z.offset, s.firstPass(z)))
		tick -= z.offset
		gone := !found
		found = found && tick < z.end
		if missing, ok := s.missingFrom(z, from); ok && (!found || missing < tick) {
			tick, found = missing, true
		}
		if found {
			return tick, true
		}
		if gone || z.end == math.MaxInt64 {
			return 0, false
		}
		if next := s.zoneAt(z.end); next.offset < z.offset { // its clock repeats the last wall times of z
			z = next
			continue
		}
		z = s.zoneAt(max(z.end, tick-apart)) // no wall time fits in between, so no tick is there
	}
}

// apart is more than the difference of any two clocks, at any time.
const apart = 2 * day

// before is the last tick of a cron spec before a moment.
func (s *Spec) before(unix int64) (int64, bool) {
	for z := s.zoneAt(unix - 1); ; {
		upTo := min(unix, z.end) - 1
		tick, found := s.cron.atOrBefore(upTo + z.offset)
		gone := !found
		fits := tick >= s.firstPass(z)
		tick -= z.offset
		last := tick
		found = found && fits && tick >= z.start
		if missing, ok := s.missingUpTo(z, upTo); ok && (!found || missing > tick) {
			tick, found = missing, true
		}
		if found {
			return tick, true
		}
		if gone || z.start == math.MinInt64 {
			return 0, false
		}
		if previous := s.zoneAt(z.start - 1); z.offset < previous.offset { // its clock went on to wall times that z has again
			z = previous
			continue
		}
		z = s.zoneAt(min(z.start-1, last+apart))
	}
}

// firstPass is the wall time from which on a stretch has times that the one before did not have, for specs that mean times of day.
func (s *Spec) firstPass(z zone) int64 {
	if s.cron.pace || z.before <= z.offset {
		return math.MinInt64
	}
	return z.start + z.before
}

// missingFrom is the first tick at or after `from` of the wall times that the clock jumped over at the start of the stretch.
func (s *Spec) missingFrom(z zone, from int64) (int64, bool) {
	if z.before >= z.offset || from > z.start && !s.cron.pace {
		return 0, false
	}
	wall, ok := s.cron.atOrAfter(from + z.before)
	switch {
	case !ok || wall >= z.start+z.offset:
		return 0, false
	case s.cron.pace:
		return wall - z.before, true
	}
	return z.start, true
}

// missingUpTo is the last such tick at or before upTo.
func (s *Spec) missingUpTo(z zone, upTo int64) (int64, bool) {
	if z.before >= z.offset || upTo < z.start {
		return 0, false
	}
	last := z.start + z.offset - 1
	if s.cron.pace {
		last = min(last, upTo+z.before)
	}
	wall, ok := s.cron.atOrBefore(last)
	switch {
	case !ok || wall < z.start+z.before:
		return 0, false
	case s.cron.pace:
		return wall - z.before, true
	}
	return z.start, true
}

// Count is how many ticks there are after `after` up to and including upTo. Whole days and hours are counted at once, so that a spec of
// every second that was not looked at for a year costs little more than one of every hour.
func (s *Spec) Count(after, upTo time.Time) (n int64) {
	if !upTo.After(after) {
		return 0
	}
	switch s.kind {
	case ofAt:
		if s.at.After(after) && !s.at.After(upTo) {
			return 1
		}
		return 0
	case ofEvery:
		return int64(s.steps(upTo) - s.steps(after))
	}
	last := upTo.Unix()
	for at := after.Unix(); ; {
		if skipped, ticks := s.whole(at, last); skipped > at {
			at, n = skipped, n+ticks
			continue
		}
		tick, ok := s.after(at)
		if !ok || tick > last {
			return n
		}
		at = tick
		n++
	}
}

const hour = 60 * 60

// whole counts the ticks in whole days, or at least whole hours, between `at` and `last` and within one stretch, behind a change of clocks
// at its start. It returns the end of the last one, or `at` if there is none.
func (s *Spec) whole(at, last int64) (skipped, ticks int64) {
	z := s.zoneAt(at + 1)
	wall := at + 1 + z.offset
	if wall%hour != 0 || z.start != math.MinInt64 && at+1-z.start < max(z.before-z.offset, z.offset-z.before) {
		return at, 0
	}
	end := min(last, z.end-1) + z.offset + 1
	if midnight := end - end%day; wall%day == 0 && midnight > wall {
		return midnight - z.offset - 1, s.cron.inDays(wall, midnight)
	}
	end = min(end-end%hour, wall-wall%day+day)
	return max(at, end-z.offset-1), s.cron.inHours(wall, end)
}
