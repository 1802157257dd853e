package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
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

// disk is what becomes of writes to a shard's files.
type disk struct {
	s       *Shard
	appends streak // to the journal
	writes  streak // to the store
}

// failing is nil while writes come through.
func (p *disk) failing() error {
	file, k := "journal", &p.appends
	if !k.degraded() {
		file, k = "store", &p.writes
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
func (p *disk) write(write func() error) error { return p.wrote(p.roomy(write)) }

func (p *disk) wrote(err error) error {
	p.writes.note(err)
	switch {
	case errors.Is(err, journal.ErrFull):
		p.s.full.Store(true)
	case errors.Is(err, journal.ErrSync):
		p.s.options.Fatal(err)
	}
	return err
}

// probe tries a write to each file that the last ones failed to, so that the shard recovers although no one calls it.
func (p *disk) probe() {
	s := p.s
	s.mu.Lock()
	if p.appends.degraded() && s.usable() == nil && s.writer.pending() == nil {
		s.m.Encode(s.now()).Epoch(s.m.Epoch)
		s.writer.kick()
	}
	row := checkpoint.Aside{Kind: machine.AsideSeq, Bytes: s.m.Asides.Row(machine.Aside{Kind: machine.AsideSeq})}
	s.mu.Unlock()
	if p.writes.degraded() {
		_ = p.write(func() error { return s.store.PutAside(context.Background(), []checkpoint.Aside{row}) }) // noted, which is all
	}
}
