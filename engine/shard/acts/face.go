// Package acts writes entries of the audit log to a shard's journal, and from there to the
// log. The machine has the entries that are not in the log yet.
package acts

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Acts has the calls about the entries.
type Acts struct {
	shell.Shell
	// Put puts entries into the audit log: durably, and each once, however often it gets them. nil: there is no log.
	Put func(ctx context.Context, list []journal.Act) error
}

// Record makes an entry of the audit log durable in a commit of its own, for acts that change only
// memory. after is the outcome in the entry; nil: none.
func (a Acts) Record(act queue.Act, after any) error {
	return shell.Change(a, func(m *machine.Machine, now queue.Time) error {
		m.ActLog.Tell(now, []queue.Act{act}, nil, after)
		return nil
	})
}

// Fresh are the entries that the audit log does not have yet, the oldest first. The list
// must not be changed.
func (a Acts) Fresh() (list []journal.Act) {
	a.Look(func(m *machine.Machine) { list = slices.Clip(m.ActLog.Fresh) })
	return list
}

// HandOver puts the entries of a machine that the audit log lacks into the log, and drops them from the machine.
func (a Acts) HandOver(ctx context.Context, of *machine.Machine) error {
	fresh := a.Fresh()
	if len(fresh) == 0 || a.Put == nil {
		return nil
	}
	if err := a.Put(ctx, fresh); err != nil {
		return err
	}
	a.Look(func(m *machine.Machine) {
		if m == of { // else the reloaded machine has them again
			m.ActLog.Fresh = slices.Clone(m.ActLog.Fresh[len(fresh):])
		}
	})
	return nil
}
