package machine

import (
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// A chunk has no try left when it has had as many as are allowed, or has expired as often as is allowed; 0 is no limit.
func TestSpent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed, own uint16 // tries, of the queue and of the submission
		expired      uint8  // how often a chunk may expire
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
		settings := &queue.Settings{MaxAttempts: c.allowed, MaxExpiries: c.expired}
		own := &details{attempts: c.own}
		if got := spent(&c.op, own.MaxAttempts(settings), settings.MaxExpiries); got != c.want {
			t.Errorf("allowed %d, of the submission %d, lost %d times; after %+v: got %v, want %v", c.allowed, c.own, c.expired, c.op, got, c.want)
		}
	}
}

// The number of a try, and the counters of failed and expired tries, stay at the largest number that fits. They never
// begin again at 0.
func TestCountersOfTriesDoNotWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		had, next uint16
		expired   uint8
		lost      uint8 // after one more deadline that passed
	}{
		{had: 1, next: 2, expired: 0, lost: 1},
		{had: 65_534, next: 65_535, expired: 254, lost: 255},
		{had: 65_535, next: 65_535, expired: 255, lost: 255},
	} {
		m := &Machine{Holds: reserver.New(0, 0)}
		r := &Record{Seq: 1, Holds: reserver.NewList(), Tries: map[uint32]*Try{7: {Attempts: c.had, Expiries: c.expired}}}
		if got := r.Attempt(7); got != c.next {
			t.Errorf("after %d tries the next is told as %d, want %d", c.had, got, c.next)
		}
		if op := (&tries{m: m}).Count(r, 7, journal.Expired, 0); op.Attempts != c.next || op.Expiries != c.lost {
			t.Errorf("after %d tries, %d expired: counted %d and %d, want %d and %d", c.had, c.expired, op.Attempts, op.Expiries, c.next, c.lost)
		}
	}
}
