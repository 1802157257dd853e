package schedule

import (
	"math/bits"
	"time"
)

// cron is a cron spec's fields. Wall times below are seconds since 1970 on the wall clock, as if it were that of UTC.
type cron struct {
	seconds, minutes, hours, days, months, weekdays set

	pace bool // hours or minutes are a rhythm: ticks go on by elapsed time when clocks change
}

const (
	day = 24 * 60 * 60

	// searchYears bounds the search for a day. The rarest days are those of a weekday on a date. They come back within 28 years, or 40
	// around a century that has no leap year.
	searchYears = 41

	maxYear = 9999
)

// parseCron reads the fields. It keeps their columns for its error messages.
func parseCron(text string, seconds bool) (c cron, err error) {
	fields := []*field{&minuteField, &hourField, &dayField, &monthField, &weekdayField}
	sets := []*set{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays}
	c.seconds = set{bits: 1}
	if seconds {
		fields = append([]*field{&secondField}, fields...)
		sets = append([]*set{&c.seconds}, sets...)
	}
	words, columns := split(text)
	if len(words) != len(fields) {
		return c, countError(len(words), len(fields))
	}
	for i := range fields {
		if *sets[i], err = fields[i].parse(words[i], columns[i]); err != nil {
			return c, err
		}
	}
	c.pace = c.hours.pace || c.minutes.pace
	return c, nil
}

func countError(got, want int) error {
	switch {
	case want == 5 && got == 6:
		return wrong(`has 6 fields, and 5 are expected: minute, hour, day of month, month, weekday; ` +
			`for a leading field of seconds set "seconds" to true`)
	case want == 5:
		return wrong("has %d fields, and 5 are expected: minute, hour, day of month, month, weekday", got)
	}
	return wrong(`has %d fields, and 6 are expected because "seconds" is true: second, minute, hour, day of month, month, weekday`, got)
}

// split cuts at blanks and tells where each word begins, from 1.
func split(text string) (words []string, columns []int) {
	begin := -1
	for i := 0; i <= len(text); i++ {
		blank := i == len(text) || text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r'
		switch {
		case !blank && begin < 0:
			begin = i
		case blank && begin >= 0:
			words, columns = append(words, text[begin:i]), append(columns, begin+1)
			begin = -1
		}
	}
	return words, columns
}

// possible says whether there is any day that fits. Every day of a year with its weekday comes back within searchYears.
func (c *cron) possible() bool {
	_, ok := c.atOrAfter(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	return ok
}

// daysOf are the days of a month that fit: bit n for the n-th.
func (c *cron) daysOf(year int, month time.Month) uint32 {
	if !c.months.has(int(month)) {
		return 0
	}
	length := uint(monthLength(year, month))
	all := uint64(1)<<(length+1) - 2
	byDay := c.days.bits & all
	for last := c.days.last; last != 0; last &= last - 1 {
		if n := length - uint(bits.TrailingZeros64(last)); n >= 1 && n <= 31 {
			byDay |= 1 << n
		}
	}
	first := uint(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday())
	week := (c.weekdays.bits>>first | c.weekdays.bits<<(7-first)) & 0x7f
	weeks := week | week<<7 | week<<14 | week<<21 | week<<28
	byWeekday := weeks << 1 & all
	for last := c.weekdays.last; last != 0; last &= last - 1 {
		weekday := uint(bits.TrailingZeros64(last))
		byWeekday |= 1 << (length - (first+length-1+7-weekday)%7)
	}
	if c.days.star || c.weekdays.star {
		return uint32(byDay & byWeekday)
	}
	return uint32(byDay | byWeekday)
}

func monthLength(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// atOrAfter is the first fitting wall time at or after w.
func (c *cron) atOrAfter(w int64) (int64, bool) {
	d, second := w/day, int(w%day)
	if second < 0 {
		d, second = d-1, second+day
	}
	year, month, dom := time.Unix(d*day, 0).UTC().Date()
	if c.daysOf(year, month)>>uint(dom)&1 != 0 {
		if t := c.timeFrom(second); t >= 0 {
			return d*day + int64(t), true
		}
	}
	dom++
	for last := year + searchYears; year <= last; dom, month = 1, month+1 {
		if month > 12 {
			year, month = year+1, 1
		}
		if left := c.daysOf(year, month) >> uint(dom) << uint(dom); left != 0 && dom < 32 {
			midnight := time.Date(year, month, bits.TrailingZeros32(left), 0, 0, 0, 0, time.UTC).Unix()
			return midnight + int64(c.timeFrom(0)), true
		}
	}
	return 0, false
}

// timeFrom is the first fitting time of day at or after the given one, in seconds, or -1.
func (c *cron) timeFrom(second int) int {
	h, m, s := second/3600, second/60%60, second%60
	if c.hours.has(h) {
		if c.minutes.has(m) {
			if at := c.seconds.from(s); at >= 0 {
				return h*3600 + m*60 + at
			}
		}
		if at := c.minutes.from(m + 1); at >= 0 {
			return h*3600 + at*60 + c.seconds.from(0)
		}
	}
	if at := c.hours.from(h + 1); at >= 0 {
		return at*3600 + c.minutes.from(0)*60 + c.seconds.from(0)
	}
	return -1
}

// atOrBefore is the last fitting wall time at or before w.
func (c *cron) atOrBefore(w int64) (int64, bool) {
	d, second := w/day, int(w%day)
	if second < 0 {
		d, second = d-1, second+day
	}
	year, month, dom := time.Unix(d*day, 0).UTC().Date()
	if c.daysOf(year, month)>>uint(dom)&1 != 0 {
		if t := c.timeUpTo(second); t >= 0 {
			return d*day + int64(t), true
		}
	}
	for first := year - searchYears; year >= first; dom, month = 32, month-1 {
		if month < 1 {
			year, month = year-1, 12
		}
		if left := uint64(c.daysOf(year, month)) & (1<<uint(dom) - 1); left != 0 {
			midnight := time.Date(year, month, 63-bits.LeadingZeros64(left), 0, 0, 0, 0, time.UTC).Unix()
			return midnight + int64(c.timeUpTo(day-1)), true
		}
	}
	return 0, false
}

// timeUpTo is the last fitting time of day at or before the given one, in seconds, or -1.
func (c *cron) timeUpTo(second int) int {
	h, m, s := second/3600, second/60%60, second%60
	if c.hours.has(h) {
		if c.minutes.has(m) {
			if at := c.seconds.upTo(s); at >= 0 {
				return h*3600 + m*60 + at
			}
		}
		if at := c.minutes.upTo(m - 1); at >= 0 {
			return h*3600 + at*60 + c.seconds.upTo(59)
		}
	}
	if at := c.hours.upTo(h - 1); at >= 0 {
		return at*3600 + c.minutes.upTo(59)*60 + c.seconds.upTo(59)
	}
	return -1
}

// inDays counts the fitting times from one midnight up to another.
func (c *cron) inDays(midnight, end int64) (n int64) {
	perDay := int64(bits.OnesCount64(c.hours.bits)) * c.perHour()
	for {
		wall, ok := c.atOrAfter(midnight)
		if !ok || wall >= end {
			return n
		}
		n += perDay
		midnight = wall - wall%day + day
	}
}

// inHours counts the fitting times from one full hour up to another of the same day.
func (c *cron) inHours(from, end int64) (n int64) {
	for ; from < end; from += hour {
		if wall, ok := c.atOrAfter(from); ok && wall < from+hour {
			n += c.perHour()
		}
	}
	return n
}

// perHour is how many fitting times a fitting hour has.
func (c *cron) perHour() int64 {
	return int64(bits.OnesCount64(c.minutes.bits)) * int64(bits.OnesCount64(c.seconds.bits))
}
