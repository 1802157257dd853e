package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// drawn is a spec whose meaning the oracle knows without the parser.
type drawn struct {
	text                   string
	minutes, hours, days   map[int]bool // days: nil allows all
	weekdays               map[int]bool
	daysStar, weekdaysStar bool
	pace                   bool // hours or minutes are `*` or a step
}

func draw(r *rand.Rand) drawn {
	var d drawn
	var texts [5]string
	var pace bool
	texts[0], d.minutes, pace = drawField(r, 0, 59)
	d.pace = pace
	texts[1], d.hours, pace = drawField(r, 0, 23)
	d.pace = d.pace || pace
	texts[2], texts[3], texts[4] = "*", "*", "*"
	d.daysStar, d.weekdaysStar = true, true
	if r.IntN(3) == 0 {
		texts[2], d.days, _ = drawField(r, 1, 31)
		d.daysStar = strings.HasPrefix(texts[2], "*")
	}
	if r.IntN(3) == 0 {
		texts[4], d.weekdays, _ = drawField(r, 0, 6)
		d.weekdaysStar = strings.HasPrefix(texts[4], "*")
	}
	d.text = strings.Join(texts[:], " ")
	return d
}

// drawField draws a field and the numbers that it means; hours near two in the morning come more often, as clocks change then.
func drawField(r *rand.Rand, least, most int) (text string, set map[int]bool, pace bool) {
	set = map[int]bool{}
	number := func() int {
		if most == 23 && r.IntN(2) == 0 {
			return r.IntN(4)
		}
		return least + r.IntN(most-least+1)
	}
	span := func(low, high, step int) {
		for n := low; n <= high; n += step {
			set[n] = true
		}
	}
	switch r.IntN(6) {
	case 0:
		span(least, most, 1)
		return "*", set, true
	case 1:
		step := 1 + r.IntN(most)
		span(least, most, step)
		return fmt.Sprintf("*/%d", step), set, true
	case 2:
		low, high, step := number(), number(), 1+r.IntN(7)
		if low > high {
			low, high = high, low
		}
		span(low, high, step)
		return fmt.Sprintf("%d-%d/%d", low, high, step), set, true
	case 3:
		low, high := number(), number()
		if low > high {
			low, high = high, low
		}
		span(low, high, 1)
		return fmt.Sprintf("%d-%d", low, high), set, low == least && high == most
	}
	var parts []string
	for range 1 + r.IntN(3) {
		n := number()
		set[n] = true
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ","), set, false
}

// fits says whether a wall time, written as if its zone were UTC, is one of the spec.
func (d *drawn) fits(wall time.Time) bool {
	if !d.minutes[wall.Minute()] || !d.hours[wall.Hour()] {
		return false
	}
	day := d.days == nil || d.days[wall.Day()]
	weekday := d.weekdays == nil || d.weekdays[int(wall.Weekday())]
	if d.daysStar || d.weekdaysStar {
		return day && weekday
	}
	return day || weekday
}

// oracle walks the wall clock minute by minute, and for each fitting minute finds the moments that show it. It first records, for each
// minute of the time around, what the zone's clock shows.
type oracle struct {
	loc   *time.Location
	shown map[time.Time][]time.Time // wall time -> the moments that show it, in order
	from  time.Time
	to    time.Time
}

func asUTC(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

func newOracle(loc *time.Location, from, to time.Time) *oracle {
	o := &oracle{loc: loc, shown: map[time.Time][]time.Time{}, from: from, to: to}
	for at := from.Add(-48 * time.Hour); at.Before(to.Add(48 * time.Hour)); at = at.Add(time.Minute) {
		wall := asUTC(at.In(loc))
		o.shown[wall] = append(o.shown[wall], at)
	}
	return o
}

// ticks are the moments at which the spec is due, within the walk.
func (o *oracle) ticks(d *drawn) (list []time.Time) {
	for wall := o.from.Add(-30 * time.Hour); wall.Before(o.to.Add(30 * time.Hour)); wall = wall.Add(time.Minute) {
		if !d.fits(wall) {
			continue
		}
		moments := o.shown[wall]
		switch {
		case len(moments) == 0 && d.pace:
			list = append(list, o.lastBefore(wall).Add(wall.Sub(asUTC(o.lastBefore(wall).In(o.loc)))))
		case len(moments) == 0:
			list = append(list, o.lastBefore(wall).Add(time.Minute))
		case d.pace:
			list = append(list, moments...)
		default:
			list = append(list, moments[0])
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	list = slices.CompactFunc(list, time.Time.Equal)
	return slices.DeleteFunc(list, func(t time.Time) bool { return t.Before(o.from) || !t.Before(o.to) })
}

// lastBefore is the last moment that shows a time before a missing one, before the clock jumps over it.
func (o *oracle) lastBefore(wall time.Time) time.Time {
	for at := wall; ; at = at.Add(-time.Minute) {
		if moments := o.shown[at]; len(moments) > 0 {
			return moments[len(moments)-1]
		}
	}
}

// changes are days around which clocks change, in ten zones: an hour, half an hour (Lord Howe), at midnight (Cairo, Beirut, Asunción),
// a whole day left out (Apia), for politics (Pyongyang, Casablanca), and never (Kolkata).
var changes = map[string][]string{
	"Europe/Amsterdam":    {"2026-03-29", "2026-10-25"},
	"America/New_York":    {"2026-03-08", "2026-11-01"},
	"Australia/Lord_Howe": {"2026-04-04", "2026-10-03"},
	"Africa/Cairo":        {"2026-04-24", "2026-10-29"},
	"Asia/Beirut":         {"2026-03-29", "2026-10-24"},
	"America/Asuncion":    {"2023-03-26", "2023-10-01"},
	"Pacific/Apia":        {"2011-12-30", "2012-04-01"},
	"Asia/Pyongyang":      {"2015-08-14", "2018-05-04"},
	"Africa/Casablanca":   {"2026-02-15", "2026-03-22"},
	"Asia/Kolkata":        {"2026-03-29"},
}

// Next, Prev and Count agree with the walk, around every change of the clocks.
func TestAgainstTheWalk(t *testing.T) {
	t.Parallel()
	specs := 150
	if testing.Short() {
		specs = 40
	}
	for name, days := range changes {
		for _, text := range days {
			t.Run(name+" "+text, func(t *testing.T) {
				t.Parallel()
				loc, err := Zone(name)
				if err != nil {
					t.Fatal(err)
				}
				around, err := time.ParseInLocation(time.DateOnly, text, time.UTC)
				if err != nil {
					t.Fatal(err)
				}
				from, to := around.Add(-36*time.Hour), around.Add(60*time.Hour)
				o := newOracle(loc, from, to)
				seed := rand.Uint64()
				r := rand.New(rand.NewPCG(seed, 1))
				for range specs {
					d := draw(r)
					checkAgainst(t, o, &d, seed)
				}
			})
		}
	}
}

func checkAgainst(t *testing.T, o *oracle, d *drawn, seed uint64) {
	t.Helper()
	s, err := Parse(d.text, Options{Location: o.loc})
	if err != nil {
		t.Fatalf("seed %d: %s: %v", seed, d.text, err)
	}
	want := o.ticks(d)
	var got []time.Time
	for at := s.Next(o.from.Add(-time.Second)); !at.IsZero() && at.Before(o.to); at = s.Next(at) {
		got = append(got, at)
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Fatalf("seed %d: %s in %s, pace %v: Next gives\n%s\nthe walk finds\n%s", seed, d.text, o.loc, d.pace, listed(got, o.loc), listed(want, o.loc))
	}
	var back []time.Time
	for at := s.Prev(o.to); !at.IsZero() && !at.Before(o.from); at = s.Prev(at) {
		back = append(back, at)
	}
	slices.Reverse(back)
	if !slices.EqualFunc(back, want, time.Time.Equal) {
		t.Fatalf("seed %d: %s in %s, pace %v: Prev gives\n%s\nthe walk finds\n%s", seed, d.text, o.loc, d.pace, listed(back, o.loc), listed(want, o.loc))
	}
	if n := s.Count(o.from.Add(-time.Second), o.to.Add(-time.Second)); n != int64(len(want)) {
		t.Fatalf("seed %d: %s in %s: Count = %d, want %d", seed, d.text, o.loc, n, len(want))
	}
}

func listed(ticks []time.Time, loc *time.Location) string {
	var b strings.Builder
	for i, at := range ticks {
		if i == 60 {
			fmt.Fprintf(&b, " and %d more", len(ticks)-i)
			break
		}
		b.WriteString(at.In(loc).Format("  02 15:04 -0700\n"))
	}
	return b.String()
}

// Count is the number of Next's ticks over years as well, for specs with seconds too.
func TestCountOverYears(t *testing.T) {
	t.Parallel()
	from := time.Date(2024, 2, 27, 13, 7, 9, 0, time.UTC)
	for _, c := range []struct{ text, zone string }{
		{"*/10 2 * * *", "Europe/Amsterdam"}, {"30 2 * * *", "Australia/Lord_Howe"}, {"0 0 L * *", "UTC"}, {"15 */5 * * MON", "Africa/Cairo"}, {"@every 7h", "UTC"},
		{"20,40 59 23 * * *", "America/New_York"}, {"*/20 */30 1-3 * * *", "Australia/Lord_Howe"}, {"0 30 1,2 * * SUN", "Europe/Amsterdam"}, {"0 12 29 2 *", "Asia/Kolkata"}, {"@at 2025-01-01T00:00:00Z", "UTC"},
	} {
		s := mustParse(t, c.text, c.zone)
		for _, years := range []int{0, 1, 3} {
			to := from.AddDate(years, 1, 1).Add(3 * time.Hour)
			n := int64(0)
			for at := s.Next(from); !at.IsZero() && !at.After(to); at = s.Next(at) {
				n++
			}
			if got := s.Count(from, to); got != n {
				t.Errorf("%s in %s over %d years: Count = %d, want %d", c.text, c.zone, years, got, n)
			}
		}
	}
}

// Beyond 2037 most zones have a rule instead of a table. The walk from stretch to stretch goes on over the edge, and stays right.
func TestFarFuture(t *testing.T) {
	t.Parallel()
	for name := range changes {
		s := mustParse(t, "30 2 29 2 *", name)
		at := time.Date(2036, 3, 1, 0, 0, 0, 0, s.Location())
		for _, year := range []int{2040, 2044, 2048, 2052} {
			at = s.Next(at)
			if want := time.Date(year, 2, 29, 2, 30, 0, 0, s.Location()); !at.Equal(want) {
				t.Errorf("%s: got %s, want %s", name, at, want)
			}
		}
		if back := s.Prev(at); back.Year() != 2048 {
			t.Errorf("%s: before %s comes %s, want one of 2048", name, at, back)
		}
		daily := mustParse(t, "0 12 * * *", name)
		from, to := time.Date(2040, 12, 1, 0, 0, 0, 0, daily.Location()), time.Date(2041, 1, 31, 0, 0, 0, 0, daily.Location())
		n := 0
		for at := daily.Next(from); at.Before(to); at = daily.Next(at) {
			n++
		}
		if n != 61 {
			t.Errorf("%s: %d noons in December 2040 and January 2041, want 61", name, n)
		}
	}
}

// FuzzParse: no text makes the parser panic or loop. A spec that it accepts has a tick, ticks rise, and Prev undoes Next.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"30 2 * * MON", "*/5 0-6/2 L-3,1 JAN-MAR 5L", "0 0 29 2 ?", "@every 90s", "@at 2026-03-29T02:30:00Z", "@hourly", "1 2 3 4 5 6", "* * * * * *", "0 0 31 2 *"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	loc, err := Zone("Australia/Lord_Howe")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, seconds bool) {
		s, err := Parse(text, Options{Seconds: seconds, Location: loc, Anchor: time.Unix(1_700_000_000, 0)})
		if err != nil {
			var wrong *Error
			if !asError(err, &wrong) || wrong.Column > len(text)+1 { // where a number is missing it points behind the end
				t.Fatalf("Parse(%q): %#v, want an *Error that points to a place of it", text, err)
			}
			return
		}
		if s.Describe() == "" {
			t.Fatalf("Parse(%q) is said with no words", text)
		}
		at := time.Unix(1_790_000_000, 0)
		for range 5 {
			next := s.Next(at)
			if next.IsZero() {
				if !s.Once() {
					t.Fatalf("Parse(%q) is accepted and has no tick after %s", text, at)
				}
				return
			}
			if !next.After(at) {
				t.Fatalf("Parse(%q): Next(%s) = %s", text, at, next)
			}
			if back := s.Next(s.Prev(next)); !s.Once() && !back.Equal(next) {
				t.Fatalf("Parse(%q): after Prev(%s) = %s comes %s", text, next, s.Prev(next), back)
			}
			at = next
		}
	})
}

func asError(err error, to **Error) bool {
	e, is := err.(*Error)
	*to = e
	return is
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, text, zone string }{
		{"every-minute-utc", "* * * * *", "UTC"}, {"daily-utc", "30 2 * * *", "UTC"}, {"daily-amsterdam", "30 2 * * *", "Europe/Amsterdam"},
		{"weekly-amsterdam", "30 2 * * MON", "Europe/Amsterdam"}, {"yearly-amsterdam", "@yearly", "Europe/Amsterdam"}, {"leap-day-amsterdam", "0 0 29 2 *", "Europe/Amsterdam"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := mustParse(b, c.text, c.zone)
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				if at = s.Next(at); at.Year() > 2100 {
					at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("*/15 9-17 * * MON-FRI", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// A tick in the hour that occurs twice is found although the ticks before and behind it are half a year away.
func TestRepeatedHourAmongRareTicks(t *testing.T) {
	t.Parallel()
	loc, err := Zone("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	moment := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct{ spec, at, next, prev string }{
		{"17 1-3/6 16,1 * */4", "2026-11-01T05:17:00Z", "2026-11-01T06:17:00Z", "2026-10-01T05:17:00Z"},
		{"17 1-3/6 16,1 * */4", "2026-11-01T06:17:00Z", "2027-04-01T05:17:00Z", "2026-11-01T05:17:00Z"},
		{"17 1-3/6 16,1 * */4", "2026-11-01T06:00:00Z", "2026-11-01T06:17:00Z", "2026-11-01T05:17:00Z"},
		{"17 1 1 1,11 *", "2026-11-01T06:10:00Z", "2027-01-01T06:17:00Z", "2026-11-01T05:17:00Z"},
	} {
		s, err := Parse(c.spec, Options{Location: loc})
		if err != nil {
			t.Fatal(err)
		}
		at := moment(c.at)
		if got := s.Next(at); !got.Equal(moment(c.next)) {
			t.Errorf("%s: behind %s comes %s, want %s", c.spec, c.at, got.UTC(), c.next)
		}
		if got := s.Prev(at); !got.Equal(moment(c.prev)) {
			t.Errorf("%s: before %s comes %s, want %s", c.spec, c.at, got.UTC(), c.prev)
		}
	}
}
