package shard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// doors are the shard as its parts see it.
type doors Shard

var _ shell.Shell = (*doors)(nil)

// Look is shell.Shell's.
func (d *doors) Look(fn func(m *machine.Machine)) {
	d.mu.held(func() { fn(d.m) })
}

// Locked is shell.Shell's.
func (d *doors) Locked(fn func(m *machine.Machine, now queue.Time) error) (err error) {
	s := (*Shard)(d)
	now := s.now()
	s.mu.held(func() {
		if err = s.usable(); err == nil {
			s.alarm.advance()
			err = fn(s.m, now)
		}
	})
	return err
}

// Begin is shell.Shell's.
func (d *doors) Begin(fn func(m *machine.Machine, now queue.Time) error) (c *commit.Commit, err error) {
	err = d.Locked(func(m *machine.Machine, now queue.Time) error {
		if d.retired {
			return errClosing
		}
		err := fn(m, now)
		if err == nil {
			c = d.writer.pending()
		}
		return err
	})
	if c != nil {
		d.writer.kick()
	}
	return c, err
}

// Wait is shell.Shell's.
func (d *doors) Wait(waits commit.Set) error { return d.writer.wait(waits) }

// Seal is shell.Shell's.
func (d *doors) Seal() { d.writer.seal() }

// Wake is shell.Shell's.
func (d *doors) Wake(now queue.Time) { d.waiters.Serve(now) }

// Distrust is shell.Shell's.
func (d *doors) Distrust(cause error, now queue.Time) *commit.Commit {
	d.m.Encode(now) // so that the writer takes the batch
	d.m.Batch.Refused, d.broken = cause, cause
	return d.m.Batch.Commit
}

// Store is shell.Shell's.
func (d *doors) Store() *store.Store { return d.store }

// Now is shell.Shell's.
func (d *doors) Now() queue.Time { return (*Shard)(d).now() }

// setDurability makes the journal sync as the queue's settings say.
func (s *Shard) setDurability() error {
	var log journal.Journal
	var durability queue.Durability
	s.mu.held(func() { log, durability = s.writer.journal, s.m.Settings.Durability })
	return log.SetDurability(durability)
}

// putActs puts entries into the audit log, and makes room for that on a full disk.
func (s *Shard) putActs(ctx context.Context, list []journal.Act) error {
	return s.disk.Roomy(func() error { return s.options.Audit.Put(ctx, list) })
}

// queue has the name and the log that parts use for the shard.
func (d *doors) queue() shell.Queue {
	return shell.Queue{Name: d.options.Queue, Logger: d.options.Logger.With("queue", d.options.Queue),
		Seed: d.options.Seed}
}

// holdLock is the shard's mutex. It reports how long each hold took, because that is how long all others had to wait.
type holdLock struct {
	locks.Mutex[shell.InMachine]
	now    func() time.Time
	report func(time.Duration) // nil: no one measures
	at     time.Time

	watched bool          // someone asks for Moments
	changes atomic.Uint64 // holds that may have changed something
}

// Lock takes the mutex for a hold that may change something. Only looked does not count as a change.
func (l *holdLock) Lock() {
	l.Mutex.Lock()
	l.begin()
	l.change()
}

func (l *holdLock) Unlock() {
	l.end()
	l.Mutex.Unlock()
}

func (l *holdLock) begin() {
	if l.report != nil {
		l.at = l.now()
	}
}

func (l *holdLock) end() {
	if l.report != nil {
		l.report(l.now().Sub(l.at))
	}
}

// change says that something changes. The mutex is held.
func (l *holdLock) change() {
	if l.watched {
		l.changes.Add(1)
	}
}

// held calls fn with the mutex held.
func (l *holdLock) held(fn func()) {
	l.Lock()
	defer l.Unlock()
	fn()
}

// looked is like held, for a fn that itself calls change if it changes something.
func (l *holdLock) looked(fn func()) {
	l.Mutex.Lock()
	defer l.Mutex.Unlock()
	l.begin()
	defer l.end()
	fn()
}
