package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func mustParse(t testing.TB, text, zone string) *Spec {
	t.Helper()
	loc, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(text, Options{Seconds: len(strings.Fields(text)) == 6, Location: loc, Anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// An error names the field, the position and the range, and says what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		seconds bool
		want    string
	}{
		{"", false, "is empty"},
		{"* * * *", false, "has 4 fields, and 5 are expected: minute, hour, day of month, month, weekday"},
		{"0 * * * * *", false, `set "seconds" to true`},
		{"* * * * *", true, `6 are expected because "seconds" is true`},
		{"61 * * * *", false, "wrong minute field (character 1): 61 is out of range; 0 to 59 are allowed"},
		{"* 24 * * *", false, "wrong hour field (character 3): 24 is out of range; 0 to 23 are allowed"},
		{"0  1,2,x * * *", false, `wrong hour field (character 8): "x" is no number; 0 to 23 are allowed`},
		{"0 0 0 * *", false, "wrong day of month field (character 5): 0 is out of range; 1 to 31 are allowed"},
		{"0 0 * FOO *", false, `wrong month field (character 7): "FOO" is no number; 1 to 12 (or JAN to DEC) are allowed`},
		{"0 0 * * 8", false, "wrong weekday field (character 9): 8 is out of range; 0 to 7 (or SUN to SAT) are allowed"},
		{"*/0 * * * *", false, `wrong minute field (character 3): the step "0" is not a number from 1 to 59`},
		{"*/61 * * * *", false, "the step \"61\" is not a number from 1 to 59"},
		{"30-10 * * * *", false, "the range 30-10 ends before it begins; write it as two, such as 30-59,0-10"},
		{"1,,2 * * * *", false, "wrong minute field (character 3): there is nothing between two commas"},
		{"? * * * *", false, "? stands for any day"},
		{"0 0 L-31 * *", false, "neither L (the last day) nor L-1 to L-30"},
		{"0 0 * * L", false, "for the last Friday write 5L"},
		{"0 0 15W * *", false, `"15W" is not supported`},
		{"0 0 * * FRI#2", false, `"FRI#2" is not supported`},
		{"0 0 +1 * *", false, `"+1" is no number`},
		{"0 0 30 2 *", false, "which no date ever fits"},
		{"0 0 31 2,4,6,9,11 *", false, "which no date ever fits"},
		{"@every 500ms", false, "has the interval 500ms; 1s to 87600h0m0s are allowed"},
		{"@every 1d", false, "which is no duration"},
		{"@every", false, "which is no duration"},
		{"@every 1.0001s", false, "whole milliseconds"},
		{"@at tomorrow", false, "write it with its offset"},
		{"@at 2026-03-29 02:30", false, "write it with its offset"},
		{"@reboot", false, `is "@reboot", which is no name`},
		{strings.Repeat("1,", 200) + "1 * * * *", false, "at most 256 are allowed"},
	} {
		s, err := Parse(c.text, Options{Seconds: c.seconds})
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Parse(%q, seconds %v) = %v, %v; want an error with %q", c.text, c.seconds, s, err, c.want)
		}
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"": true, "UTC": true, "Europe/Amsterdam": true, "Australia/Lord_Howe": true, "Local": false, "Europe/Atlantis": false, "../etc/passwd": false} {
		if loc, err := Zone(name); (err == nil) != ok {
			t.Errorf("Zone(%q) = %v, %v; want ok = %v", name, loc, err, ok)
		}
	}
}

// Specs are said in plain words.
func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, zone, want string }{
		{"30 2 * * MON", "Europe/Amsterdam", "at 02:30 every Monday, Europe/Amsterdam"},
		{"30 2 * * *", "Europe/Amsterdam", "at 02:30 every day, Europe/Amsterdam"},
		{"* * * * *", "", "every minute, UTC"},
		{"*/15 * * * *", "", "every 15 minutes, UTC"},
		{"*/15 9-17 * * 1-5", "", "every 15 minutes of hours 9 to 17 every Monday to Friday, UTC"},
		{"*/7 * * * *", "", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour, UTC"},
		{"10 * * * *", "", "at minute 10 of every hour, UTC"},
		{"0 */6 * * *", "", "at 00:00, 06:00, 12:00 and 18:00 every day, UTC"},
		{"0 */2 * * *", "", "every 2 hours on the hour, UTC"},
		{"20 */2 * * *", "", "at minute 20 of every 2nd hour from 00, UTC"},
		{"0 8,20 1,15 * *", "", "at 08:00 and 20:00 on days 1 and 15 of the month, UTC"},
		{"0 0 13 * FRI", "", "at 00:00 on day 13 of the month and every Friday, UTC"},
		{"0 0 */2 * FRI", "", "at 00:00 on days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month that is also Friday, UTC"},
		{"0 0 L * *", "", "at 00:00 on the last day of the month, UTC"},
		{"0 0 L-1,L-3 * ?", "", "at 00:00 on the day before the last and 3 days before the last of the month, UTC"},
		{"0 0 * * 5L", "", "at 00:00 every last Friday of the month, UTC"},
		{"@yearly", "", "at 00:00 on day 1 of the month in January, UTC"},
		{"@weekly", "", "at 00:00 every Sunday, UTC"},
		{"@hourly", "", "at minute 0 of every hour, UTC"},
		{"*/5 * * * * *", "", "every 5 seconds, UTC"},
		{"* * * * * *", "", "every second, UTC"},
		{"30 15 8 * * *", "", "at 08:15:30 every day, UTC"},
		{"10,20 * * * * *", "", "at seconds 10 and 20 of every minute, UTC"},
		{"* 30 2 * * *", "", "every second of minute 30 of hour 2, UTC"},
		{"@every 90m", "", "every 1h30m, counted from 1 January 2026 00:00:00, UTC"},
		{"@at 2026-03-29T02:30:00Z", "Europe/Amsterdam", "once, on 29 March 2026 at 04:30:00, Europe/Amsterdam"},
	} {
		if got := mustParse(t, c.text, c.zone).Describe(); got != c.want {
			t.Errorf("%s in %q:\ngot  %s\nwant %s", c.text, c.zone, got, c.want)
		}
	}
}
