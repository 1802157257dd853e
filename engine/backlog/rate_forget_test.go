package backlog

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// Values that no submission has are forgotten when they are too many. One that comes again waits as if it had just been taken, and then
// it is offered: also one that something else has kept, and under two rates.
func TestRatesForgetValuesAndOfferThemAgain(t *testing.T) {
	t.Parallel()
	b, rnd, now := New(), rand.New(rand.NewPCG(1, 1)), int64(1e18)
	b.Values.Rates.Advance(now)
	minute, hour := rateOf("a", 1, time.Minute, 1), rateOf("a", 1, time.Hour, 1)
	both := b.Views.Of(new(limited(0, minute, hour)))
	kept := limited(0, minute)
	kept.Filters = append(kept.Filters, equals("a", 7))
	b.Views.Of(&kept)
	seq := uint32(0)
	insert := func(value int64) *Submission {
		seq++
		s := b.Insert(Spec{Seq: seq, ID: queue.SubmissionID(seq), Chunks: 1, Meta: queue.Meta{{Key: "a", Value: queue.IntValue(value)}}})
		b.Show(s)
		return s
	}
	for !both.Build(100) {
	}
	for value := range int64(2*mostRemembered + 10) {
		s := insert(value)
		_, _, ok := b.Take(both, rnd)
		b.Remove(s)
		if !ok { // all were forgotten: those that come now wait
			if value <= mostRemembered {
				t.Fatalf("value %d is not offered at first", value)
			}
			break
		}
	}
	if _, values := b.Values.Rates.Known(); values > mostRemembered {
		t.Errorf("%d values are remembered, want at most %d", values, mostRemembered)
	}
	if forgotten := b.Values.Rates.forgotten; forgotten <= mostRemembered {
		t.Errorf("%d values were forgotten, want more than %d", forgotten, mostRemembered)
	}
	for _, value := range []int64{7, 8, 2*mostRemembered + 99} {
		insert(value)
		if _, _, ok := b.Take(both, rnd); ok {
			t.Errorf("value %d is offered again at once", value)
		}
	}
	now += int64(2 * time.Hour)
	for at, there := b.Values.Rates.Next(); there && at <= now; at, there = b.Values.Rates.Next() {
		b.Values.Rates.Advance(now)
	}
	for n := range 3 {
		if _, _, ok := b.Take(both, rnd); !ok {
			t.Errorf("after two hours %d of 3 values are offered", n)
		}
	}
}
