package trouble

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// No pause is longer than five seconds, and a clock that is set back does not make it so.
func TestPauses(t *testing.T) {
	t.Parallel()
	var tr Kind
	now := queue.Time(1_700_000_000_000)
	last := time.Duration(0)
	for n := range 40 {
		seed := uint64(n) * 0x9E3779B97F4A7C15
		tr.fail(context.Canceled, now, seed)
		pause := tr.again.Sub(now)
		if pause > longestWait || pause < time.Duration(float64(firstPause)*(1-pauseJitter))-time.Millisecond {
			t.Fatalf("failure %d: a pause of %s", n, pause)
		}
		if tr.May(now) || !tr.May(now.Add(pause)) {
			t.Fatalf("failure %d: may = %v at once, %v after the pause", n, tr.May(now), tr.May(now.Add(pause)))
		}
		if !tr.May(now.Add(-time.Hour)) {
			t.Fatalf("failure %d: the clock is set back an hour, and the kind sleeps on", n)
		}
		if n > 10 && pause < 3*time.Second {
			t.Fatalf("failure %d: a pause of only %s after one of %s", n, pause, last)
		}
		last = pause
	}
	tr.Pass(now, 3)
	if tr.Failures != 0 || tr.Err != nil || !tr.May(now) || tr.Success != now || tr.Failed != 40 {
		t.Errorf("after a success: %+v", tr)
	}
}

const start = queue.Time(1_700_000_000_000)

func book() *Book { return New(slog.New(slog.DiscardHandler), func() uint64 { return 7 }) }

// One of 64 actions of one kind cannot be written. Halving finds it, and it is parked. It delays the others no longer
// than that takes.
func TestBisectingFindsTheOneToBlame(t *testing.T) {
	t.Parallel()
	b, bad, now := book(), 41, start
	left := make([]int, 64)
	for i := range left {
		left[i] = i
	}
	for slices := 0; len(left) > 0 && slices < 200; slices++ {
		now = now.Add(longestWait) // the pause is over
		k := &b.Kinds[machine.KindRetry]
		if !k.May(now) {
			t.Fatalf("slice %d: the kind still pauses", slices)
		}
		n := min(k.Most(), len(left))
		var err error
		for _, x := range left[:n] {
			if x == bad {
				err = errors.New("this one cannot be written")
			}
		}
		last := machine.Action{Kind: machine.KindRetry, Submission: 1, Index: uint32(left[n-1])}
		b.Judge(machine.KindRetry, &Slice{Stepped: true, Looked: n, Encoded: n, Last: last}, err, now)
		if b.Parked[last] != nil {
			if left[0] != bad || n != 1 {
				t.Fatalf("parked %d of a slice of %d, want %d alone", left[n-1], n, bad)
			}
			left = left[1:]
		} else if err == nil {
			left = left[n:]
		}
	}
	if len(left) > 0 || len(b.Parked) != 1 {
		t.Fatalf("%d actions are left and %d parked, want none left and one parked", len(left), len(b.Parked))
	}
}

// A full disk is not the fault of an action, however often it fails.
func TestFullDiskParksNothing(t *testing.T) {
	t.Parallel()
	b := book()
	a := machine.Action{Kind: machine.KindSchedule, Schedule: "nightly"}
	for range 10 * ParkAfter {
		b.Judge(machine.KindRetry, &Slice{Stepped: true, Looked: 1, Encoded: 1, Last: machine.Action{Kind: machine.KindRetry, Submission: 1}},
			journal.ErrFull, start)
		b.Blame(a, journal.ErrFull, start)
	}
	if len(b.Parked) != 0 || b.Suspected(a) {
		t.Errorf("parked %v, suspected %t", b.Parked, b.Suspected(a))
	}
	if b.Assess(); !b.Degraded {
		t.Error("the shard is not degraded, though nothing could be written")
	}
}

// An action that succeeded in between is not parked: only failures in a row count.
func TestSuccessClearsTheBlame(t *testing.T) {
	t.Parallel()
	b, a, failed := book(), machine.Action{Kind: machine.KindSchedule, Schedule: "nightly"}, errors.New("no")
	for range 3 {
		for range ParkAfter {
			b.Blame(a, failed, start)
		}
		b.Clear(a)
	}
	if len(b.Parked) != 0 {
		t.Fatal("parked, though it came through")
	}
	for range ParkAfter + 1 {
		b.Blame(a, failed, start)
	}
	if p := b.Parked[a]; p == nil || p.Err != failed || p.Since != start {
		t.Errorf("parked: %+v, want the failure and its time", p)
	}
}
