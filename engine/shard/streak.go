package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// streak counts the writes to one file that failed in a row. A full disk is none of them: it has a check of its own, and inserts are
// refused until it has room.
type streak struct{ failed atomic.Int32 }

// note counts how a write ended.
func (k *streak) note(err error) {
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

// degraded says that so many writes failed that the next one is not expected to come through.
func (k *streak) degraded() bool { return k.failed.Load() >= degradedAfter }

// failing is nil while writes come through.
func (s *Shard) failing() error {
	file, k := "journal", &s.appends
	if !k.degraded() {
		file, k = "store", &s.writes
	}
	if !k.degraded() {
		return nil
	}
	return &queue.Error{Code: queue.CodeUnavailable, Message: fmt.Sprintf("degraded: the last %d writes to the "+
		"queue's %s failed. What needs none goes on, and one is tried every second. The server's "+
		"log says what is wrong.", k.failed.Load(), file)}
}

// write writes to the store, with the room that is kept back for completions, and counts how it ended. After a failed sync no one knows
// what the disk holds: the process ends.
func (s *Shard) write(write func() error) error { return s.wrote(s.roomy(write)) }

func (s *Shard) wrote(err error) error {
	s.writes.note(err)
	switch {
	case errors.Is(err, journal.ErrFull):
		s.full.Store(true)
	case errors.Is(err, journal.ErrSync):
		s.options.Fatal(err)
	}
	return err
}

// probe tries a write to each file that the last ones failed to, so that the shard recovers although no one calls it.
func (s *Shard) probe() {
	s.mu.Lock()
	if s.appends.degraded() && s.usable() == nil && s.writer.pending() == nil {
		s.m.encode(s.now()).Epoch(s.m.epoch)
		s.writer.kick()
	}
	row := store.Aside{Kind: asideSeq, Bytes: s.m.asideRow(aside{kind: asideSeq})}
	s.mu.Unlock()
	if s.writes.degraded() {
		_ = s.write(func() error { return s.store.PutAside(context.Background(), []store.Aside{row}) }) // noted, which is all
	}
}
