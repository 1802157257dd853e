package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// Each form of a back-off in a flag means what the help says, and is written as it is read.
func TestBackoffFlag(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flag  string
		want  api.Backoff
		again string // as it is written, if differently
		text  string
	}{
		{"1s,2,5m", api.Backoff{BaseMS: 1000, Factor: 2, CapMS: 300_000}, "", "1s × 2 up to 5m"},
		{"1s", api.Backoff{BaseMS: 1000, Factor: 2, CapMS: 300_000}, "1s,2,5m", "1s × 2 up to 5m"},
		{"10m", api.Backoff{BaseMS: 600_000, Factor: 2, CapMS: 600_000}, "10m,2,10m", "10m × 2 up to 10m"},
		{"exponential:1s,3,1h,jitter=equal", api.Backoff{Kind: "exponential", BaseMS: 1000, Factor: 3, CapMS: 3_600_000, Jitter: "equal"}, "", "1s × 3 up to 1h, jitter equal"},
		{"linear:1s,5m", api.Backoff{Kind: "linear", BaseMS: 1000, CapMS: 300_000}, "", "1s × attempts up to 5m"},
		{"linear:1s", api.Backoff{Kind: "linear", BaseMS: 1000}, "linear:1s,0", "1s × attempts"},
		{"fixed:30s,jitter=none", api.Backoff{Kind: "fixed", BaseMS: 30_000, Jitter: "none"}, "", "30s, jitter none"},
		{"list:0s,10s,1m", api.Backoff{Kind: "list", DelaysMS: []int64{0, 10_000, 60_000}}, "list:0,10s,1m", "0, 10s, 1m"},
		{"list:1h,jitter=full", api.Backoff{Kind: "list", DelaysMS: []int64{3_600_000}, Jitter: "full"}, "", "1h, jitter full"},
		{"0", api.Backoff{Factor: 2, CapMS: 300_000}, "", "none"},
	} {
		got, err := parseBackoff("retry-backoff", test.flag)
		if err != nil || !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s is read as %+v, %v; want %+v", test.flag, got, err, test.want)
			continue
		}
		if again := test.again; again == "" && backoffFlag(*got) != test.flag || again != "" && backoffFlag(*got) != again {
			t.Errorf("%s is written as %s", test.flag, backoffFlag(*got))
		}
		if text := backoffText(*got); text != test.text {
			t.Errorf("%s is shown as %q, want %q", test.flag, text, test.text)
		}
	}
	for flag, why := range map[string]string{
		"":            `"" is no duration`,
		"soon":        `"soon" is no duration`,
		"1s,much":     `the factor "much" is no number`,
		"1s,2,3m,4m":  "it has 4 parts, and at most 3 have a meaning",
		"fixed:1s,2s": "it has 2 parts, and at most 1 have a meaning",
		"steady:1s":   `there is no kind "steady"`,
		"list:" + strings.Repeat("1s,", 16) + "1s": "it has 17 parts, and at most 16 have a meaning",
	} {
		if got, err := parseBackoff("retry-backoff", flag); err == nil || !strings.Contains(err.Error(), "--retry-backoff is ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%q is read as %+v, %v; want %s", flag, got, err, why)
		}
	}
}
