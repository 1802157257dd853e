package schedule

import (
	"testing"
	"time"
)

// Beyond 2037 zones follow a rule instead of a table, and the bounds of the last day of a leap year do not include it. A walk over the
// stretches still gets through, in both directions, and no tick is lost.
func TestStretchesGoOnBeyondTheTable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Amsterdam", "America/New_York", "Australia/Sydney", "Asia/Tokyo"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		leap, err := Parse("30 2 29 2 *", Options{Location: loc})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC)
		for year := 2028; year <= 2064; year += 4 {
			at = leap.Next(at)
			if want := time.Date(year, 2, 29, 2, 30, 0, 0, loc); !at.Equal(want) {
				t.Fatalf("%s: got %s, want %s", name, at, want)
			}
		}
		for year := 2060; year >= 2028; year -= 4 {
			at = leap.Prev(at)
			if want := time.Date(year, 2, 29, 2, 30, 0, 0, loc); !at.Equal(want) {
				t.Fatalf("%s, backwards: got %s, want %s", name, at, want)
			}
		}
		daily, err := Parse("0 12 * * *", Options{Location: loc})
		if err != nil {
			t.Fatal(err)
		}
		at = time.Date(2040, 12, 1, 12, 0, 0, 0, loc)
		for day := 2; day <= 45; day++ {
			at = daily.Next(at)
			if want := time.Date(2040, 12, day, 12, 0, 0, 0, loc); !at.Equal(want) {
				t.Fatalf("%s: got %s, want %s", name, at, want)
			}
		}
		if got := daily.Count(time.Date(2040, 12, 1, 12, 0, 0, 0, loc), at); got != 44 {
			t.Errorf("%s: counts %d ticks, want 44", name, got)
		}
	}
}
