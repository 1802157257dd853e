package disk

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

func own(t *testing.T, free func() bool) (d *Disk, fatal *error) {
	t.Helper()
	fatal = new(error)
	return &Disk{Full: new(atomic.Bool), Free: free, Fatal: func(err error) { *fatal = err }}, fatal
}

// A write that finds the disk full is made once more with the reserved space; without any, its caller gets the error.
// Either way inserts are refused from then on, and the disk is not called failing: a full disk has a check of its own.
func TestFullDiskHasRoomForOneMore(t *testing.T) {
	t.Parallel()
	for _, ballast := range []int{0, 1, 3} {
		left, writes := ballast, 0
		d, _ := own(t, func() bool { left--; return left >= 0 })
		for range 5 {
			err := d.Write(func() error {
				if writes++; left == ballast || left < 0 {
					return journal.ErrFull
				}
				return nil
			})
			if got, want := errors.Is(err, journal.ErrFull), left < 0; got != want {
				t.Errorf("ballast %d: %v with %d left", ballast, err, left)
			}
		}
		if !d.Full.Load() || d.Failing() != nil {
			t.Errorf("ballast %d: full %t, failing %v", ballast, d.Full.Load(), d.Failing())
		}
	}
}

// After several failed writes in a row the disk is failing, until a write succeeds. A write that its caller cancelled
// does not count.
func TestFailuresInARow(t *testing.T) {
	t.Parallel()
	d, _ := own(t, func() bool { return false })
	fail := func(err error) { _ = d.Write(func() error { return err }) }
	for range 10 {
		fail(context.Canceled)
		fail(errors.New("no"))
		fail(nil)
	}
	if err := d.Failing(); err != nil {
		t.Fatalf("failing after single failures: %v", err)
	}
	for n := 1; n <= failingAfter; n++ {
		if d.Failing() != nil {
			t.Fatalf("failing after %d failures", n-1)
		}
		fail(errors.New("no"))
	}
	if err := d.Failing(); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Fatalf("after %d failures: %v", failingAfter, err)
	}
	if fail(nil); d.Failing() != nil {
		t.Error("failing after a success")
	}
}

// A failed sync ends the process: no one knows what the disk holds.
func TestFailedSyncIsFatal(t *testing.T) {
	t.Parallel()
	d, fatal := own(t, func() bool { return true })
	if err := d.Write(func() error { return journal.ErrSync }); !errors.Is(err, journal.ErrSync) || !errors.Is(*fatal, journal.ErrSync) {
		t.Errorf("%v, and the process ended with %v", err, *fatal)
	}
}
