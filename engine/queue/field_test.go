package queue

import (
	"strings"
	"testing"
	"time"
)

// A field of a schedule or a submission that is not allowed is refused with its name, the value, and what is allowed; one that says
// nothing is allowed.
func TestFieldsRefuseWithTheirDeclaration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		schedule   func(*Schedule)
		submission func(*NewSubmission)
		want       string
	}{
		{schedule: func(s *Schedule) { s.CatchUp = 0 }, want: "/catchup_limit is 0; 1 to 1,000 are allowed"},
		{schedule: func(s *Schedule) { s.CatchUpWindow = time.Millisecond }, want: "/catchup_window_ms is 1; 1,000 to 31,622,400,000 are allowed"},
		{schedule: func(s *Schedule) { s.Jitter = -time.Second }, want: "/jitter_ms is -1000; 0 to 86,400,000 are allowed"},
		{schedule: func(s *Schedule) { s.DeadAfter = -time.Second }, want: "/template/dead_after_ms is -1000; 0 (none) to 315,360,000,000 are allowed"},
		{schedule: func(s *Schedule) { s.Missed = 3 }, want: "/missed must be once, skip or all"},
		{schedule: func(s *Schedule) { s.Overlap = 3 }, want: "/overlap must be allow, skip or buffer_one"},
		{schedule: func(s *Schedule) { s.End = -1 }, want: "/end is before 1970"},
		{schedule: func(s *Schedule) { s.Start, s.End = 2, 1 }, want: "/end is before start: there could never be a tick"},
		{schedule: func(s *Schedule) {}},
		{submission: func(n *NewSubmission) { n.Priority = MaxPriority + 1 }, want: "/priority is 9007199254740992; -9,007,199,254,740,991 to 9,007,199,254,740,991 are allowed"},
		{submission: func(n *NewSubmission) { n.MaxAttempts = 1001 }, want: "/max_attempts is 1001; 0 (the queue's) to 1,000 are allowed"},
		{submission: func(n *NewSubmission) { n.OnExhausted = Skip + 1 }, want: "/on_exhausted must be fail_submission, dead_letter or skip"},
		{submission: func(n *NewSubmission) { n.Group = strings.Repeat("g", 257) }, want: "/group has 257 bytes; at most 256 are allowed"},
		{submission: func(n *NewSubmission) { n.Group = "\xff" }, want: "/group is not UTF-8"},
		{submission: func(n *NewSubmission) { n.RunAt = -1 }, want: "/run_at is before 1970"},
		{submission: func(n *NewSubmission) { n.RunAt, n.DeadDeadline = 2, 2 }, want: "/dead_deadline is not after run_at"},
		{submission: func(n *NewSubmission) {}},
	} {
		schedule, submission := DefaultSchedule(), NewSubmission{}
		if test.schedule != nil {
			test.schedule(&schedule)
		} else {
			test.submission(&submission)
		}
		err := schedule.Valid()
		if err == nil {
			err = submission.Valid()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
