package main

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// The line about recounts says how far they are. Of the newest drift it says whose it was, the kept number and the
// right one.
func TestRecountLine(t *testing.T) {
	t.Parallel()
	at := api.At(time.Date(2026, 1, 5, 8, 1, 0, 0, time.UTC))
	seven := api.Int(7)
	for _, test := range []struct {
		of   api.Recount
		want []string
	}{
		{api.Recount{}, []string{"no round is over yet, 0 drifts"}},
		{api.Recount{LastRoundAt: &at, Submissions: 60, Values: 4}, []string{"last round at " + moment(at), "60 submissions and 4 values checked", "0 drifts"}},
		{api.Recount{Drifts: 2, Newest: &api.CounterDrift{Scope: "value", Counter: "in_flight", Key: "company", Value: &seven, Kept: 5, Recounted: 4, At: at}}, []string{"2 drifts", "in_flight of value company=7 was 5, is 4"}},
		{api.Recount{Drifts: 1, Newest: &api.CounterDrift{Scope: "submission", Counter: "done", Submission: "123", Kept: 1, Recounted: 2, At: at}}, []string{"done of submission 123 was 1, is 2"}},
		{api.Recount{Stopped: true}, []string{"stopped"}},
	} {
		got := recountLine(&test.of)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: got %q, want %q in it", test.of, got, want)
			}
		}
	}
}
