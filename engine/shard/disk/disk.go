// Package disk reacts to failing writes of a shard: it frees the room that is reserved for
// completions, counts writes that fail in a row, and reports a failed sync, after which the
// state of the disk is unknown.
package disk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Disk is the disk of one shard. It is safe for concurrent use.
type Disk struct {
	Full    *atomic.Bool // the disk is full; others may share it
	Free    func() bool  // makes room on a full disk; false when there is none left to free
	Fatal   func(error)  // ends the process: the disk lost what it had acknowledged
	Appends Streak       // to the journal
	Writes  Streak       // to the store
}

// Failing is nil while writes succeed.
func (d *Disk) Failing() error {
	file, k := "journal", &d.Appends
	if !k.Degraded() {
		file, k = "store", &d.Writes
	}
	if !k.Degraded() {
		return nil
	}
	return &queue.Error{Code: queue.CodeUnavailable, Message: fmt.Sprintf("degraded: the last %d writes to the "+
		"queue's %s failed. Calls that write nothing go on, and the server tries a write every second. The server's "+
		"log says what is wrong.", k.failed.Load(), file)}
}

// Write makes a write to the store, with the space that is reserved for completions, and counts its result. After a
// failed sync the state of the disk is unknown, and the process ends.
func (d *Disk) Write(write func() error) error { return d.Wrote(d.Roomy(write)) }

// Wrote counts the result of a write to the store, and returns its error.
func (d *Disk) Wrote(err error) error {
	d.Writes.Note(err)
	switch {
	case errors.Is(err, journal.ErrFull):
		d.Full.Store(true)
	case errors.Is(err, journal.ErrSync):
		d.Fatal(err)
	}
	return err
}

// Roomy runs a write; when the disk is full it frees the ballast and tries once more, so
// that completions get through on a disk that inserts have filled.
func (d *Disk) Roomy(write func() error) error {
	err := write()
	if errors.Is(err, journal.ErrFull) {
		d.Full.Store(true)
		if d.Free() {
			return write()
		}
	}
	return err
}

// Streak counts the writes to one file that failed in a row. A full disk does not count: it has a check of its own, and
// inserts are refused until it has room.
type Streak struct{ failed atomic.Int32 }

// Note counts how a write ended.
func (k *Streak) Note(err error) {
	switch {
	case err == nil:
		if k.failed.Load() > 0 {
			k.failed.Store(0)
		}
	case errors.Is(err, journal.ErrFull), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		k.failed.Add(1)
	}
}

// failingAfter is the number of failed writes in a row after which the disk counts as failing.
const failingAfter = 3

// Degraded says that so many writes have failed in a row that the next one is expected to fail.
func (k *Streak) Degraded() bool { return k.failed.Load() >= failingAfter }
