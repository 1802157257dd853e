package main

import (
	"bytes"
	"strings"
	"testing"
)

// A number that a flag of a queue's settings, a submission or a schedule cannot hold is refused with the flag and its range. The error
// does not name the type of the field.
func TestFlagsNameTheirRange(t *testing.T) {
	t.Parallel()
	numbers := []string{"-1", "65536", "2147483648", "9223372036854775808", "18446744073709551616", "1e30", "1.5"}
	huge := []string{"9223372036854775808", "18446744073709551616", "1e30", "1.5", "99999999h"}
	words := []string{"much", "1e400"}
	for _, test := range []struct {
		command, flag string
		wrong         []string
		allowed       string
	}{
		{"queue put", "max-attempts", numbers, "0 (no limit) to 1,000"},
		{"queue put", "max-expiries", numbers, "0 (no limit) to 250"},
		{"queue put", "suspect-share", words, "0 (behind all other work) to 1 (no limit)"},
		{"queue put", "reservation-timeout", huge, "100ms to --max-reservation"},
		{"queue put", "max-reservation", huge, "100ms to 24h"},
		{"queue put", "consumer-grace", huge, "0 (at once) to 1h"},
		{"queue put", "restart-grace", huge, "0 (none) to 10m"},
		{"queue put", "retention", huge, "0 (for ever) to 87600h"},
		{"queue put", "dead-retention", huge, "to 87600h"},
		{"queue set", "max-attempts", numbers, "0 (no limit) to 1,000"},
		{"queue set", "max-waiting-chunks", append(words, "9223372036854775808"), "0 (any number) to 1,000,000,000,000"},
		{"submit", "max-attempts", numbers, "0 (the queue's) to 1,000"},
		{"submit", "max-failed-chunks", append(words, "-1", "4294967296"), "0 (any number) to 4,294,967,295"},
		{"submit", "timeout", huge, "0 (the queue's max_reservation_ms) to 24h"},
		{"submit", "priority", append(words, "9223372036854775808"), "-9,007,199,254,740,991 to 9,007,199,254,740,991"},
		{"submit", "count", append(words, "9223372036854775808"), "1 to 4,294,967,295"},
		{"schedules set", "max-attempts", numbers, "0 (the queue's) to 1,000"},
		{"schedules set", "dead-after", huge, "0 (none) to 87600h"},
		{"schedules set", "catchup-limit", append(words, "-1", "4294967296"), "1 to 1,000"},
		{"schedules set", "catchup-window", huge, "1s to 8784h"},
		{"schedules set", "jitter", huge, "0 to 24h"},
	} {
		for _, number := range test.wrong {
			var said bytes.Buffer
			a := &app{in: strings.NewReader(""), out: &said, err: &said}
			code := a.run(t.Context(), append(strings.Fields(test.command), "--"+test.flag+"="+number))
			want := "--" + test.flag + ` is "` + number + `": `
			if code != 2 || !strings.Contains(said.String(), want) || !strings.Contains(said.String(), test.allowed+" ") || strings.Contains(said.String(), "strconv") {
				t.Errorf("quern %s --%s=%s: got %d %q, want 2 and %s...%s", test.command, test.flag, number, code, said.String(), want, test.allowed)
			}
		}
	}
}
