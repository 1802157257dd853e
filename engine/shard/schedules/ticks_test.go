package schedules

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

func rhythmOf(t testing.TB, def queue.Schedule) *Rhythm {
	t.Helper()
	x, err := newRhythm("nightly", &def)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func clock(text string) queue.Time {
	at, err := time.Parse(time.DateTime, text)
	if err != nil {
		panic(err)
	}
	return queue.At(at)
}

// Each policy decides which ticks are emitted, which are dropped, and which is next.
func TestTickPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		def          queue.Schedule
		next, asOf   string
		most         int
		ticks        []string
		missed, late uint64
		after        string
	}{
		{"not due yet", queue.Schedule{Spec: "@hourly"}, "2026-01-05 09:00:00", "2026-01-05 08:59:59", 9, nil, 0, 0, "2026-01-05 09:00:00"},
		{"on time", queue.Schedule{Spec: "@hourly", Missed: queue.MissedSkip}, "2026-01-05 09:00:00", "2026-01-05 09:00:05", 9, []string{"09:00:00"}, 0, 0, "2026-01-05 10:00:00"},
		{"missed by a second", queue.Schedule{Spec: "@hourly", Missed: queue.MissedSkip}, "2026-01-05 09:00:00", "2026-01-05 09:00:06", 9, nil, 1, 0, "2026-01-05 10:00:00"},
		{"once", queue.Schedule{Spec: "@hourly"}, "2026-01-05 09:00:00", "2026-01-05 13:30:00", 9, []string{"13:00:00"}, 4, 0, "2026-01-05 14:00:00"},
		{"once, and one on time", queue.Schedule{Spec: "@hourly"}, "2026-01-05 09:00:00", "2026-01-05 13:00:00", 9, []string{"13:00:00"}, 4, 0, "2026-01-05 14:00:00"},
		{"all within the window", queue.Schedule{Spec: "@hourly", Missed: queue.MissedAll, CatchUp: 100, CatchUpWindow: 2 * time.Hour}, "2026-01-05 09:00:00", "2026-01-05 13:30:00", 9, []string{"12:00:00", "13:00:00"}, 0, 3, "2026-01-05 14:00:00"},
		{"all within the limit", queue.Schedule{Spec: "@hourly", Missed: queue.MissedAll, CatchUp: 1, CatchUpWindow: 24 * time.Hour}, "2026-01-05 09:00:00", "2026-01-05 13:00:01", 9, []string{"12:00:00", "13:00:00"}, 0, 3, "2026-01-05 14:00:00"},
		{"all, in slices", queue.Schedule{Spec: "@hourly", Missed: queue.MissedAll, CatchUp: 100, CatchUpWindow: 24 * time.Hour}, "2026-01-05 09:00:00", "2026-01-05 13:30:00", 2, []string{"09:00:00", "10:00:00"}, 0, 0, "2026-01-05 11:00:00"},
		{"the end", queue.Schedule{Spec: "@hourly", End: clock("2026-01-05 10:30:00")}, "2026-01-05 09:00:00", "2026-01-07 13:30:00", 9, []string{"10:00:00"}, 1, 0, ""},
		{"every second for a year", queue.Schedule{Spec: "* * * * * *", Seconds: true, Missed: queue.MissedSkip}, "2025-01-05 00:00:00", "2026-01-05 00:00:00", 9,
			[]string{"23:59:55", "23:59:56", "23:59:57", "23:59:58", "23:59:59", "00:00:00"}, 365*24*3600 - 5, 0, "2026-01-05 00:00:01"},
		{"nothing left", queue.Schedule{Spec: "@at 2026-01-05T09:00:00Z"}, "", "2026-01-05 09:00:00", 9, nil, 0, 0, ""},
	} {
		next := queue.Time(0)
		if c.next != "" {
			next = clock(c.next)
		}
		p := rhythmOf(t, c.def).plan(next, clock(c.asOf), c.most)
		var ticks []string
		for _, tick := range p.ticks {
			ticks = append(ticks, tick.Std().Format(time.TimeOnly))
		}
		after := ""
		if p.next != 0 {
			after = p.next.Std().Format(time.DateTime)
		}
		if fmt.Sprint(ticks) != fmt.Sprint(c.ticks) || p.missed != c.missed || p.late != c.late || after != c.after {
			t.Errorf("%s: got ticks %v, missed %d, late %d, next %q; want %v, %d, %d, %q", c.name, ticks, p.missed, p.late, after, c.ticks, c.missed, c.late, c.after)
		}
	}
}

// The jitter of a tick is always the same, spreads over its whole range, and differs between schedules.
func TestJitterIsStable(t *testing.T) {
	t.Parallel()
	def := queue.Schedule{Spec: "@hourly", Jitter: 10 * time.Minute}
	x, again := rhythmOf(t, def), rhythmOf(t, def)
	other, err := newRhythm("another", &def)
	if err != nil {
		t.Fatal(err)
	}
	var buckets [10]int
	same := 0
	tick := clock("2026-01-05 00:00:00")
	for range 2000 {
		due := x.due(tick)
		if due != again.due(tick) || due < tick || due > tick.Add(def.Jitter) {
			t.Fatalf("the tick of %s is due at %s, and asked again at %s", tick.Std(), due.Std(), again.due(tick).Std())
		}
		if due == other.due(tick) {
			same++
		}
		buckets[min(9, int(due.Sub(tick)/time.Minute))]++
		tick = x.after(tick)
	}
	for minute, n := range buckets {
		if n < 120 || n > 280 {
			t.Errorf("of 2000 ticks %d are delayed by %d minutes, want about 200: %v", n, minute, buckets)
		}
	}
	if same > 20 {
		t.Errorf("two schedules have the same delay in %d of 2000 ticks", same)
	}
	// The value of the hash must never change: a restart with a newer program must not move a tick.
	if got, want := x.due(clock("2026-01-05 00:00:00")).Std().Format("15:04:05.000"), "00:05:38.806"; got != want {
		t.Errorf("the tick of midnight is due at %s, want %s as ever", got, want)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		name string
		def  queue.Schedule
		days int
	}{
		{"hourly-due", queue.Schedule{Spec: "@hourly"}, 0},
		{"every-second-30-days-late", queue.Schedule{Spec: "* * * * * *", Seconds: true, Missed: queue.MissedAll, CatchUp: 100, CatchUpWindow: time.Hour}, 30},
		{"every-second-a-year-late", queue.Schedule{Spec: "* * * * * *", Seconds: true, Zone: "Europe/Amsterdam"}, 365},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := rhythmOf(b, c.def)
			next := clock("2026-01-05 09:00:00")
			asOf := next.Add(time.Duration(c.days) * 24 * time.Hour)
			for b.Loop() {
				x.plan(next, asOf, emitMost)
			}
		})
	}
}
