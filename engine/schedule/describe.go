package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Describe says in plain words when the spec is due: "at 02:30 every Monday, Europe/Amsterdam".
func (s *Spec) Describe() string {
	switch s.kind {
	case ofAt:
		return "once, on " + s.at.In(s.loc).Format("2 January 2006 at 15:04:05") + ", " + s.loc.String()
	case ofEvery:
		return "every " + span(s.every) + ", counted from " + s.anchor.In(s.loc).Format("2 January 2006 15:04:05") + ", " + s.loc.String()
	}
	when := s.cron.describeTime()
	if days := s.cron.describeDays(); days != "every day" || !s.cron.rhythm() {
		when += " " + days
	}
	return when + ", " + s.loc.String()
}

// span writes a duration without parts that are zero.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// rhythm says whether the time of day speaks of "every ..." itself, so that it needs no "every day" behind it.
func (c *cron) rhythm() bool { return strings.Contains(c.describeTime(), "every") }

// fewTimes is the most times of day that are listed one by one.
const fewTimes = 6

func (c *cron) describeTime() string {
	seconds, minutes, hours := c.seconds.list(), c.minutes.list(), c.hours.list()
	allHours, allMinutes := len(hours) == 24, len(minutes) == 60
	onTheMinute := len(seconds) == 1 && seconds[0] == 0
	switch {
	case onTheMinute && len(minutes)*len(hours) <= fewTimes:
		var times []string
		for _, h := range hours {
			for _, m := range minutes {
				times = append(times, fmt.Sprintf("%02d:%02d", h, m))
			}
		}
		return "at " + and(times)
	case !onTheMinute && len(seconds)*len(minutes)*len(hours) <= fewTimes:
		var times []string
		for _, h := range hours {
			for _, m := range minutes {
				for _, sec := range seconds {
					times = append(times, fmt.Sprintf("%02d:%02d:%02d", h, m, sec))
				}
			}
		}
		return "at " + and(times)
	}
	text := ""
	switch pace := even(minutes, 60); {
	case !onTheMinute:
		text = describeSeconds(seconds, minutes)
	case allMinutes:
		text = "every minute"
	case pace > 0:
		text = fmt.Sprintf("every %d minutes", pace)
	default:
		text = "at " + plural("minute", minutes) + " " + numbers(minutes)
	}
	switch pace := even(hours, 24); {
	case allHours && (onTheMinute && (allMinutes || even(minutes, 60) > 0) || !onTheMinute && allMinutes):
		return text
	case allHours:
		return text + " of every hour"
	case pace > 0 && onTheMinute && len(minutes) == 1 && minutes[0] == 0:
		return fmt.Sprintf("every %d hours on the hour", pace)
	case pace > 0:
		return text + fmt.Sprintf(" of every %s hour from 00", ordinal(pace))
	}
	return text + " of " + plural("hour", hours) + " " + numbers(hours)
}

func describeSeconds(seconds, minutes []int) string {
	text := ""
	switch pace := even(seconds, 60); {
	case len(seconds) == 60:
		text = "every second"
	case pace > 0:
		text = fmt.Sprintf("every %d seconds", pace)
	case len(minutes) == 60:
		return "at " + plural("second", seconds) + " " + numbers(seconds) + " of every minute"
	default:
		text = "at " + plural("second", seconds) + " " + numbers(seconds)
	}
	if len(minutes) == 60 {
		return text
	}
	return text + " of " + plural("minute", minutes) + " " + numbers(minutes)
}

// even is the distance between numbers that divide the whole evenly from 0 on, as */15 does minutes; else 0.
func even(all []int, whole int) int {
	if len(all) < 2 || len(all) == whole || whole%len(all) != 0 {
		return 0
	}
	pace := whole / len(all)
	for i, n := range all {
		if n != i*pace {
			return 0
		}
	}
	return pace
}

// describeDays says on which days: "every day", "every Monday", "on day 1 of the month and every Friday in January".
func (c *cron) describeDays() string {
	freeDays := len(c.days.list()) == 31 && c.days.last == 0
	freeWeekdays := len(c.weekdays.list()) == 7 && c.weekdays.last == 0
	text := ""
	switch {
	case freeDays && freeWeekdays || !c.days.star && !c.weekdays.star && (freeDays || freeWeekdays):
		text = "every day"
	case freeDays:
		text = c.describeWeekdays()
	case freeWeekdays:
		text = c.describeDates()
	case c.days.star || c.weekdays.star:
		text = c.describeDates() + " that is also " + strings.TrimPrefix(c.describeWeekdays(), "every ")
	default:
		text = c.describeDates() + " and " + c.describeWeekdays()
	}
	months := c.months.list()
	if len(months) == 12 {
		return text
	}
	var names []string
	for _, m := range months {
		names = append(names, time.Month(m).String())
	}
	return text + " in " + and(names)
}

func (c *cron) describeDates() string {
	var parts []string
	if days := c.days.list(); len(days) > 0 {
		parts = append(parts, plural("day", days)+" "+numbers(days))
	}
	for n := range 31 {
		switch {
		case c.days.last>>uint(n)&1 == 0:
		case n == 0:
			parts = append(parts, "the last day")
		case n == 1:
			parts = append(parts, "the day before the last")
		default:
			parts = append(parts, strconv.Itoa(n)+" days before the last")
		}
	}
	return "on " + and(parts) + " of the month"
}

func (c *cron) describeWeekdays() string {
	var parts []string
	days := c.weekdays.list()
	if len(days) == 5 && days[0] == 1 && days[4] == 5 {
		parts = append(parts, "Monday to Friday")
	} else {
		for _, d := range days {
			parts = append(parts, time.Weekday(d).String())
		}
	}
	for d := range 7 {
		if c.weekdays.last>>uint(d)&1 != 0 {
			parts = append(parts, "last "+time.Weekday(d).String()+" of the month")
		}
	}
	return "every " + and(parts)
}

// numbers lists numbers, three and more in a row as a range.
func numbers(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		end := i
		for end+1 < len(all) && all[end+1] == all[end]+1 {
			end++
		}
		if end-i < 2 {
			end = i
			parts = append(parts, strconv.Itoa(all[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d to %d", all[i], all[end]))
		}
		i = end + 1
	}
	return and(parts)
}

func plural(noun string, of []int) string {
	if len(of) == 1 {
		return noun
	}
	return noun + "s"
}

func ordinal(n int) string {
	switch n {
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return strconv.Itoa(n) + "th"
}

func and(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
