package machine

import (
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// A chunk has no try left when it has had as many as are allowed, or was lost with its consumer as often as that is; 0 is no limit.
func TestSpent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed, own uint16 // tries, of the queue and of the submission
		expired      uint8  // how often a consumer may be lost
		op           journal.Returned
		want         bool
	}{
		{allowed: 3, op: journal.Returned{Attempts: 2}},
		{allowed: 3, op: journal.Returned{Attempts: 3}, want: true},
		{allowed: 3, own: 5, op: journal.Returned{Attempts: 4}},
		{allowed: 3, own: 2, op: journal.Returned{Attempts: 2}, want: true},
		{allowed: 0, op: journal.Returned{Attempts: 60_000}},
		{allowed: 9, expired: 2, op: journal.Returned{Reason: journal.Expired, Attempts: 2, Expiries: 1}},
		{allowed: 9, expired: 2, op: journal.Returned{Reason: journal.Expired, Attempts: 2, Expiries: 2}, want: true},
		{allowed: 9, expired: 2, op: journal.Returned{Reason: journal.Failed, Attempts: 3, Expiries: 2}},
		{allowed: 0, expired: 0, op: journal.Returned{Reason: journal.Expired, Attempts: 200, Expiries: 200}},
	} {
		m := &Machine{Settings: queue.Settings{MaxAttempts: c.allowed, MaxExpiries: c.expired}}
		p := &tries{m: m}
		if got := p.spent(&Record{more: &details{attempts: c.own}}, &c.op); got != c.want {
			t.Errorf("allowed %d, of the submission %d, lost %d times; after %+v: got %v, want %v", c.allowed, c.own, c.expired, c.op, got, c.want)
		}
	}
}
